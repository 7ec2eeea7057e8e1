{{- /* The values that the generated templates read. kube-migrator/internal/install has the same rules in Go, and kube-migrator/test/chart compares
both. */ -}}

{{- define "kube-migrator.image" -}}
{{- required "no image is set\nTry: helm upgrade --install kube-migrator charts/kube-migrator --namespace kube-migrator --set image=registry.example.com/kube-migrator:v1.0.0" .Values.image -}}
{{- end -}}

{{- /* What decides which objects and rules there are. */ -}}
{{- define "kube-migrator.mode" -}}
{{- if .Values.guard }}guarded{{ else }}unguarded{{ end }}
{{- if .Values.include }}-include{{ end }}
{{- end -}}

{{- /* The included resources: a list of groups in alphabetical order, each with the names in it. */ -}}
{{- define "kube-migrator.included" -}}
{{- $names := dict -}}
{{- range .Values.include -}}
{{- $parts := splitn "." 2 . -}}
{{- $group := default "" $parts._1 -}}
{{- $_ := set $names $group (append (default (list) (get $names $group)) $parts._0) -}}
{{- end -}}
{{- $groups := list -}}
{{- range keys $names | sortAlpha -}}
{{- $groups = append $groups (dict "group" . "names" (get $names . | uniq | sortAlpha)) -}}
{{- end -}}
{{- toYaml $groups -}}
{{- end -}}

{{- define "kube-migrator.arguments" -}}
- controller
- --namespace={{ .Release.Namespace }}
- --workers=jobs
- --worker-image={{ include "kube-migrator.image" . }}
- --worker-image-pull-policy={{ .Values.imagePullPolicy }}
- --worker-service-account=kube-migrator-worker
- --max-concurrent-migrations={{ int64 .Values.maxConcurrentMigrations }}
- --auto-trigger={{ .Values.autoTrigger }}
- --bootstrap={{ .Values.bootstrap }}
{{- if eq (include "kube-migrator.mode" .) "guarded" }}
- --worker-role=kube-migrator-worker-later
{{- end }}
{{- if hasPrefix "guarded" (include "kube-migrator.mode" .) }}
- --worker-versions-role=kube-migrator-worker-versions
{{- end }}
- --discovery-period={{ .Values.discoveryPeriod }}
{{- with int64 .Values.maxRate }}
- --max-rate={{ . }}
{{- end }}
{{- with int64 .Values.maxInFlight }}
- --max-in-flight={{ . }}
{{- end }}
{{- with int64 .Values.maxBandwidth }}
- --max-bandwidth={{ . }}
{{- end }}
{{- range .Values.include }}
- --include={{ . }}
{{- end }}
{{- if .Values.metrics.certSecret }}
- --metrics-cert-dir=/etc/kube-migrator/metrics
{{- end }}
- --min-evidence={{ .Values.minEvidence }}
- --settle-time={{ .Values.settleTime }}
- --shutdown-delay={{ .Values.shutdownDelay }}
- --leader-elect=true
- --metrics-bind-address=:8443
- --health-probe-bind-address=:8081
{{- end -}}

{{- /* Scrapes of metrics, and probes from anywhere: they come from the node, whose address no policy can name. */ -}}
{{- define "kube-migrator.ingress" -}}
- ports:
  - port: 8443
    protocol: TCP
  {{- with .Values.metrics.fromNamespaces }}
  from:
  - namespaceSelector:
      matchExpressions:
      - key: kubernetes.io/metadata.name
        operator: In
        values:
        {{- range . | uniq | sortAlpha }}
        - {{ . | quote }}
        {{- end }}
  {{- end }}
- ports:
  - port: 8081
    protocol: TCP
{{- end -}}

{{- define "kube-migrator.egress" -}}
{{- range .Values.egressTo }}
{{- $address := splitn "/" 2 . }}
{{- $length := splitn ":" 2 $address._1 }}
- ports:
  - protocol: TCP
    {{- with $length._1 }}
    port: {{ . }}
    {{- end }}
  to:
  - ipBlock:
      cidr: {{ printf "%s/%s" $address._0 $length._0 | quote }}
{{- else }}
- ports:
  - protocol: TCP
{{- end }}
- ports:
  - port: 53
    protocol: UDP
  - port: 53
    protocol: TCP
{{- end -}}
