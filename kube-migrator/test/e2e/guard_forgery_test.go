// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

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

// The role that the controller extends, and its head: further labels, and the rest.
const (
	laterRolePath = "/apis/rbac.authorization.k8s.io/v1/clusterroles/kube-migrator-worker-later"
	laterRoleHead = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole",` +
		`"metadata":{"name":"kube-migrator-worker-later","labels":{"app.kubernetes.io/component":"worker",` +
		`"app.kubernetes.io/managed-by":"kube-migrator","app.kubernetes.io/name":"kube-migrator"%s}},%s}`
)

// tryGrants tries what the controller's token could grant to the worker.
func (g *guarded) tryGrants() {
	const (
		role = laterRolePath
		head = laterRoleHead
		put  = http.MethodPut
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
	var binding admissionregistrationv1.ValidatingAdmissionPolicyBinding
	path := "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
	decode(g.T, do(g.T, g.cluster, http.MethodGet, path+"/kube-migrator-worker-grant", nil), &binding)
	do(g.T, g.cluster, http.MethodDelete, path+"/kube-migrator-worker-grant", nil)
	g.untilTheRoleIs(passes)
	p := c.triggering("--workers=jobs", "--worker-image=kube-migrator:test",
		"--worker-role=kube-migrator-worker-later", "--worker-versions-role=kube-migrator-worker-versions",
		"--bootstrap=none")
	g.define("latecomer")
	g.withhold(c)
	binding.ObjectMeta = metav1.ObjectMeta{Name: binding.Name, Labels: binding.Labels}
	do(g.T, g.cluster, http.MethodPost, path, binding)
	g.untilTheRoleIs(guard)
	g.define("straggler") // the controller looks again at once
	worker := g.as("kube-migrator-worker")
	eventually(g.T, "the worker may rewrite what has come", func() bool {
		outcome, _ := g.send(worker, attempt{method: http.MethodPatch,
			path: "/apis/later.example.com/v1/namespaces/victim/latecomers/none", body: "{}"})
		return outcome == passes
	})
	g.rewriteAtTheStorageVersion(worker)
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
	eventually(g.T, "the state of what has come says no more that it is granted nothing", func() bool {
		s := c.state("latecomers.later.example.com") // written with the controller's next look, after the role
		return s == nil || holds(s, v1alpha1.ConditionPermitted) != metav1.ConditionFalse
	})
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

// withhold expects that the controller grants nothing while a binding of the guard is missing, as before Helm has
// written it.
func (g *guarded) withhold(c *controlled) {
	g.Helper()
	unguarded := c.untilState("latecomers.later.example.com", "without the guard", func(s *v1alpha1.StorageState) bool {
		return holds(s, v1alpha1.ConditionPermitted) == metav1.ConditionFalse
	})
	for _, condition := range unguarded.Status.Conditions {
		if condition.Type == v1alpha1.ConditionPermitted && condition.Reason != v1alpha1.ReasonUnguarded {
			g.Errorf("without the guard the condition is %+v", condition)
		}
	}
	if out := g.admin.run(3, "check", "latecomers.later.example.com"); !strings.Contains(out.stdout, "guard are not in force") {
		g.Errorf("without the guard check says\n%s%s", out.stdout, out.stderr)
	}
}

// untilTheRoleIs waits for what becomes of a change that the guard forbids the controller.
func (g *guarded) untilTheRoleIs(want string) {
	g.Helper()
	controller := g.as("kube-migrator-controller")
	further := attempt{method: http.MethodPut, path: laterRolePath,
		body: fmt.Sprintf(laterRoleHead, `,"more":"one"`, `"rules":[]`)}
	eventually(g.T, "a further label of the role has the outcome "+want, func() bool {
		outcome, _ := g.send(controller, further)
		return outcome == want
	})
}

// define creates a CRD that is newer than the installation.
func (g *guarded) define(singular string) {
	g.Helper()
	do(g.T, g.cluster, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		json.RawMessage(strings.ReplaceAll(`{"metadata":{"name":"NAMEs.later.example.com"},
		"spec":{"group":"later.example.com","scope":"Namespaced",
		"names":{"plural":"NAMEs","singular":"NAME","kind":"NAME","listKind":"NAMEList"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`,
			"NAME", singular)))
}

// checks reports whether a resource is safe.
func (g *guarded) checks(resource string) bool {
	_, wait := g.admin.start("check", resource)
	return wait().code == 0
}
