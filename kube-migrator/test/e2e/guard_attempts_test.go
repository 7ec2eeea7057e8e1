// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// samples are objects that are worth an attack, and some of every kind that has defaults or strategies of its own.
var samples = [][2]string{
	{"/api/v1/namespaces", `{"metadata":{"name":"victim","labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}`},
	{"/api/v1/namespaces/victim/secrets", `{"metadata":{"name":"password"},"stringData":{"password":"hunter2"}}`},
	{"/api/v1/namespaces/victim/configmaps", `{"metadata":{"name":"settings"},"data":{"a":"b"}}`},
	{"/api/v1/namespaces/victim/configmaps",
		`{"metadata":{"name":"impostor","labels":{"app.kubernetes.io/name":"kube-migrator","app.kubernetes.io/component":"worker"}}}`},
	{"/api/v1/namespaces/victim/configmaps", `{"metadata":{"name":"large"},"data":{"a":"` +
		strings.Repeat("x", 900_000) + `"}}`},
	{"/api/v1/namespaces/victim/serviceaccounts", `{"metadata":{"name":"robot"}}`},
	{"/apis/" + v1 + "/namespaces/default/widgets",
		`{"apiVersion":"` + v1 + `","kind":"Widget","metadata":{"name":"owned"},"spec":{"size":1}}`},
	{"/api/v1/namespaces/victim/services", `{"metadata":{"name":"front"},"spec":{"ports":[{"port":80}]}}`},
	{"/api/v1/namespaces/victim/persistentvolumeclaims",
		`{"metadata":{"name":"disk"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`},
	{
		"/api/v1/persistentvolumes",
		`{"metadata":{"name":"disk"},"spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"hostPath":{"path":"/tmp"}}}`,
	},
	{"/api/v1/namespaces/victim/resourcequotas", `{"metadata":{"name":"quota"},"spec":{"hard":{"pods":"10"}}}`},
	{"/api/v1/namespaces/victim/limitranges",
		`{"metadata":{"name":"limits"},"spec":{"limits":[{"type":"Container","default":{"cpu":"1"}}]}}`},
	{"/api/v1/namespaces/victim/replicationcontrollers",
		`{"metadata":{"name":"rc"},"spec":{"replicas":0,"selector":{"a":"b"},"template":` + podTemplate + `}}`},
	{"/api/v1/namespaces/victim/podtemplates", `{"metadata":{"name":"template"},"template":` + podTemplate + `}`},
	{
		"/api/v1/namespaces/victim/events",
		`{"metadata":{"name":"event"},"involvedObject":{"kind":"Pod","name":"web","namespace":"victim"},"reason":"R"}`,
	},
	// Its managedFields name another group than that of the endpoint at which Events are rewritten, and the API server
	// drops them there.
	{"/apis/events.k8s.io/v1/namespaces/victim/events",
		`{"metadata":{"name":"note"},"eventTime":"2026-01-02T03:04:05.000006Z","action":"A","reason":"R","note":"n","type":"Normal",` +
			`"regarding":{"apiVersion":"v1","kind":"Pod","name":"web","namespace":"victim"},"reportingController":"c","reportingInstance":"i"}`},
	{
		"/api/v1/namespaces/victim/endpoints",
		`{"metadata":{"name":"front"},"subsets":[{"addresses":[{"ip":"192.0.2.7"}],"ports":[{"port":80}]}]}`,
	},
	{"/api/v1/nodes", `{"metadata":{"name":"node-1"}}`},
	{
		"/api/v1/namespaces/victim/pods",
		`{"metadata":{"name":"web"},"spec":{"nodeName":"node-1","serviceAccountName":"robot","containers":[{"name":"c","image":"registry.example.com/web:v1"}]}}`,
	},
	{"/apis/apps/v1/namespaces/victim/deployments",
		`{"metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":` + podTemplate + `}}`},
	{"/apis/apps/v1/namespaces/victim/statefulsets",
		`{"metadata":{"name":"db"},"spec":{"serviceName":"front","selector":{"matchLabels":{"a":"b"}},"template":` +
			podTemplate + `}}`},
	{"/apis/apps/v1/namespaces/victim/daemonsets",
		`{"metadata":{"name":"agent"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":` + podTemplate + `}}`},
	{"/apis/apps/v1/namespaces/victim/replicasets",
		`{"metadata":{"name":"rs"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":` +
			podTemplate + `}}`},
	{"/apis/batch/v1/namespaces/victim/jobs",
		`{"metadata":{"name":"job"},"spec":{"suspend":true,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"x"}]}}}}`},
	{"/apis/batch/v1/namespaces/victim/cronjobs",
		`{"metadata":{"name":"nightly"},"spec":{"schedule":"@daily","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never",` +
			`"containers":[{"name":"c","image":"x"}]}}}}}}`},
	{"/apis/autoscaling/v2/namespaces/victim/horizontalpodautoscalers",
		`{"metadata":{"name":"web"},"spec":{"maxReplicas":2,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}}}`},
	{"/apis/networking.k8s.io/v1/namespaces/victim/ingresses",
		`{"metadata":{"name":"web"},"spec":{"defaultBackend":{"service":{"name":"front","port":{"number":80}}}}}`},
	{"/apis/networking.k8s.io/v1/namespaces/victim/networkpolicies",
		`{"metadata":{"name":"deny"},"spec":{"podSelector":{}}}`},
	{"/apis/policy/v1/namespaces/victim/poddisruptionbudgets",
		`{"metadata":{"name":"web"},"spec":{"maxUnavailable":1,"selector":{"matchLabels":{"a":"b"}}}}`},
	{"/apis/coordination.k8s.io/v1/namespaces/victim/leases",
		`{"metadata":{"name":"lease"},"spec":{"holderIdentity":"me"}}`},
	{"/apis/discovery.k8s.io/v1/namespaces/victim/endpointslices",
		`{"metadata":{"name":"slice"},"addressType":"IPv4","endpoints":[{"addresses":["192.0.2.8"]}]}`},
	{"/apis/storage.k8s.io/v1/storageclasses", `{"metadata":{"name":"fast"},"provisioner":"example.com/disk"}`},
	{"/apis/storage.k8s.io/v1/csidrivers", `{"metadata":{"name":"disk.example.com"},"spec":{}}`},
	{"/apis/scheduling.k8s.io/v1/priorityclasses", `{"metadata":{"name":"high"},"value":1000}`},
	{"/apis/node.k8s.io/v1/runtimeclasses", `{"metadata":{"name":"gvisor"},"handler":"runsc"}`},
	{"/apis/apiregistration.k8s.io/v1/apiservices",
		`{"metadata":{"name":"v1.aggregated.example.com"},"spec":{"group":"aggregated.example.com","version":"v1","groupPriorityMinimum":100,"versionPriority":10,` +
			`"service":{"namespace":"victim","name":"front"},"insecureSkipTLSVerify":true}}`},
	{"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
		`{"metadata":{"name":"theirs"},"webhooks":[{"name":"theirs.example.com","sideEffects":"None","admissionReviewVersions":["v1"],` +
			`"failurePolicy":"Ignore","clientConfig":{"url":"https://192.0.2.9/"},"rules":[{"apiGroups":["none.example.com"],"apiVersions":["*"],"resources":["nothing"],"operations":["CREATE"]}]}]}`},
}

