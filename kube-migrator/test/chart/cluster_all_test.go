// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package chart

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

const namespace = "kube-migrator"

// release is an installation by Helm on a real API server, without controllers.
type release struct {
	t          *testing.T
	kubeconfig string
}

// helm runs Helm as an administrator, and expects that it succeeds.
func (r *release) helm(args ...string) (stdout string) {
	r.t.Helper()
	out, problems, err := helm(r.t, append(args, "--kubeconfig", r.kubeconfig, "--namespace", namespace)...)
	if err != nil {
		r.t.Fatalf("helm %s: %v\n%s%s", strings.Join(args, " "), err, out, problems)
	}
	return out
}

// kubectl runs kubectl as an administrator.
func (r *release) kubectl(args ...string) (stdout, stderr string, err error) {
	r.t.Helper()
	return r.kubectlWith("", args...)
}

// kubectlWith runs kubectl as an administrator, with an input.
func (r *release) kubectlWith(input string, args ...string) (stdout, stderr string, err error) {
	r.t.Helper()
	return run(r.t, testbed.Newest, "kubectl", input, append(args, "--kubeconfig", r.kubeconfig)...)
}

// get returns an object of a kind, or nil if there is none.
func (r *release) get(kind, namespace, name string) *unstructured.Unstructured {
	r.t.Helper()
	args := []string{"get", kind, name, "-o", "json", "--ignore-not-found"}
	if namespace != "" {
		args = append(args, "-n", namespace)
	}
	out, problems, err := r.kubectl(args...)
	if err != nil {
		r.t.Fatalf("%v\n%s", err, problems)
	}
	if out == "" {
		return nil
	}
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(out), &o.Object); err != nil {
		r.t.Fatal(err)
	}
	return o
}

// live returns the objects of a plan as the API server holds them, by kind, namespace and name.
func (r *release) live(plan map[string]*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	r.t.Helper()
	manifests, err := install.JSON(slices.Collect(maps.Values(plan)))
	if err != nil {
		r.t.Fatal(err)
	}
	out, problems, err := r.kubectlWith(string(manifests), "get", "-f", "-", "-o", "json", "--ignore-not-found")
	if err != nil {
		r.t.Fatalf("%v\n%s", err, problems)
	}
	var list unstructured.UnstructuredList
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		r.t.Fatal(err)
	}
	objects := map[string]*unstructured.Unstructured{}
	for n := range list.Items {
		objects[nameOf(&list.Items[n])] = &list.Items[n]
	}
	return objects
}

// expect fails the test unless the API server holds the objects of a plan with all their fields.
func (r *release) expect(plan map[string]*unstructured.Unstructured) {
	r.t.Helper()
	live := r.live(plan)
	for name, want := range plan {
		if live[name] == nil {
			r.t.Errorf("%s does not exist", name)
		} else if problem := lacks(want.Object, live[name].Object); problem != "" {
			r.t.Errorf("%s: %s", name, problem)
		}
	}
}

// kubeMigrator runs kube-migrator as an administrator, and expects an exit code.
func (r *release) kubeMigrator(code int, args ...string) (stdout, stderr string) {
	r.t.Helper()
	var out, problems strings.Builder
	line := append([]string{"kube-migrator", "--kubeconfig", r.kubeconfig}, args...)
	streams := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &problems}
	if got := cli.Run(r.t.Context(), line, streams); got != code {
		r.t.Fatalf("%q: exit code %d, want %d\n%s%s", args, got, code, out.String(), problems.String())
	}
	return out.String(), problems.String()
}

// rules returns the rules of a ClusterRole as JSON.
func (r *release) rules(name string) string {
	r.t.Helper()
	role := r.get("clusterrole", "", name)
	if role == nil {
		return "no role"
	}
	raw, err := json.Marshal(role.Object["rules"])
	if err != nil {
		r.t.Fatal(err)
	}
	return string(raw)
}

func TestTheLifeOfARelease(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{})
	kubeconfig, err := cluster.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	r := &release{t: t, kubeconfig: kubeconfig}
	for _, step := range []struct {
		name  string
		check func(*release)
	}{
		{"the chart is what install --export writes", (*release).checkExport},
		{"it is installed", (*release).checkInstalled},
		{"the guard is in force", (*release).checkGuard},
		{"the controller grants the worker what it has to migrate", (*release).checkGranted},
		{"install and uninstall leave alone what Helm manages", (*release).checkRefused},
		{"an upgrade changes what its values change, and keeps what the controller has granted", (*release).checkUpgraded},
		{"Prometheus Operator learns where the metrics are", (*release).checkMonitored},
		{"without the guard its objects are gone", (*release).checkUnguarded},
		{"it is uninstalled, and the CRDs with their objects stay", (*release).checkUninstalled},
		{"it is installed again", (*release).checkInstalled},
	} {
		t.Run(step.name, func(t *testing.T) {
			r.t = t
			step.check(r)
		})
	}
}

