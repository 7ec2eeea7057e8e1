// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
)

// checkFlags finds --replicas=3 installed.
func (i *installer) checkFlags() {
	t := i.t
	before := i.installed()
	out, notes := i.run(exit.Done, "install", "--wait=false")
	if outcomes(out)["unchanged"] != objects ||
		!strings.Contains(notes, "Kept from the last installation: --replicas=3\n") ||
		strings.Contains(notes, "Upgrade: ") {
		t.Errorf("without flags:\n%s%s", out, notes)
	}
	_, notes = i.run(exit.Done, "install", "--dry-run=server", "--exclude=secrets,events", "--settle-time=1m")
	for _, want := range []string{
		"Kept from the last installation: --replicas=3\n",
		"Upgrade: the controller's --exclude: none becomes secrets,events\n",
		"Upgrade: the controller's --settle-time: 2m0s becomes 1m0s\n",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("a dry run says\n%s\nwant %s", notes, want)
		}
	}
	if diff := cmp.Diff(before, i.installed()); diff != "" {
		t.Errorf("a dry run remembers (-before +after):\n%s", diff)
	}
	i.run(exit.Done, "install", "--wait=false", "--exclude=secrets,events", "--replicas=2")
	if out, _ := i.run(exit.Done, "install", "--export"); !strings.Contains(out, "- --exclude=secrets\n") ||
		!strings.Contains(out, "exclude: secrets,events\n") {
		t.Errorf("--export does not start from what is remembered:\n%s", out)
	}
	if out, _ := i.run(exit.Done, "install", "--export", "--forget-flags=all"); strings.Contains(out, "- --exclude=") {
		t.Errorf("--export --forget-flags=all starts from what is remembered:\n%s", out)
	}
	_, notes = i.run(exit.Done, "install", "--wait=false", "--forget-flags=exclude")
	if !strings.Contains(notes, "Kept from the last installation: --replicas=2\n") ||
		!strings.Contains(notes, "Upgrade: the controller's --exclude: secrets,events becomes none\n") {
		t.Errorf("forgetting a flag says\n%s", notes)
	}
	remember := func(flags string) {
		t.Helper()
		body := fmt.Appendf(nil, `{"data":{"flags.yaml":%q}}`, flags)
		if err := i.client.Patch(types.MergePatchType).AbsPath(
			"/api/v1/namespaces/kube-system/configmaps/kube-migrator-flags",
		).Body(body).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	remember("no-longer: here\nreplicas: \"2\"\n")
	if _, notes = i.run(exit.Done, "install",
		"--dry-run=client"); !strings.Contains(notes,
		"Warning: the last installation was given --no-longer, which this version does not have.\nKept from the last "+
			"installation: --replicas=2\n") {
		t.Errorf("a flag that is unknown now: %s", notes)
	}
	remember("replicas: many\n")
	_, notes = i.run(exit.Error, "install", "--dry-run=client")
	if want := "error: the remembered value of --replicas is \"many\", which cannot be read\nTry: kube-migrator " +
		"install --forget-flags=replicas --dry-run=client"; !strings.HasPrefix(notes, want) {
		t.Errorf("a value that cannot be read: %q, want %q", notes, want)
	}
	remember("{")
	_, notes = i.run(exit.Error, "install", "--dry-run=client")
	if !strings.HasPrefix(notes, "error: read the flags of the last installation: decode ConfigMap "+
		"kube-system/kube-migrator-flags: ") ||
		!strings.HasSuffix(notes, "\nTry: kubectl get configmap -n kube-system kube-migrator-flags -o yaml\n") ||
		strings.Count(notes, "\n") != 2 {
		t.Errorf("flags that cannot be read: %q", notes)
	}
	if _, notes = i.run(exit.Done, "install", "--wait=false", "--forget-flags=all"); strings.Contains(notes, "Kept") ||
		strings.Contains(notes, "Upgrade") {
		t.Errorf("forgetting all flags says\n%s", notes)
	}
}

