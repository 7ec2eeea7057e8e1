// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

// The commands. They read everything first and write object by object.
const (
	// readOnly refuses new objects and changes of spec. Metadata can be changed: finalizers have to go.
	readOnly = `kubectl apply -f - <<'EOF'
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: read-only.OLDPLURAL.OLDGROUP
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - apiGroups: ["OLDGROUP"]
      apiVersions: ["*"]
      operations: ["CREATE", "UPDATE"]
      resources: ["OLDPLURAL"]
  validations:
  - expression: request.operation == "UPDATE" && has(object.spec) == has(oldObject.spec) && (!has(object.spec) || object.spec == oldObject.spec)
    message: OLDKIND in OLDGROUP is being replaced by NEWKIND in NEWAPI, and cannot be changed
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: read-only.OLDPLURAL.OLDGROUP
spec:
  policyName: read-only.OLDPLURAL.OLDGROUP
  validationActions: ["Deny"]
EOF`

	copyObjects = `kubectl get OLD -A -o json |
  jq '.items |= map(select(.metadata.deletionTimestamp == null) | STATUS.apiVersion = "NEWAPI" | .kind = "NEWKIND" |
    .metadata |= ({name, namespace, labels, annotations, ownerReferences} | del(.annotations["kubectl.kubernetes.io/last-applied-configuration"]) | with_entries(select(.value != null))))' |
  kubectl apply --server-side --field-manager=copy-of-OLDPLURAL -f -`

	copyStatus = `kubectl get OLD -A -o json | jq -c '.items[] | select(.status != null) | {metadata: {name: .metadata.name, namespace: .metadata.namespace}, status}' |
  while read -r object; do
    kubectl patch NEW "$(jq -r .metadata.name <<<"$object")" --namespace "$(jq -r '.metadata.namespace // ""' <<<"$object")" \
      --subresource=status --type=merge --patch "$(jq -c '{status}' <<<"$object")"
  done`

	reparent = `uids=$(kubectl get NEW -A -o json | jq -c '[.items[] | {key: ((.metadata.namespace // "") + "/" + .metadata.name), value: .metadata.uid}] | from_entries')
for resource in $(kubectl api-resources --verbs=list,patch -o name); do
  kubectl get "$resource" -A -o json | jq -c --argjson uids "$uids" '
    def old: .kind == "OLDKIND" and (.apiVersion | startswith("OLDGROUP/"));
    .items[] | . as $child | select(any(.metadata.ownerReferences[]?; old)) |
    {metadata: (.metadata | {name, namespace, resourceVersion} + {ownerReferences: [.ownerReferences[] |
      if old then .apiVersion = "NEWAPI" | .kind = "NEWKIND" | .uid = ($uids[KEY] // error("no copy of " + .name)) else . end]})}' |
  while read -r child; do
    kubectl patch "$resource" "$(jq -r .metadata.name <<<"$child")" --namespace "$(jq -r '.metadata.namespace // ""' <<<"$child")" --type=merge --patch "$child"
  done # with the children of one kind
done`

	removeFinalizers = `kubectl get OLD -A -o json | jq -c --argjson finalizers '[FINALIZERS]' '
  .items[] | select(any(.metadata.finalizers[]?; IN($finalizers[]))) |
  {metadata: (.metadata | {name, namespace, resourceVersion, finalizers: (.finalizers - $finalizers)})}' |
  while read -r object; do
    kubectl patch OLD "$(jq -r .metadata.name <<<"$object")" --namespace "$(jq -r '.metadata.namespace // ""' <<<"$object")" --type=merge --patch "$object"
  done`

	deleteOld = `old=$(kubectl get OLD -A -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}') &&
new=$(kubectl get NEW -A -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}') &&
missing=$(comm -23 <(sort <<<"$old") <(sort <<<"$new")) &&
if [ -z "$missing" ]; then kubectl delete OLD --all -A --cascade=orphan; else echo "no copy of $missing" >&2; false; fi`

	retireCRD = `objects=$(kubectl get OLD -A -o name) && test -z "$objects" &&
  kubectl delete --ignore-not-found crd/OLDPLURAL.OLDGROUP validatingadmissionpolicybinding/read-only.OLDPLURAL.OLDGROUP validatingadmissionpolicy/read-only.OLDPLURAL.OLDGROUP`
)
