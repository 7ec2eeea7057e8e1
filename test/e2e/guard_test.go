// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// What becomes of a request.
const (
	passes = "passes" // neither authorization nor the guard refuses it
	byRole = "role"   // RBAC refuses it
	guard  = "guard"  // a policy of the guard refuses it
)

// attempt is a request with someone's token, sent as a dry run where the API server knows that.
type attempt struct {
	what, method, path, body string
	// content is the type of a patch; empty: a merge patch.
	content string
	// own is what becomes of it with the permissions of the account, almighty with those of a cluster administrator
	// besides: what is left then is what the guard alone refuses.
	own, almighty string
}

// guarded is a cluster with an installation and its guard.
type guarded struct {
	*testing.T
	cluster *testbed.Cluster
	admin   *cli
}

func newGuarded(t *testing.T, options testbed.Options) *guarded {
	t.Helper()
	g := &guarded{T: t, cluster: testbed.New(t, options)}
	installStale(t, g.cluster, testbed.Bulk{Count: 59}, testbed.Widgets{}) // and one more, among the samples
	retireManagers(t, g.cluster, "widget-0000003")
	g.admin = newCLI(t, g.cluster)
	g.create(samples)
	do(t, g.cluster, http.MethodPost, "/apis/certificates.k8s.io/v1/certificatesigningrequests", map[string]any{
		"metadata": map[string]any{"name": "csr"},
		"spec": map[string]any{"signerName": "example.com/signer", "usages": []string{"digital signature"},
			"request": signingRequest(t)},
	})
	g.admin.run(0, "install", "--wait=false", "--image=kube-migrator:test")
	const worker = `"labels":{"app.kubernetes.io/name":"kube-migrator","app.kubernetes.io/managed-by":"kube-migrator","app.kubernetes.io/component":"worker"}`
	g.create([][2]string{
		{"/api/v1/namespaces/kube-migrator/configmaps", `{"metadata":{"name":"checkpoint",` + worker + `}}`},
		{"/api/v1/namespaces/kube-migrator/configmaps", `{"metadata":{"name":"other"}}`},
		{"/apis/migration.k8s.io/v1alpha1/storagestates",
			`{"apiVersion":"migration.k8s.io/v1alpha1","kind":"StorageState","metadata":{"name":"secrets"},"spec":{"resource":{"resource":"secrets"}}}`},
	})
	return g
}

func (g *guarded) in(t *testing.T) *guarded {
	part, admin := *g, *g.admin
	part.T, admin.t = t, t
	part.admin = &admin
	return &part
}

// create creates objects, each at a collection.
func (g *guarded) create(objects [][2]string) {
	g.Helper()
	for _, o := range objects {
		do(g.T, g.cluster, http.MethodPost, o[0], json.RawMessage(o[1]))
	}
}

// as is a client with the token of an account of the installation.
func (g *guarded) as(account string) rest.Interface {
	g.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", asServiceAccount(g.T, g.cluster, account))
	if err != nil {
		g.Fatal(err)
	}
	config.QPS = -1
	client, err := apiserver.NewClient(config)
	if err != nil {
		g.Fatal(err)
	}
	return client
}