// checkLater asks whether the worker may migrate a resource that came after the installation, and where it may lets it.
func (i *installer) checkLater(may bool) {
	t := i.t
	const later = `{"metadata":{"name":"latecomers.later.example.com"},"spec":{"group":"later.example.com","scope":"Namespaced",
		"names":{"plural":"latecomers","singular":"latecomer","kind":"Latecomer","listKind":"LatecomerList"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`
	worker := i.clientAs("kube-migrator-worker")
	if may {
		post(t, i.client, planCRDs, later)
		i.eventually("the resource is served", func() bool {
			return i.client.Get().AbsPath("/apis/later.example.com/v1/latecomers").Do(t.Context()).Error() == nil
		})
		if i.may(worker, "patch", "later.example.com", "latecomers", "") {
			t.Error("the role does not name resources")
		}
		i.run(exit.Done, "install", "--wait=false") // or the controller, with --worker-role
		i.sweepAsWorker("Latecomer", schema.GroupResource{Group: "later.example.com", Resource: "latecomers"})
	}
	i.eventually("the worker's permissions are known",
		func() bool { return i.may(worker, "patch", "later.example.com", "latecomers", "") == may })
}

// checkEscalation installs as someone who may write roles, but has none of what they grant.
func (i *installer) checkEscalation() {
	t := i.t
	const rbac = "/apis/rbac.authorization.k8s.io/v1/"
	post(t, i.client, rbac+"clusterroles", `{"metadata":{"name":"operator"},"rules":[{"verbs":["get","list","create","patch"],
		"apiGroups":["admissionregistration.k8s.io","","apps","policy","networking.k8s.io","flowcontrol.apiserver.k8s.io","rbac.authorization.k8s.io","apiextensions.k8s.io","apiregistration.k8s.io"],
		"resources":["validatingadmissionpolicies","validatingadmissionpolicybindings","namespaces","configmaps","serviceaccounts","deployments","poddisruptionbudgets","networkpolicies","flowschemas","prioritylevelconfigurations",
			"clusterroles","clusterrolebindings","roles","rolebindings","customresourcedefinitions","apiservices"]}]}`)
	post(t, i.client, rbac+"clusterrolebindings",
		`{"metadata":{"name":"operator"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"operator"},
		"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"operator"}]}`)
	kubeconfig, err := i.cluster.KubeconfigFor(i.cluster.Servers[0].URL(), "operator")
	if err != nil {
		t.Fatal(err)
	}
	operator, err := apiserver.NewClient(i.cluster.ConfigAs("operator"))
	if err != nil {
		t.Fatal(err)
	}
	i.eventually("the operator may patch roles", func() bool {
		return i.may(operator, "patch", "rbac.authorization.k8s.io", "clusterroles", "")
	})
	_, problem := i.runAs(kubeconfig, exit.Error, "install", "--wait=false", "--exclude=secrets",
		"--forget-flags=include")
	if want := "error: forbidden: to grant the permissions of the roles you need all of them, or the verb escalate on " +
		"clusterroles.rbac.authorization.k8s.io and roles.rbac.authorization.k8s.io\n" +
		"Try: kubectl auth can-i escalate clusterroles.rbac.authorization.k8s.io\n"; !strings.HasSuffix(problem, want) {
		t.Errorf("stderr %q, want %q", problem, want)
	}
}

// checkPodSecurity sends the pod of the Deployment to the API server, which enforces the policy of the namespace.
func (i *installer) checkPodSecurity() {
	t := i.t
	raw, err := i.client.Get().AbsPath(
		"/apis/apps/v1/namespaces/kube-migrator/deployments/kube-migrator-controller",
	).Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	var deployment struct {
		Spec struct {
			Template struct {
				Spec map[string]any `json:"spec"`
			} `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &deployment); err != nil {
		t.Fatal(err)
	}
	spec := deployment.Spec.Template.Spec
	send := func() error {
		pod, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": "like-the-controller"},
			"spec": spec})
		if err != nil {
			t.Fatal(err)
		}
		return i.client.Post().AbsPath("/api/v1/namespaces/kube-migrator/pods").Param("dryRun",
			"All").SetHeader("Content-Type", "application/json").
			Body(pod).Do(t.Context()).Error()
	}
	if err := send(); err != nil {
		t.Error(err)
	}
	delete(spec, "securityContext")
	if err := send(); err == nil || !strings.Contains(err.Error(), "restricted") {
		t.Errorf("the namespace takes a pod that does not comply: %v", err)
	}
}