// checkExport expects that install --export writes what the chart renders. Only these may differ: the ConfigMap in which
// install remembers its flags, and, with the guard, the roles in which install names the resources of the cluster and
// their versions.
func (r *release) checkExport() {
	r.t.Helper()
	for _, guard := range []string{"true", "false"} {
		manifests, _ := r.kubeMigrator(exit.Done, "install", "--export", "--forget-flags=all", "--image="+image, "--guard="+guard)
		rendered, problems, err := template(r.t, namespace, "image: "+image+"\nguard: "+guard)
		if err != nil {
			r.t.Fatalf("%v\n%s", err, problems)
		}
		want, got := asHelm(r.t, byName(r.t, manifests)), byName(r.t, rendered)
		differ := []string{"ConfigMap kube-system/kube-migrator-flags"}
		if guard == "true" {
			differ = append(differ, "ClusterRole "+install.WorkerAccount, "ClusterRole "+install.WorkerAccount+"-versions")
		}
		for _, name := range differ {
			if want[name] == nil || got[name] == nil || cmp.Equal(fieldsOf(r.t, want[name]), fieldsOf(r.t, got[name])) {
				r.t.Errorf("with --guard=%s, %s does not differ", guard, name)
			}
			delete(want, name)
			delete(got, name)
		}
		compare(r.t, want, got)
	}
}

// checkInstalled expects that Helm installs what the plan says.
func (r *release) checkInstalled() {
	r.t.Helper()
	notes := r.helm("install", "kube-migrator", chart, "--create-namespace", "--set", "image="+image)
	for _, want := range []string{"may migrate all resources, also those that come later", "has no digest"} {
		if !strings.Contains(notes, want) {
			r.t.Errorf("the notes do not say %q:\n%s", want, notes)
		}
	}
	r.expect(asHelm(r.t, planned(r.t, defaults())))
}

// lacks returns the path of a field that an object should have and has not, or "". The API server adds fields, but
// removes and changes none.
func lacks(want, got any) string {
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(w)) {
			if path := lacks(w[name], g[name]); path != "" {
				return name + "." + path
			}
		}
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			return "differs in its length"
		}
		for n := range w {
			if path := lacks(w[n], g[n]); path != "" {
				return path
			}
		}
	default:
		a, _ := json.Marshal(want)
		b, _ := json.Marshal(got)
		if string(a) != string(b) {
			return "is " + string(b) + ", want " + string(a)
		}
	}
	return ""
}

// checkGuard expects that the API server refuses what the notes of the release name as soon as it has learned of the
// policies, and that the roles let the worker patch what the controller may not grant and the guard covers.
func (r *release) checkGuard() {
	r.t.Helper()
	var probe []string
	for line := range strings.Lines(r.helm("get", "notes", "kube-migrator")) {
		if command, isCommand := strings.CutPrefix(strings.TrimSpace(line), "kubectl create token "); isCommand {
			probe = append([]string{"create", "token"}, strings.Fields(command)...)
		}
	}
	if len(probe) == 0 {
		r.t.Fatal("the notes name no command that verifies the guard")
	}
	want := "ValidatingAdmissionPolicy 'kube-migrator-worker' with binding 'kube-migrator-worker' denied request"
	for begin := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		_, problems, err := r.kubectl(probe...)
		if err != nil && strings.Contains(problems, want) {
			break
		}
		if time.Since(begin) > 30*time.Second {
			r.t.Fatalf("%v\n%s\nwant %s", err, problems, want)
		}
	}
	const worker = "--as=system:serviceaccount:" + namespace + ":" + install.WorkerAccount
	out, problems, err := r.kubectl("api-resources", "--api-group=admissionregistration.k8s.io", "-o", "name")
	if err != nil {
		r.t.Fatalf("%v\n%s", err, problems)
	}
	for name := range strings.Lines(out) {
		resource := schema.ParseGroupResource(strings.TrimSpace(name))
		can, _, _ := r.kubectl("auth", "can-i", "patch", resource.String(), worker)
		if may := strings.HasPrefix(can, "yes"); may == inventory.ExemptFromPolicies(resource) {
			r.t.Errorf("whether the worker may patch %s: %v", resource, may)
		}
	}
}