// send sends a request and says what became of it, with what the API server answered.
func (g *guarded) send(client rest.Interface, a attempt) (outcome, answer string) {
	g.Helper()
	path, command, _ := strings.Cut(a.path, "?command=")
	request := client.Verb(a.method).AbsPath(path).SetHeader("Accept", "application/json")
	if command != "" {
		request.Param("command", command)
	}
	if a.method != http.MethodGet {
		if connects := command != "" || strings.HasSuffix(path, "/portforward"); !connects { // these know no dry run
			request.Param("dryRun", "All")
		}
		request.SetHeader("Content-Type", "application/json").Body([]byte(a.body))
	}
	switch {
	case a.content == "application/apply-patch+yaml":
		request.Param("fieldManager", "thief").SetHeader("Content-Type", a.content)
	case a.content != "":
		request.SetHeader("Content-Type", a.content)
	case a.method == http.MethodPatch:
		request.SetHeader("Content-Type", "application/merge-patch+json")
	}
	status := 0
	result := request.MaxRetries(0).Do(g.Context()).StatusCode(&status)
	raw, err := result.Raw()
	answer = fmt.Sprint(status, " ", string(raw), " ", err)
	switch {
	case bytes.Contains(raw, []byte("ValidatingAdmissionPolicy '")):
		return guard, answer
	case status == http.StatusForbidden, status == http.StatusUnauthorized:
		return byRole, answer
	case status == 0:
		g.Fatalf("%s: %s", a.what, answer)
	}
	return passes, answer
}

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
			testbed.WidgetDefinition + "/status",
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
		{"turn a CRD", patch, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + testbed.WidgetDefinition,
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

// TestTheGuard is one cluster for everything that admission policies enforce.
func TestTheGuard(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, testbed.Options{Users: []testbed.User{{Name: "forger"}}, Flags: []string{"--allow-privileged"}})
	t.Run("the worker changes nothing", func(t *testing.T) { g.in(t).tryTheWorker() })
	t.Run("the worker rewrites everything", func(t *testing.T) { g.in(t).rewriteEverything() })
	t.Run("what a webhook would add is named, with the way out", func(t *testing.T) { g.in(t).meetAWebhook() })
	t.Run("no one else writes reports and records", func(t *testing.T) { g.in(t).forge() })
	t.Run("the controller starts nothing but workers", func(t *testing.T) { g.in(t).tryJobs() })
	t.Run("the controller grants nothing but rewrites", func(t *testing.T) { g.in(t).tryGrants() })
	t.Run("the controller lets the worker migrate what comes later", func(t *testing.T) { g.in(t).extend() })
	t.Run("uninstall removes the guard last", func(t *testing.T) {
		lines := strings.Split(strings.TrimSpace(g.in(t).admin.run(0, "uninstall").stdout), "\n")
		for n, line := range lines[len(lines)-10:] {
			if want := []string{" ValidatingAdmissionPolicyBinding ",
				" ValidatingAdmissionPolicy "}[n/5]; !strings.Contains(line, want) {
				t.Errorf("of the last ten lines of uninstall, %d is %q, want %q", n, line, want)
			}
		}
	})
}

// rewriteEverything is a migration of all resources with the worker's token. The objects include samples of most
// built-in types.
func (g *guarded) rewriteEverything() {
	// It has no server: of its group nothing could be said.
	do(g.T, g.cluster, http.MethodDelete, "/apis/apiregistration.k8s.io/v1/apiservices/v1.aggregated.example.com", nil)
	client := g.as("kube-migrator-worker")
	all, err := inventory.Take(g.Context(), client)
	if err != nil || len(all.Failures) > 0 {
		g.Fatalf("%v, %v", err, all.Failures)
	}
	kinds, objects := 0, 0
	for _, r := range all.Resources {
		if r.Problem == nil && !inventory.ExemptFromPolicies(r.GroupResource) {
			if n := g.rewriteAll(client, r); n > 0 {
				kinds, objects = kinds+1, objects+n
			}
		}
	}
	if kinds < 40 || objects < 200 {
		g.Errorf("%d objects of %d resources were rewritten", objects, kinds)
	}
	wantStored(g.T, g.cluster, testbed.WidgetsPrefix, map[string]int{v2: 60})

	worker := newCLIWith(g.T, g.cluster, asServiceAccount(g.T, g.cluster, "kube-migrator-worker"))
	refused := worker.run(1, "migrate", "validatingadmissionpolicies", "--settle-time=1s")
	if !strings.Contains(refused.stderr, "validatingadmissionpolicies.admissionregistration.k8s.io") {
		g.Errorf("a worker that migrates policies is told %q", refused.stderr)
	}
}