const podTemplate = `{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"registry.example.com/web:v1"}]}}`

func signingRequest(t *testing.T) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: "someone"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request})
}

// attemptsOfTheWorker are what someone could do with the worker's token.
func attemptsOfTheWorker() []attempt {
	const (
		victim      = "/api/v1/namespaces/victim"
		own         = "/api/v1/namespaces/kube-migrator"
		deployment  = "/apis/apps/v1/namespaces/victim/deployments/web"
		rbac        = "/apis/rbac.authorization.k8s.io/v1"
		admission   = "/apis/admissionregistration.k8s.io/v1"
		flowcontrol = "/apis/flowcontrol.apiserver.k8s.io/v1"
		strategic   = "application/strategic-merge-patch+json"
		jsonPatch   = "application/json-patch+json"
		apply       = "application/apply-patch+yaml"
		token       = `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":%d%s}}`
		pod         = `{"metadata":{"name":"mine"},"spec":{"containers":[{"name":"c","image":"x"}]}}`
		labelled    = `{"metadata":{"labels":{"mine":"yes"}}}`
	)
	requestToken := func(seconds int, more string) string { return fmt.Sprintf(token, seconds, more) }
	const get, post, patch, put, del = http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete
	return []attempt{
		// What the worker does. That it can read is the price: a Secret's content, too.
		{"read a Secret", get, victim + "/secrets/password", "", "", passes, passes},
		{"list all Secrets", get, "/api/v1/secrets", "", "", passes, passes},
		{"rewrite a Secret", patch, victim + "/secrets/password", "{}", "", passes, passes},
		{"rewrite a Deployment", patch, deployment, "{}", strategic, passes, passes},
		{"rewrite a custom resource", patch, "/apis/" + v2 + "/namespaces/default/widgets/widget-0000001",
			"{}", "", passes, passes},
		{"rewrite a custom resource at a version that is not its storage version", patch,
			"/apis/" + v1 + "/namespaces/default/widgets/widget-0000001", "{}", "", guard, passes},
		{"rewrite a custom resource by server-side apply of no field", patch,
			"/apis/" + v2 + "/namespaces/default/widgets/owned",
			`{"apiVersion":"` + v2 + `","kind":"Widget","metadata":{"name":"owned","namespace":"default"}}`,
			apply, passes, passes},
		{"rewrite a ConfigMap of 900 KB", patch, victim + "/configmaps/large", "{}", strategic, passes, passes},
		{"rewrite a webhook configuration", patch, admission + "/mutatingwebhookconfigurations/theirs", "{}",
			strategic, passes, passes},
		{"rewrite a FlowSchema", patch, flowcontrol + "/flowschemas/exempt", "{}", strategic, passes, passes},
		{"rewrite a role", patch, rbac + "/clusterroles/cluster-admin", "{}", strategic, passes, passes},
		{"ask what it may do", post, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`, "", passes, passes},
		{"request the token that has no permissions", post, own + "/serviceaccounts/kube-migrator-discovery/token",
			requestToken(3600, ""), "", passes, passes},
		{"write a report", patch, own + "/configmaps/checkpoint", `{"data":{"report":"{}"}}`, "", passes, passes},

		// Others' workloads.
		{"change a Deployment's image", patch, deployment,
			`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"evil"}]}}}}`, "", guard, guard},
		{"… by a strategic merge patch", patch, deployment,
			`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"evil"}]}}}}`, strategic, guard, guard},
		{"… by a JSON patch", patch, deployment,
			`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"evil"}]`,
			jsonPatch, guard, guard},
		{"… by server-side apply", patch, deployment,
			`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"paused":true}}`, apply, guard, guard},
		{"claim fields by server-side apply", patch, deployment,
			`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":1}}`, apply, guard, guard},
		{"let a Deployment see the node's processes", patch, deployment,
			`{"spec":{"template":{"spec":{"hostPID":true}}}}`, "", guard, guard},
		{"take a Deployment from its field managers", patch, deployment,
			`{"metadata":{"managedFields":[{}]}}`, "", guard, guard},
		{"rewrite what a retired version manages", patch, "/apis/" + v2 + "/namespaces/default/widgets/widget-0000003",
			"{}", "", passes, passes},
		{"… and edit it", patch, "/apis/" + v2 + "/namespaces/default/widgets/widget-0000003",
			`{"spec":{"color":"other"}}`, "", guard, guard},
		{"rewrite an Event of another group", patch, victim + "/events/note", "{}", strategic, passes, passes},
		{"… and edit it", patch, victim + "/events/note", `{"message":"other"}`, strategic, guard, guard},
		{"annotate a pod", patch, victim + "/pods/web", `{"metadata":{"annotations":{"a":"b"}}}`, "", guard, guard},
		{"add an ephemeral container", patch, victim + "/pods/web/ephemeralcontainers",
			`{"spec":{"ephemeralContainers":[{"name":"e","image":"evil"}]}}`, strategic, byRole, guard},
		{"scale a Deployment", patch, deployment + "/scale", `{"spec":{"replicas":7}}`, "", byRole, guard},
		{"send an empty patch to a scale", patch, deployment + "/scale", `{}`, "", byRole, passes},
		{"write the status of a Deployment", patch, deployment + "/status",
			`{"status":{"replicas":7}}`, "", byRole, guard},
		{"write the status of a CRD", patch, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" +
			testbed.WidgetCRD + "/status",
			`{"status":{"storedVersions":["v2"]}}`, "", byRole, guard},
		{"edit a custom resource", patch, "/apis/" + v2 + "/namespaces/default/widgets/widget-0000001",
			labelled, "", guard, guard},
		{"edit a Secret", patch, victim + "/secrets/password", `{"stringData":{"password":"mine"}}`, "", guard, guard},
		{"edit a ConfigMap", patch, victim + "/configmaps/settings", `{"data":{"a":"c"}}`, "", guard, guard},
		{"edit a Lease", patch, "/apis/coordination.k8s.io/v1/namespaces/victim/leases/lease",
			`{"spec":{"holderIdentity":"mine"}}`, "", guard, guard},

		// The cluster.
		{"drop a namespace's pod security", patch, victim,
			`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`, "", guard, guard},
		{"finalize a namespace", put, victim + "/finalize",
			`{"metadata":{"name":"victim"},"spec":{"finalizers":[]}}`, "", byRole, guard},
		{"make its own FlowSchema exempt", patch, flowcontrol + "/flowschemas/kube-migrator",
			`{"spec":{"priorityLevelConfiguration":{"name":"exempt"}}}`, "", guard, guard},
		{"raise its share of the API server", patch, flowcontrol + "/prioritylevelconfigurations/kube-migrator",
			`{"spec":{"limited":{"nominalConcurrencyShares":1000}}}`, "", guard, guard},
		{"add to its own ClusterRole", patch, rbac + "/clusterroles/kube-migrator-worker",
			`{"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`, "", byRole, guard},
		{"take from its own ClusterRole", patch, rbac + "/clusterroles/kube-migrator-worker",
			`{"rules":[]}`, "", guard, guard},
		{"aggregate its own ClusterRole", patch, rbac + "/clusterroles/kube-migrator-worker",
			`{"metadata":{"labels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}}}`, "", guard, guard},
		{"bind itself to another role", post, rbac + "/clusterrolebindings",
			`{"metadata":{"name":"mine"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"}}`, "", byRole, guard},
		{"give a binding another subject", patch, rbac + "/clusterrolebindings/cluster-admin",
			`{"subjects":[{"kind":"ServiceAccount","namespace":"kube-migrator","name":"kube-migrator-worker"}]}`, "",
			byRole, guard},
		{"cordon a node", patch, "/api/v1/nodes/node-1", `{"spec":{"unschedulable":true}}`, "", guard, guard},
		{"turn a CRD", patch, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + testbed.WidgetCRD,
			labelled, "", guard, guard},
		{"turn an APIService to another server", patch,
			"/apis/apiregistration.k8s.io/v1/apiservices/v1.aggregated.example.com",
			`{"spec":{"service":{"name":"mine"}}}`, "", guard, guard},
		{"approve a certificate", patch, "/apis/certificates.k8s.io/v1/certificatesigningrequests/csr/approval",
			`{"status":{"conditions":[{"type":"Approved","status":"True","reason":"Mine"}]}}`, "", byRole, guard},
		{"turn a mutating webhook to itself", patch, admission + "/mutatingwebhookconfigurations/theirs",
			`[{"op":"replace","path":"/webhooks/0/clientConfig/url","value":"https://192.0.2.66/"}]`,
			jsonPatch, guard, guard},
		// No policy guards policies. So the worker has no role for them, not even for an empty patch.
		{"take the guard away", patch, admission + "/validatingadmissionpolicies/kube-migrator-worker",
			`{"spec":{"matchConditions":[{"name":"never","expression":"false"}]}}`, "", byRole, passes},
		{"unbind the guard", patch, admission + "/validatingadmissionpolicybindings/kube-migrator-worker",
			`{"spec":{"validationActions":["Audit"]}}`, "", byRole, passes},
		{"rewrite a policy", patch, admission + "/validatingadmissionpolicies/kube-migrator-worker",
			`{}`, "", byRole, passes},
		{"delete the guard", del, admission + "/validatingadmissionpolicies/kube-migrator-worker",
			"", "", byRole, passes},

		// Creations, deletions, connections.
		{"create a pod", post, victim + "/pods", pod, "", byRole, guard},
		{"create a Secret", post, victim + "/secrets", `{"metadata":{"name":"mine"}}`, "", byRole, guard},
		{"create by server-side apply", patch, victim + "/configmaps/mine",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"mine"}}`, apply, byRole, guard},
		{"bind a pod to a node", post, victim + "/pods/web/binding",
			`{"metadata":{"name":"web"},"target":{"kind":"Node","name":"node-1"}}`, "", byRole, guard},
		{"evict a pod", post, victim + "/pods/web/eviction",
			`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"web"}}`, "", byRole, guard},
		{"delete a Secret", del, victim + "/secrets/password", "", "", byRole, guard},
		{"delete all ConfigMaps of a namespace", del, victim + "/configmaps", "", "", byRole, guard},
		{"run a command in a pod", post, victim + "/pods/web/exec?command=id", "", "", byRole, guard},
		{"… by a GET", get, victim + "/pods/web/exec?command=id", "", "", byRole, guard},
		{"forward a port", post, victim + "/pods/web/portforward", "", "", byRole, guard},
		{"connect to a pod", get, victim + "/pods/web/proxy", "", "", byRole, guard},
		{"connect to a service", get, victim + "/services/front/proxy", "", "", byRole, guard},
		{"connect to a kubelet", get, "/api/v1/nodes/node-1/proxy/pods", "", "", byRole, guard},
		{"request its own token", post, own + "/serviceaccounts/kube-migrator-worker/token",
			requestToken(3600, ""), "", byRole, guard},
		{"request another account's token", post, victim + "/serviceaccounts/robot/token",
			requestToken(3600, ""), "", byRole, guard},
		{"request a token that lasts", post, own + "/serviceaccounts/kube-migrator-discovery/token",
			requestToken(7200, ""), "", guard, guard},
		{"request a token that is bound", post, own + "/serviceaccounts/kube-migrator-discovery/token",
			requestToken(3600, `,"boundObjectRef":{"apiVersion":"v1","kind":"Secret","name":"mine"}`), "", guard,
			guard},

		// Its own ConfigMaps, and what looks like one.
		{"take the labels off a report", patch, own + "/configmaps/checkpoint",
			`{"metadata":{"labels":null}}`, "", guard, guard},
		{"give a report to another run", patch, own + "/configmaps/checkpoint",
			`{"metadata":{"annotations":{"run":"other"}}}`, "", guard, guard},
		{"write another ConfigMap of its namespace", patch, own + "/configmaps/other",
			`{"data":{"a":"b"}}`, "", guard, guard},
		{"write a report in another namespace", patch, victim + "/configmaps/impostor",
			`{"data":{"a":"b"}}`, "", guard, guard},
		{"write the flags of the installation", patch, "/api/v1/namespaces/kube-system/configmaps/kube-migrator-flags",
			`{"data":{"flags.yaml":"guard: \"false\""}}`, "", guard, guard},
		{"create a report", post, own + "/configmaps",
			`{"metadata":{"name":"mine","labels":{"app.kubernetes.io/name":"kube-migrator","app.kubernetes.io/component":"worker"}}}`, "", byRole, guard},
		{"edit a StorageState", patch, "/apis/migration.k8s.io/v1alpha1/storagestates/secrets",
			labelled, "", guard, guard},
		{"record a proof", patch, "/apis/migration.k8s.io/v1alpha1/storagestates/secrets/status",
			`{"status":{"persistedStorageVersionHashes":["x"]}}`, "", byRole, guard},
	}
}