// apply creates an object.
func (r *release) apply(manifest string) {
	r.t.Helper()
	if _, problems, err := r.kubectlWith(manifest, "apply", "--server-side", "-f", "-"); err != nil {
		r.t.Fatalf("%v\n%s", err, problems)
	}
}

// checkRefused expects that install touches nothing that Helm manages.
func (r *release) checkRefused() {
	r.t.Helper()
	before := r.rules(install.WorkerAccount)
	_, problems := r.kubeMigrator(exit.Error, "install", "--wait=false", "--image="+image)
	for _, want := range []string{
		"Deployment kube-migrator/kube-migrator-controller is a controller of kube-migrator that something else manages",
		"the owner: the Helm release kube-migrator/kube-migrator",
	} {
		if !strings.Contains(problems, want) {
			r.t.Errorf("install says\n%swant %s", problems, want)
		}
	}
	if after := r.rules(install.WorkerAccount); after != before {
		r.t.Errorf("install has changed the role of the worker:\n%s\nto\n%s", before, after)
	}
	r.kubeMigrator(exit.Done, "uninstall")
	r.expect(asHelm(r.t, planned(r.t, defaults())))
}

// checkUpgraded expects that an upgrade changes what its values change, and nothing that the controller or the user has
// written.
func (r *release) checkUpgraded() {
	r.t.Helper()
	const later = "kube-migrator-worker-later"
	granted := r.rules(later)
	r.kubeMigrator(exit.Done, "pause", "--all")
	r.helm("upgrade", "kube-migrator", chart, "--reuse-values", "--set", "replicas=3,autoTrigger=false")
	o := defaults()
	o.Replicas, o.RecordOnly = 3, true
	r.expect(asHelm(r.t, planned(r.t, o)))
	if got := r.rules(later); got != granted || !strings.Contains(got, `"secrets"`) {
		r.t.Errorf("the controller had granted\n%s\nand after the upgrade there is\n%s", granted, got)
	}
	flags := r.get("configmap", "kube-system", "kube-migrator-flags")
	if paused, _, _ := unstructured.NestedString(flags.Object, "data", "paused"); paused == "" {
		r.t.Errorf("the upgrade has resumed what was paused: %v", flags.Object["data"])
	}
}

// checkUnguarded expects that an upgrade to guard: false removes the policies and what the controller has granted.
func (r *release) checkUnguarded() {
	r.t.Helper()
	r.helm("upgrade", "kube-migrator", chart, "--reuse-values", "--set", "guard=false")
	out, problems, err := r.kubectl("get", "validatingadmissionpolicies,validatingadmissionpolicybindings,clusterroles,"+
		"clusterrolebindings", "-o", "name", "-l", "app.kubernetes.io/name=kube-migrator")
	if err != nil {
		r.t.Fatalf("%v\n%s", err, problems)
	}
	if strings.Contains(out, "policies") || strings.Contains(out, "policybinding") || strings.Contains(out, "-later") ||
		strings.Contains(out, "-versions") {
		r.t.Errorf("without the guard there are\n%s", out)
	}
	if got := r.rules(install.WorkerAccount); !strings.HasPrefix(got,
		`[{"apiGroups":["*"],"resources":["*"],"verbs":["get","list","patch"]}`) {
		r.t.Errorf("the rules of the worker are %s", got)
	}
}

// checkUninstalled expects that Helm removes everything but the CRDs and what they hold.
func (r *release) checkUninstalled() {
	r.t.Helper()
	r.apply(`{"apiVersion":"migration.k8s.io/v1alpha1","kind":"StorageVersionMigration","metadata":{"name":"widgets"},` +
		`"spec":{"resource":{"group":"demo.example.com","resource":"widgets"}}}`)
	r.helm("uninstall", "kube-migrator")
	plan := asHelm(r.t, planned(r.t, defaults()))
	live := r.live(plan)
	for name, o := range plan {
		if isCRD := o.GetKind() == "CustomResourceDefinition"; isCRD != (live[name] != nil) {
			r.t.Errorf("%s exists: %v, want %v", name, live[name] != nil, isCRD)
		}
	}
	if r.get("storageversionmigrations.migration.k8s.io", "", "widgets") == nil {
		r.t.Error("the migration of the user is gone")
	}
}