// rewriteAll sends an empty patch to every object of a resource, as the sweep does, and expects that it changes nothing
// but the encoding.
func (g *guarded) rewriteAll(client rest.Interface, r inventory.Resource) (objects int) {
	g.Helper()
	target := r.Target()
	patch := types.StrategicMergePatchType
	if target.Origin != migrate.BuiltIn {
		patch = types.MergePatchType
	}
	list := func() (all metav1.PartialObjectMetadataList) {
		path, err := apipath.Collection(target.Resource, "")
		if err != nil {
			g.Fatal(err)
		}
		raw, err := client.Get().AbsPath(path).SetHeader("Accept",
			"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").Do(g.Context()).Raw()
		if err != nil {
			g.Errorf("list %s: %v", r.GroupResource, err)
			return all
		}
		decode(g.T, raw, &all)
		return all
	}
	for _, o := range list().Items {
		path, err := apipath.Object(target.Resource, o.Namespace, o.Name)
		if err != nil {
			g.Fatal(err)
		}
		raw, err := client.Patch(patch).AbsPath(path).SetHeader("Accept",
			"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").
			Param("fieldManager", "kube-migrator").Param("fieldValidation",
			"Ignore").Body([]byte("{}")).Do(g.Context()).Raw()
		if err != nil {
			g.Errorf("rewrite %s %s/%s: %v\n%.600s", r.GroupResource, o.Namespace, o.Name, err, raw)
			continue
		}
		objects++
	}
	return objects
}

// meetAWebhook lets a webhook label some widgets. The guard refuses to rewrite these.
func (g *guarded) meetAWebhook() {
	const n, labelled = 60, 6
	moveStorage(g.T, g.cluster, "v1")
	labeller(g.T, g.cluster, "7")
	defer do(g.T, g.cluster, http.MethodDelete,
		"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/labeller", nil)
	worker := newCLIWith(g.T, g.cluster, asServiceAccount(g.T, g.cluster, "kube-migrator-worker"))

	got := worker.migrate(4, "widgets")

	wantStored(g.T, g.cluster, testbed.WidgetsPrefix, map[string]int{v1: n - labelled, v2: labelled})
	if len(got.Result.Failures) != labelled {
		g.Errorf("failures: %+v, want %d", got.Result.Failures, labelled)
	}
	for _, f := range got.Result.Failures {
		if f.Reason != migrate.WouldChange || !strings.HasSuffix(f.Name, "7") ||
			!strings.Contains(f.Message, "to accept that, migrate by hand: kube-migrator migrate "+
				"widgets.demo.example.com") || !strings.Contains(f.Message, "webhook") {
			g.Errorf("failure %+v", f)
		}
	}
	wantCounts(g.T, migrate.Counts{Rewritten: labelled, Current: n - labelled, ChangedByAdmission: labelled},
		g.admin.migrate(0, "widgets"))
	wantStored(g.T, g.cluster, testbed.WidgetsPrefix, map[string]int{v1: n})
}

// forge tries to write what only the installation writes, as someone who holds every verb that Kubernetes defines on
// it.
func (g *guarded) forge() {
	const (
		own     = "/api/v1/namespaces/kube-migrator/configmaps"
		states  = "/apis/migration.k8s.io/v1alpha1/storagestates/secrets"
		runs    = "/apis/migration.k8s.io/v1alpha1/storageversionmigrations/forged"
		labels  = `"labels":{"app.kubernetes.io/name":"kube-migrator","app.kubernetes.io/component":"worker"}`
		proof   = `{"status":{"persistedStorageVersionHashes":["x"]}}`
		succeed = `{"status":{"summary":"Succeeded"}}`
	)
	g.create([][2]string{
		{"/apis/migration.k8s.io/v1alpha1/storageversionmigrations",
			`{"apiVersion":"migration.k8s.io/v1alpha1","kind":"StorageVersionMigration","metadata":{"name":"forged"},"spec":{"resource":{"resource":"secrets"}}}`},
		{"/apis/rbac.authorization.k8s.io/v1/clusterroles",
			`{"metadata":{"name":"forger"},"rules":[{"apiGroups":["","migration.k8s.io"],"resources":["*"],` +
				`"verbs":["get","list","watch","create","update","patch","delete","deletecollection"]}]}`},
		{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
			`{"metadata":{"name":"forger"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"forger"},` +
				`"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"forger"}]}`},
	})
	forger, err := apiserver.NewClient(g.cluster.ConfigAs("forger"))
	if err != nil {
		g.Fatal(err)
	}
	eventually(g.T, "the forger has a role", func() bool {
		outcome, _ := g.send(forger, attempt{method: http.MethodGet, path: states})
		return outcome == passes
	})
	const get, post, patch, del = http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete
	attempts := []attempt{
		{"write a report", patch, own + "/checkpoint", `{"data":{"report":"{}"}}`, "", guard, ""},
		{"write a checkpoint", patch, own + "/checkpoint", `{"binaryData":{"checkpoint":"eA=="}}`, "", guard, ""},
		{"create a report", post, own, `{"metadata":{"name":"forged",` + labels + `}}`, "", guard, ""},
		{"turn a ConfigMap into a report", patch, own + "/other", `{"metadata":{` + labels + `}}`, "", guard, ""},
		{"take the labels off a report", patch, own + "/checkpoint", `{"metadata":{"labels":null}}`, "", guard, ""},
		{"give a report to another run", patch, own + "/checkpoint",
			`{"metadata":{"annotations":{"run":"other"}}}`, "", guard, ""},
		{"claim a report for an owner", patch, own + "/checkpoint",
			`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}]}}`, "", guard, ""},
		{"record a proof", patch, states + "/status", proof, "", guard, ""},
		{"let a migration succeed", patch, runs + "/status", succeed, "", guard, ""},
		// What no report is, and what loses nothing but time.
		{"write another ConfigMap of the namespace", patch, own + "/other", `{"data":{"a":"b"}}`, "", passes, ""},
		{"write a ConfigMap like a report elsewhere", patch, "/api/v1/namespaces/victim/configmaps/impostor",
			`{"data":{"a":"b"}}`, "", passes, ""},
		{"rewrite a report", patch, own + "/checkpoint", `{}`, "", passes, ""},
		{"add a finalizer, as the garbage collector does", patch, own + "/checkpoint",
			`{"metadata":{"finalizers":["example.com/keep"]}}`, "", passes, ""},
		{"delete a report", del, own + "/checkpoint", "", "", passes, ""},
		{"rewrite a status", patch, states + "/status", `{}`, "", passes, ""},
		{"read a StorageState", get, states, "", "", passes, ""},
		{"request another run", patch, runs, `{"spec":{"generation":2}}`, "", passes, ""},
	}
	for _, a := range attempts {
		if outcome, answer := g.send(forger, a); outcome != a.own {
			g.Errorf("the forger can %q: %s, want %s\n%.600s", a.what, outcome, a.own, answer)
		}
	}
	// The accounts of the installation can, and so can cluster administrators and those who may record.
	g.create([][2]string{
		{"/apis/rbac.authorization.k8s.io/v1/clusterroles",
			`{"metadata":{"name":"recorder"},"rules":[{"apiGroups":["migration.k8s.io"],"resources":["storagestates"],"verbs":["record"]}]}`},
		{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
			`{"metadata":{"name":"recorder"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"recorder"},` +
				`"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"forger"}]}`},
	})
	eventually(g.T, "who may record writes the status", func() bool {
		outcome, _ := g.send(forger, attempt{method: patch, path: states + "/status", body: proof})
		return outcome == passes
	})
	controller, administrator := g.as("kube-migrator-controller"), newClient(g.T, g.cluster)
	for _, a := range attempts {
		if outcome, answer := g.send(administrator, a); outcome != passes {
			g.Errorf("an administrator cannot %q: %.600s", a.what, answer)
		}
	}
	checkpoint := string(do(g.T, g.cluster, get, own+"/checkpoint", nil))
	for _, a := range []attempt{
		{"write a report", http.MethodPut, own + "/checkpoint", checkpoint, "", passes, ""},
		{"create a report", post, own, `{"metadata":{"name":"made",` + labels + `}}`, "", passes, ""},
		{"record a proof", http.MethodPut, states + "/status",
			strings.Replace(string(do(g.T, g.cluster, get, states, nil)), `"spec":`,
				`"status":{"persistedStorageVersionHashes":["x"]},"spec":`, 1), "", passes, ""},
	} {
		if outcome, answer := g.send(controller, a); outcome != passes {
			g.Errorf("the controller cannot %q: %.600s", a.what, answer)
		}
	}
}

func newClient(t *testing.T, cluster *testbed.Cluster) rest.Interface {
	t.Helper()
	client, err := apiserver.NewClient(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// tryJobs sends variants of the Job that the controller creates, with its token.
func (g *guarded) tryJobs() {
	const jobs = "/apis/batch/v1/namespaces/kube-migrator/jobs"
	controller := g.as("kube-migrator-controller")
	job := func(change func(job, pod, container map[string]any)) string {
		container := map[string]any{
			"name": "worker", "image": "kube-migrator:test",
			"args": []any{"worker", "--namespace=kube-migrator", "--roster=r", "--min-evidence=observed",
				"--settle-time=2m0s", "--shutdown-delay=3m30s"},
			"securityContext": map[string]any{"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
				"capabilities": map[string]any{"drop": []any{"ALL"}}},
			"env": []any{map[string]any{"name": "GOMEMLIMIT", "value": "230MiB"}},
		}
		pod := map[string]any{
			"serviceAccountName": "kube-migrator-worker", "restartPolicy": "Never", "containers": []any{container},
			"securityContext": map[string]any{"runAsNonRoot": true,
				"seccompProfile": map[string]any{"type": "RuntimeDefault"}},
		}
		j := map[string]any{"metadata": map[string]any{"name": "made"},
			"spec": map[string]any{"template": map[string]any{"spec": pod}}}
		change(j, pod, container)
		return string(mustJSON(j))
	}
	type fields = map[string]any
	for what, test := range map[string]struct {
		change func(job, pod, container fields)
		want   string
	}{
		"the worker":         {func(_, _, _ fields) {}, passes},
		"another image":      {func(_, _, c fields) { c["image"] = "evil" }, guard},
		"another command":    {func(_, _, c fields) { c["command"] = []any{"/bin/sh"} }, guard},
		"another subcommand": {func(_, _, c fields) { c["args"] = []any{"migrate", "--roster=r"} }, guard},
		"no arguments":       {func(_, _, c fields) { delete(c, "args") }, guard},
		"another API server": {func(_, _, c fields) {
			c["args"] = []any{"worker", "--roster=r",
				"--server=https://192.0.2.66"}
		}, guard},
		"another environment": {func(_, _, c fields) {
			c["env"] = []any{fields{"name": "KUBERNETES_SERVICE_HOST", "value": "192.0.2.66"}}
		}, guard},
		"an environment from": {func(_, _, c fields) { c["envFrom"] = []any{fields{"secretRef": fields{"name": "s"}}} },
			guard},
		"a hook": {func(_, _, c fields) {
			c["lifecycle"] = fields{"postStart": fields{"exec": fields{"command": []any{"x"}}}}
		}, guard},
		"a probe": {func(_, _,
			c fields) {
			c["livenessProbe"] = fields{"exec": fields{"command": []any{"x"}}}
		}, guard},
		"another account": {func(_, p, _ fields) { p["serviceAccountName"] = "kube-migrator-controller" },
			guard},
		"no account": {func(_, p, _ fields) { delete(p, "serviceAccountName") }, guard},
		"a second container": {func(_, p,
			c fields) {
			p["containers"] = []any{c, fields{"name": "b", "image": "evil"}}
		}, guard},
		"an init container": {func(_, p,
			_ fields) {
			p["initContainers"] = []any{fields{"name": "b", "image": "evil"}}
		}, guard},
		"a folder of the node": {func(_, p,
			_ fields) {
			p["volumes"] = []any{fields{"name": "v", "hostPath": fields{"path": "/"}}}
		}, guard},
		"the network of the node":   {func(_, p, _ fields) { p["hostNetwork"] = true }, guard},
		"the processes of the node": {func(_, p, _ fields) { p["hostPID"] = true }, guard},
		"the IPC of the node":       {func(_, p, _ fields) { p["hostIPC"] = true }, guard},
		"a port of the node": {func(_, _,
			c fields) {
			c["ports"] = []any{fields{"containerPort": 80, "hostPort": 80}}
		}, guard},
		"privileged": {func(_, _, c fields) { c["securityContext"] = fields{"privileged": true} }, guard},
		"more capabilities": {func(_, _, c fields) {
			c["securityContext"] = fields{"allowPrivilegeEscalation": false,
				"capabilities": fields{"add": []any{"SYS_ADMIN"}}}
		}, guard},
		"no security context": {func(_, _, c fields) { delete(c, "securityContext") }, guard},
	} {
		if outcome, answer := g.send(controller,
			attempt{method: http.MethodPost, path: jobs, body: job(test.change)}); outcome != test.want {
			g.Errorf("a Job with %s: %s, want %s\n%.600s", what, outcome, test.want, answer)
		}
	}
	outcome, answer := g.send(controller, attempt{
		method: http.MethodPost, path: "/apis/batch/v1/namespaces/victim/jobs", body: job(func(_, _, _ fields) {}),
	})
	if outcome != byRole {
		g.Errorf("a Job in another namespace: %s\n%.600s", outcome, answer)
	}
	// A Job of an earlier release runs another image. It can be suspended, and not be changed.
	older := func(j, p, c fields) {
		j["metadata"] = fields{"name": "older"}
		c["image"] = "kube-migrator:older"
		j["spec"].(fields)["suspend"] = true
	}
	do(g.T, g.cluster, http.MethodPost, jobs, json.RawMessage(job(older)))
	for _, a := range []attempt{
		{"resume it", http.MethodPatch, jobs + "/older", `{"spec":{"suspend":false}}`, "", passes, ""},
		{"note its last run", http.MethodPatch, jobs + "/older",
			`{"metadata":{"annotations":{"last":"x"}}}`, "", passes, ""},
		{"send its pod to a node", http.MethodPatch, jobs + "/older",
			`{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}`, "", guard, ""},
		{"delete it", http.MethodDelete, jobs + "/older", "", "", passes, ""},
	} {
		if outcome, answer := g.send(controller, a); outcome != a.own {
			g.Errorf("of an older Job the controller can %q: %s, want %s\n%.600s", a.what, outcome, a.own, answer)
		}
	}
}

// tryGrants tries what the controller's token could grant to the worker.
func (g *guarded) tryGrants() {
	const (
		role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/kube-migrator-worker-later"
		head = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"kube-migrator-worker-later","labels":` +
			`{"app.kubernetes.io/component":"worker","app.kubernetes.io/managed-by":"kube-migrator","app.kubernetes.io/name":"kube-migrator"%s}},%s}`
		put = http.MethodPut
	)
	rules := func(group, resource, verb string) string {
		return fmt.Sprintf(head, "", fmt.Sprintf(`"rules":[{"apiGroups":[%q],"resources":[%q],"verbs":[%q]}]`,
			group, resource, verb))
	}
	controller := g.as("kube-migrator-controller")
	for _, a := range []attempt{
		{"let it patch a resource", put, role, rules("later.example.com", "things", "patch"), "", passes, ""},
		{"let it patch everything", put, role, rules("*", "*", "patch"), "", guard, ""},
		{"let it patch all of a group", put, role, rules("later.example.com", "*", "patch"), "", guard, ""},
		{"let it patch policies", put, role, rules("admissionregistration.k8s.io", "validatingadmissionpolicies",
			"patch"), "", guard, ""},
		{"let it connect to kubelets", put, role, rules("", "nodes/proxy", "get"), "", guard, ""},
		{"let it create", put, role, rules("", "pods", "create"), "", guard, ""},
		{"let it impersonate", put, role, rules("", "users", "impersonate"), "", guard, ""},
		{"let it read paths", put, role, fmt.Sprintf(head, "",
			`"rules":[{"nonResourceURLs":["/metrics"],"verbs":["get"]}]`), "", guard, ""},
		{"aggregate other roles into it", put, role,
			fmt.Sprintf(head, "", `"aggregationRule":{"clusterRoleSelectors":[{}]},"rules":[]`), "", guard, ""},
		{"aggregate it into others' roles", put, role,
			fmt.Sprintf(head, `,"rbac.authorization.k8s.io/aggregate-to-edit":"true"`, `"rules":[]`), "", guard, ""},
		{"extend another role", put, strings.TrimSuffix(role, "-later"),
			strings.Replace(rules("", "pods", "get"), "-later", "", 1), "", byRole, ""},
		{"create a role", http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterroles",
			strings.Replace(rules("", "pods", "get"), "-later", "-other", 1), "", byRole, ""},
		{"delete the role", http.MethodDelete, role, "", "", byRole, ""},
		{"change the guard", http.MethodPatch, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/kube-migrator-worker", "{}", "", byRole, ""},
	} {
		if outcome, answer := g.send(controller, a); outcome != a.own {
			g.Errorf("the controller can %q: %s, want %s\n%.600s", a.what, outcome, a.own, answer)
		}
	}
}

// extend lets the controller grant what came after the installation, and leave to an administrator what no policy
// guards.
func (g *guarded) extend() {
	c := &controlled{T: g.T, cluster: g.cluster,
		kubeconfig: asServiceAccount(g.T, g.cluster, "kube-migrator-controller")}
	p := c.triggering("--workers=jobs", "--worker-image=kube-migrator:test",
		"--worker-role=kube-migrator-worker-later", "--bootstrap=none")
	do(g.T, g.cluster, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		json.RawMessage(`{"metadata":{"name":"latecomers.later.example.com"},
		"spec":{"group":"later.example.com","scope":"Namespaced","names":{"plural":"latecomers","singular":"latecomer","kind":"Latecomer","listKind":"LatecomerList"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`))
	worker := g.as("kube-migrator-worker")
	eventually(g.T, "the worker may rewrite what has come", func() bool {
		outcome, _ := g.send(worker, attempt{method: http.MethodPatch,
			path: "/apis/later.example.com/v1/namespaces/victim/latecomers/none", body: "{}"})
		return outcome == passes
	})
	const policies = "validatingadmissionpolicybindings.admissionregistration.k8s.io"
	left := c.untilState(policies, "left to an administrator",
		func(s *v1alpha1.StorageState) bool {
			return holds(s, v1alpha1.ConditionPermitted) == metav1.ConditionFalse
		})
	for _, condition := range left.Status.Conditions {
		if condition.Type == v1alpha1.ConditionPermitted &&
			(condition.Reason != v1alpha1.ReasonByHand ||
				!strings.HasSuffix(condition.Message, "Try: kube-migrator migrate "+policies)) {
			g.Errorf("the condition is %+v", condition)
		}
	}
	if s := c.state("latecomers.later.example.com"); s != nil &&
		holds(s, v1alpha1.ConditionPermitted) == metav1.ConditionFalse {
		g.Errorf("what was granted is %+v", s.Status.Conditions)
	}
	if out := g.admin.run(3, "check", policies); !strings.Contains(out.stdout, "kube-migrator migrate "+policies) ||
		!strings.Contains(out.stdout, "left to an administrator") {
		g.Errorf("check says\n%s%s", out.stdout, out.stderr)
	}
	eventually(g.T, "what was migrated by hand is recorded", func() bool {
		// A run is not recorded if the controller lost its watch of the API servers meanwhile.
		_, wait := g.admin.start("migrate", policies, "--settle-time=1s")
		return wait().code == 0 && g.checks(policies)
	})
	c.end(p)
}

// checks reports whether a resource is safe.
func (g *guarded) checks(resource string) bool {
	_, wait := g.admin.start("check", resource)
	return wait().code == 0
}

// tryTheWorker sends every attempt twice: with the worker's own permissions, and with all permissions.
func (g *guarded) tryTheWorker() {
	client := g.as("kube-migrator-worker")
	for _, a := range attemptsOfTheWorker() {
		if outcome, answer := g.send(client, a); outcome != a.own {
			g.Errorf("the worker can %q: %s, want %s\n%.600s", a.what, outcome, a.own, answer)
		}
	}
	g.create([][2]string{{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
		`{"metadata":{"name":"almighty"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole",` +
			`"name":"cluster-admin"},"subjects":[{"kind":"ServiceAccount","namespace":"kube-migrator","name":"kube-migrator-worker"}]}`}})
	defer do(g.T, g.cluster, http.MethodDelete, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/almighty", nil)
	eventually(g.T, "the worker may do anything", func() bool {
		outcome, _ := g.send(client, attempt{method: http.MethodGet,
			path: "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"})
		return outcome == passes
	})
	for _, a := range attemptsOfTheWorker() {
		if outcome, answer := g.send(client, a); outcome != a.almighty {
			g.Errorf("with all permissions the worker can %q: %s, want %s\n%.600s", a.what, outcome, a.almighty, answer)
		}
	}
}
