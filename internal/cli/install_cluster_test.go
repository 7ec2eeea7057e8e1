// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/internal/install"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// installer runs kube-migrator against a cluster as a user does.
type installer struct {
	t          *testing.T
	cluster    *testbed.Cluster
	client     rest.Interface
	kubeconfig string
}

func newInstaller(t *testing.T, options testbed.Options) *installer {
	t.Helper()
	cluster := testbed.New(t, options)
	client, err := apiserver.NewClient(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := cluster.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	return &installer{t: t, cluster: cluster, client: client, kubeconfig: kubeconfig}
}

// run runs a command and expects an exit code.
func (i *installer) run(code int, args ...string) (out, notes string) {
	i.t.Helper()
	return i.runAs(i.kubeconfig, code, args...)
}

func (i *installer) runAs(kubeconfig string, code int, args ...string) (out, notes string) {
	i.t.Helper()
	var stdout, stderr strings.Builder
	line := append([]string{"kube-migrator", "--kubeconfig", kubeconfig}, args...)
	got := Run(i.t.Context(), line, Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr})
	if got != code {
		i.t.Fatalf("kube-migrator %s: exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", strings.Join(args, " "), got,
			code, stdout.String(), stderr.String())
	}
	return stdout.String(), stderr.String()
}

// installedAt are the collections that an installation has objects in.
var installedAt = []string{
	"/api/v1/namespaces", "/api/v1/serviceaccounts", "/apis/apps/v1/deployments",
	"/apis/policy/v1/poddisruptionbudgets",
	"/apis/networking.k8s.io/v1/networkpolicies", "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
	"/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
	"/apis/rbac.authorization.k8s.io/v1/clusterroles",
	"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "/apis/rbac.authorization.k8s.io/v1/roles",
	"/apis/rbac.authorization.k8s.io/v1/rolebindings",
	"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
	"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", "/api/v1/configmaps",
	"/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
}

// installed returns the resourceVersions of everything with our labels, by path of the collection, namespace and name.
func (i *installer) installed() map[string]string {
	i.t.Helper()
	versions := map[string]string{}
	for _, path := range installedAt {
		raw, err := i.client.Get().AbsPath(path).Param("labelSelector", "app.kubernetes.io/managed-by=kube-migrator").
			SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").Do(i.t.Context()).Raw()
		if err != nil {
			i.t.Fatal(err)
		}
		var list metav1.PartialObjectMetadataList
		if err := json.Unmarshal(raw, &list); err != nil {
			i.t.Fatal(err)
		}
		for _, o := range list.Items {
			versions[path+" "+o.Namespace+"/"+o.Name] = o.ResourceVersion
		}
	}
	return versions
}

// outcomes counts the lines of a command's report by their first word.
func outcomes(out string) map[string]int {
	counts := map[string]int{}
	for line := range strings.Lines(out) {
		counts[strings.Fields(line)[0]]++
	}
	return counts
}

// objects is how many an installation consists of.
const objects = 42

func TestInstallOnARealCluster(t *testing.T) {
	t.Parallel()
	i := newInstaller(t, testbed.Options{
		// With an advertised address the server keeps the EndpointSlice default/kubernetes, as in a cluster.
		Flags: []string{"--advertise-address=192.0.2.10", "--endpoint-reconciler-type=lease"},
		Users: []testbed.User{{Name: "guest"}, {Name: "operator"}, {Name: "viewer"},
			{Name: "requester"}, {Name: "builder"}},
	})
	if err := i.cluster.InstallWidgets(t.Context(), testbed.Widgets{}); err != nil {
		t.Fatal(err)
	}

	t.Run("a dry run writes nothing", func(t *testing.T) {
		i.t = t
		for _, mode := range []string{"client", "server"} {
			out, _ := i.run(exit.Done, "install", "--dry-run="+mode)
			if got := outcomes(out); got["created"] != objects || strings.Count(out, "(dry run") != objects {
				t.Errorf("--dry-run=%s reports %v, want %d created:\n%s", mode, got, objects, out)
			}
			if got := i.installed(); len(got) > 0 {
				t.Fatalf("--dry-run=%s wrote %v", mode, got)
			}
		}
	})
	t.Run("a user without permission is told which verb is missing, and nothing is written", func(t *testing.T) {
		i.t = t
		guest, err := i.cluster.KubeconfigFor(i.cluster.Servers[0].URL(), "guest")
		if err != nil {
			t.Fatal(err)
		}
		out, problem := i.runAs(guest, exit.Error, "install")
		if want := "error: forbidden: cannot get configmaps in the namespace kube-system\nTry: kubectl auth can-i get " +
			"configmaps -n kube-system\n"; problem != want || out != "" {
			t.Errorf("stdout %q, stderr %q, want %q", out, problem, want)
		}
		out, problem = i.runAs(guest, exit.Error, "install", "--forget-flags=all")
		if want := "error: forbidden: cannot get customresourcedefinitions.apiextensions.k8s.io at the cluster scope\n" +
			"Try: kubectl auth can-i get customresourcedefinitions.apiextensions.k8s.io\n"; problem != want ||
			out != "" {
			t.Errorf("stdout %q, stderr %q, want %q", out, problem, want)
		}
		if got := i.installed(); len(got) > 0 {
			t.Errorf("wrote %v", got)
		}
	})
	t.Run("a pattern that matches nothing gets two lines", func(t *testing.T) {
		i.t = t
		out, problem := i.run(exit.Error, "install", "--include=widgts.demo.example.com")
		want := "error: the server has no resource \"widgts.demo.example.com\"\nTry: kube-migrator install " +
			"--include=widgets.demo.example.com\n"
		if out != "" || problem != want {
			t.Errorf("stdout %q, stderr %q, want %q", out, problem, want)
		}
	})
	t.Run("what kubectl applies from --export is what install applies", func(t *testing.T) {
		i.t = t
		kubectl, err := testbed.Binary(t.Context(), testbed.V137, "kubectl", os.Stderr)
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range []string{"json", "yaml", "text"} {
			before := i.installed()
			manifests, _ := i.run(exit.Done, "install", "--export", "-o", format)
			if diff := cmp.Diff(before, i.installed()); diff != "" {
				t.Fatalf("--export changed (-before +after):\n%s", diff)
			}
			if isList := strings.HasPrefix(manifests,
				"{\n  \"apiVersion\": \"v1\",\n  \"items\": ["); isList != (format == "json") {
				t.Errorf("-o %s begins with %.60q", format, manifests)
			}
			apply := i.cluster.Command(t.Context(), kubectl, "--kubeconfig", i.kubeconfig, "apply",
				"--server-side", "-f", "-")
			apply.Stdin = strings.NewReader(manifests)
			if said, err := apply.CombinedOutput(); err != nil ||
				strings.Count(string(said), " serverside-applied\n") != objects {
				t.Fatalf("-o %s: %v: %s", format, err, said)
			}
			if got := len(i.installed()); got != objects {
				t.Errorf("-o %s: kubectl made %d objects, want %d", format, got, objects)
			}
			if format != "json" {
				if diff := cmp.Diff(before, i.installed()); diff != "" {
					t.Errorf("-o %s is not what -o json is (-json +%s):\n%s", format, format, diff)
				}
			}
		}
		if out, _ := i.run(exit.Done, "install", "--wait=false"); outcomes(out)["unchanged"] != objects {
			t.Errorf("install changes what kubectl applied:\n%s", out)
		}
	})
	t.Run("an image without a digest is warned of", func(t *testing.T) {
		i.t = t
		const warning = "Warning: the image registry.example.com/kube-migrator:v1 has no digest: whoever can push it " +
			"decides what runs"
		byDigest := "--image=registry.example.com/kube-migrator:v1@sha256:" + strings.Repeat("0", 64)
		for _, mode := range []string{"--dry-run=client", "--export"} {
			_, notes := i.run(exit.Done, "install", mode, "--image=registry.example.com/kube-migrator:v1")
			if !strings.Contains(notes, warning) {
				t.Errorf("%s: stderr %q, want %q", mode, notes, warning)
			}
			if out, notes := i.run(exit.Done, "install", mode, byDigest); out == "" ||
				strings.Contains(notes, "Warning: the image") {
				t.Errorf("%s by digest: stderr %q", mode, notes)
			}
		}
	})
	t.Run("who connects to whom can be limited, and metrics get a certificate", func(t *testing.T) {
		i.t = t
		out, _ := i.run(exit.Done, "install", "--dry-run=server", "--metrics-from-namespace=monitoring",
			"--metrics-cert-secret=metrics-tls",
			"--egress-to=192.0.2.0/28:6443,2001:db8::/64")
		for _, want := range []string{
			"configured  NetworkPolicy kube-migrator/kube-migrator (dry run",
			"configured  Deployment kube-migrator/kube-migrator-controller (dry run",
		} {
			if !strings.Contains(out, want) || outcomes(out)["configured"] != 3 { // and the flags, which are remembered
				t.Errorf("reports\n%s\nwant %s", out, want)
			}
		}
	})
	t.Run("running it again changes nothing", func(t *testing.T) {
		i.t = t
		before := i.installed()
		out, notes := i.run(exit.Done, "install", "--wait=false")
		if outcomes(out)["unchanged"] != objects ||
			!strings.Contains(notes, "kube-migrator is installed in the namespace kube-migrator and may migrate all "+
				"resources, also those that come later.\n") {
			t.Errorf("the second run reports\n%s%s", out, notes)
		}
		if diff := cmp.Diff(before, i.installed()); diff != "" {
			t.Errorf("resourceVersions moved (-before +after):\n%s", diff)
		}
	})
	t.Run("a changed flag configures what depends on it", func(t *testing.T) {
		i.t = t
		out, _ := i.run(exit.Done, "install", "--wait=false", "--replicas=3")
		if got := outcomes(out); got["configured"] != 2 ||
			!strings.Contains(out, "configured  Deployment kube-migrator/kube-migrator-controller\n") {
			t.Errorf("reports\n%s", out)
		}
	})
	t.Run("a flag is remembered until it is forgotten", func(t *testing.T) { i.t = t; i.checkFlags() })
	t.Run("a rollout that does not happen ends with what is known", func(t *testing.T) {
		i.t = t
		_, problem := i.run(exit.Error, "install", "--timeout=2s")
		if !strings.Contains(problem, "error: not within 2s: Deployment kube-migrator/kube-migrator-controller is "+
			"rolled out; at last: nothing has acted on it yet") ||
			!strings.HasSuffix(problem, "Try: kubectl -n kube-migrator describe pods\n") {
			t.Errorf("stderr %q", problem)
		}
	})
	t.Run("the pods comply with the restricted policy of their namespace",
		func(t *testing.T) { i.t = t; i.checkPodSecurity() })
	t.Run("the worker can do its work and nothing else", func(t *testing.T) { i.t = t; i.checkWorker() })
	t.Run("every account may do what the golden file says", func(t *testing.T) { i.t = t; i.checkAccounts() })
	t.Run("a viewer looks and a requester requests", func(t *testing.T) { i.t = t; i.checkUsers() })
	t.Run("the worker migrates what comes later", func(t *testing.T) { i.t = t; i.checkLater(true) })
	t.Run("the controller reads no object of what is migrated", func(t *testing.T) { i.t = t; i.checkController() })
	t.Run("without the guard nothing of it is left, and the roles are for everything",
		func(t *testing.T) { i.t = t; i.checkUnguarded() })
	t.Run("who may not impersonate the worker is told that the guard is not verified",
		func(t *testing.T) { i.t = t; i.checkUnverified() })
	t.Run("a narrower include takes permissions away", func(t *testing.T) {
		i.t = t
		i.run(exit.Done, "install", "--wait=false", "--include=*.demo.example.com")
		i.checkLater(false)
		worker := i.clientAs("kube-migrator-worker")
		i.eventually("the worker may not list secrets any more",
			func() bool { return !i.may(worker, "list", "", "secrets", "") })
		if !i.may(worker, "patch", "demo.example.com", "widgets", "") {
			t.Error("the worker may not patch what is included")
		}
		// where Leases and EndpointSlices are included, nothing would show whether the agreement may read them
		i.sweepAsWorker("Widget", schema.GroupResource{Group: "demo.example.com", Resource: "widgets"})
	})
	t.Run("sweeps in the controller need the worker's permissions", func(t *testing.T) {
		i.t = t
		i.run(exit.Done, "install", "--wait=false", "--workers=in-process", "--forget-flags=include")
		controller := i.clientAs("kube-migrator-controller")
		i.eventually("the controller may patch widgets",
			func() bool { return i.may(controller, "patch", "demo.example.com", "widgets", "") })
	})
	t.Run("no one can grant what they do not have", func(t *testing.T) { i.t = t; i.checkEscalation() })
}

func TestInstallRefusesWhatBelongsToOthers(t *testing.T) {
	t.Parallel()
	i := newInstaller(t, testbed.Options{})
	post(t, i.client, planDefinitions, `{"metadata":{"name":"storageversionmigrations.migration.k8s.io",
		"annotations":{"api-approved.kubernetes.io":"https://github.com/kubernetes/community/pull/2524"}},
		"spec":{"group":"migration.k8s.io","scope":"Cluster","names":{"plural":"storageversionmigrations","singular":"storageversionmigration","kind":"StorageVersionMigration","listKind":"StorageVersionMigrationList"},
		"versions":[{"name":"v1alpha1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`)
	post(t, i.client, "/apis/apps/v1/namespaces/kube-system/deployments",
		`{"metadata":{"name":"migrator"},"spec":{"selector":{"matchLabels":{"app":"migrator"}},
		"template":{"metadata":{"labels":{"app":"migrator"}},"spec":{"containers":[{"name":"migrator","image":"registry.example.com/storage-version-migration-migrator:v0.0.5"}]}}}}`)
	const object = `{"apiVersion":"migration.k8s.io/v1alpha1","kind":"StorageVersionMigration","metadata":{"name":"widgets-1"},"spec":{"continueToken":"abc","resource":{"group":"demo.example.com","version":"v1","resource":"widgets"}}}`
	i.eventually("the CRD is served", func() bool {
		return i.client.Post().AbsPath(
			"/apis/migration.k8s.io/v1alpha1/storageversionmigrations",
		).SetHeader("Content-Type", "application/json").Body([]byte(object)).Do(t.Context()).Error() == nil
	})

	_, problem := i.run(exit.Error, "install", "--wait=false", "--replicas=1", "--include=secrets")
	want := "error: CustomResourceDefinition storageversionmigrations.migration.k8s.io exists and belongs to another " +
		"installation; the owner: " +
		"kube-storage-version-migrator (Deployment kube-system/migrator; written by kube-migrator)\n" +
		"Try: kube-migrator install --adopt --include=secrets --kubeconfig=" + i.kubeconfig +
		" --replicas=1 --wait=false\n"
	if problem != want {
		t.Errorf("stderr %q, want %q", problem, want)
	}
	if got := i.installed(); len(got) > 0 {
		t.Errorf("what belongs to others was refused after writing %v", got)
	}

	out, notes := i.run(exit.Done, "install", "--wait=false", "--adopt")
	if !strings.Contains(out, "configured  CustomResourceDefinition storageversionmigrations.migration.k8s.io\n") ||
		!strings.Contains(notes, "Warning: Deployment kube-system/migrator of the other installation still runs.") {
		t.Errorf("--adopt reports\n%s%s", out, notes)
	}
	raw, err := i.client.Get().AbsPath(
		"/apis/migration.k8s.io/v1alpha1/storageversionmigrations/widgets-1",
	).Do(t.Context()).Raw()
	if err != nil || !strings.Contains(string(raw), `"continueToken":"abc"`) {
		t.Errorf("the object of the other installation is %s, %v", raw, err)
	}
	if err := i.client.Get().AbsPath(
		"/apis/apps/v1/namespaces/kube-system/deployments/migrator",
	).Do(t.Context()).Error(); err != nil {
		t.Errorf("the other's Deployment: %v", err)
	}
	if out, _ := i.run(exit.Done, "install", "--wait=false"); outcomes(out)["unchanged"] != objects {
		t.Errorf("what was adopted is ours afterwards, but\n%s", out)
	}

	t.Run("a namespace that exists is not taken", func(t *testing.T) {
		i.t = t
		post(t, i.client, "/api/v1/namespaces", `{"metadata":{"name":"ops"}}`)
		_, problem := i.run(exit.Error, "install", "--wait=false", "--namespace=ops")
		if !strings.HasPrefix(problem, "error: the namespace ops exists and was not made by kube-migrator, which "+
			"needs one of its own") {
			t.Errorf("stderr %q", problem)
		}
	})
}

func TestInstallReplacesAnOlderController(t *testing.T) {
	t.Parallel()
	i := newInstaller(t, testbed.Options{})
	i.run(exit.Done, "install", "--wait=false")
	managed := func(by, namespace, name, app string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"labels":{"app.kubernetes.io/name":"kube-migrator","app.kubernetes.io/component":"controller","app.kubernetes.io/managed-by":%q}},
			"spec":{"selector":{"matchLabels":{"app":%q}},"template":{"metadata":{"labels":{"app":%q}},"spec":{"containers":[{"name":"c","image":"old"}]}}}}`, namespace, name, by, app, app)
	}
	deployment := func(namespace, name, app string) string { return managed("kube-migrator", namespace, name, app) }
	const path = "/apis/apps/v1/namespaces/kube-migrator/deployments"
	if err := i.client.Delete().AbsPath(path, "kube-migrator-controller").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	post(t, i.client, path, deployment("kube-migrator", "kube-migrator-controller", "other-selector"))
	post(t, i.client, path, deployment("kube-migrator", "old-name", "old"))
	post(t, i.client, "/apis/apps/v1/namespaces/default/deployments", deployment("default", "elsewhere", "old"))

	out, _ := i.run(exit.Done, "install", "--dry-run=server")
	if got := outcomes(out); got["deleted"] != 3 || got["unchanged"] != objects-1 ||
		!strings.Contains(out, "(dry run; not checked: the older one is still there)") {
		t.Errorf("the dry run reports %v:\n%s", got, out)
	}
	out, _ = i.run(exit.Done, "install", "--wait=false")
	if got := outcomes(out); got["deleted"] != 3 || got["created"] != 1 || got["unchanged"] != objects-1 {
		t.Errorf("reports %v:\n%s", got, out)
	}
	raw, err := i.client.Get().AbsPath("/apis/apps/v1/deployments").Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "old-name") || strings.Contains(string(raw), "elsewhere") ||
		strings.Contains(string(raw), "other-selector") {
		t.Errorf("an older controller is left: %s", raw)
	}

	t.Run("one that something else manages is refused, and never deleted", func(t *testing.T) {
		i.t = t
		post(t, i.client, "/apis/apps/v1/namespaces/default/deployments",
			managed("Helm", "default", "released", "other"))
		out, problem := i.run(exit.Error, "install", "--wait=false")
		want := "error: Deployment default/released is a controller of kube-migrator that something else manages; " +
			"the owner: Helm ("
		if out != "" || !strings.HasPrefix(problem, want) {
			t.Errorf("stdout %q, stderr %q, want %q", out, problem, want)
		}
		_, notes := i.run(exit.Done, "install", "--wait=false", "--adopt")
		if !strings.Contains(notes, "Warning: Deployment default/released is a controller of kube-migrator that "+
			"something else manages. Stop it") {
			t.Errorf("--adopt: stderr %q", notes)
		}
		if err := i.client.Get().AbsPath(
			"/apis/apps/v1/namespaces/default/deployments/released",
		).Do(t.Context()).Error(); err != nil {
			t.Errorf("the Deployment of Helm: %v", err)
		}
	})
}

func TestAnUpgradeKeepsWhatDiscoveryCannotShowAndTheFlags(t *testing.T) {
	t.Parallel()
	i := newInstaller(t, testbed.Options{})
	if err := i.cluster.InstallWidgets(t.Context(), testbed.Widgets{}); err != nil {
		t.Fatal(err)
	}
	proxy := testbed.NewProxy(t, i.cluster)
	kubeconfig, err := proxy.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	i.run(exit.Done, "install", "--wait=false", "--exclude=secrets")
	worker := i.clientAs("kube-migrator-worker")
	i.eventually("the worker may patch widgets",
		func() bool { return i.may(worker, "patch", "demo.example.com", "widgets", "") })

	if err := install.Pause(t.Context(), i.client, time.Now()); err != nil {
		t.Fatal(err)
	}
	proxy.SetRules(testbed.Rule{Fault: testbed.InternalError(), Match: testbed.PathContains("/apis/demo.example.com/")})
	_, notes := i.runAs(kubeconfig, exit.Undetermined, "install", "--wait=false", "--image=kube-migrator:next")
	for _, want := range []string{
		"Skipped: demo.example.com/v", "error: done, but of demo.example.com/v",
		"discovery could not be read\nTry: kube-migrator install --exclude=secrets --image=kube-migrator:next",
		"Kept from the last installation: --exclude=secrets\n", "Upgrade: the controller's --worker-image: ",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("stderr %q, want %q", notes, want)
		}
	}
	if since, err := install.Paused(t.Context(), i.client); err != nil || since == "" {
		t.Errorf("what was paused is so no more after the upgrade (%v)", err)
	}
	if i.may(worker, "patch", "", "secrets", "") {
		t.Error("the worker may patch what was excluded by the last installation")
	}
	if !i.may(worker, "patch", "demo.example.com", "widgets", "") {
		t.Error("the worker may not patch any more what discovery could not show")
	}
	if out, _ := i.runAs(kubeconfig, exit.Undetermined, "install",
		"--export"); !strings.Contains(out, "- demo.example.com\n") {
		t.Error("--export leaves out what discovery could not show")
	}
	i.runAs(kubeconfig, exit.Undetermined, "install", "--wait=false", "--exclude=widgets.*")
	i.eventually("the worker may not patch what is excluded",
		func() bool { return !i.may(worker, "patch", "demo.example.com", "widgets", "") })
}

func TestANamespaceOfOthersIsUsedAndNeverDeleted(t *testing.T) {
	t.Parallel()
	i := newInstaller(t, testbed.Options{})
	const namespace = "/api/v1/namespaces/ops"
	post(t, i.client, "/api/v1/namespaces", `{"metadata":{"name":"ops"}}`)
	post(t, i.client, namespace+"/secrets", `{"metadata":{"name":"theirs"}}`)
	labels := func() map[string]string {
		t.Helper()
		raw, err := i.client.Get().AbsPath(namespace).SetHeader("Accept", "application/json").Do(t.Context()).Raw()
		var o metav1.PartialObjectMetadata
		if err := errors.Join(err, json.Unmarshal(raw, &o)); err != nil {
			t.Fatal(err)
		}
		if o.DeletionTimestamp != nil {
			t.Error("the namespace of others is being deleted")
		}
		delete(o.Labels, "kubernetes.io/metadata.name")
		return o.Labels
	}
	before := labels()
	for arguments, want := range map[string]string{
		"--adopt": "error: the namespace ops belongs to others, and --adopt does not say that you trust them: " +
			"whoever may create pods in it, or edit the workloads there, gets the permissions of the worker\n",
		"--trust-namespace": "error: the namespace ops exists and was not made by kube-migrator, which needs one of " +
			"its own: " +
			"whoever may create pods in it, or edit the workloads there, gets the permissions of the worker; " +
			"the owner: unknown (written by kube-migrator)\n",
	} {
		_, problem := i.run(exit.Error, "install", "-n=ops", "--wait=false", arguments)
		want += "Try: kube-migrator install --adopt --trust-namespace --kubeconfig=" + i.kubeconfig +
			" --namespace=ops --wait=false\n"
		if problem != want {
			t.Errorf("%s: stderr %q, want %q", arguments, problem, want)
		}
		if diff := cmp.Diff(before, labels()); diff != "" || len(i.installed()) > 0 {
			t.Errorf("%s: refused after writing %v (-before +after):\n%s", arguments, i.installed(), diff)
		}
	}
	out, _ := i.run(exit.Done, "install", "--wait=false", "-n=ops", "--adopt", "--trust-namespace")
	if want := "configured  Namespace ops (only marked: it belongs to others, and uninstall leaves it)\n"; !strings.Contains(out, want) {
		t.Errorf("reports\n%s\nwant %s", out, want)
	}
	if diff := cmp.Diff(map[string]string{"migration.k8s.io/adopted-by": "kube-migrator"}, labels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if out, _ := i.run(exit.Done, "install", "--wait=false", "-n=ops"); outcomes(out)["unchanged"] != objects {
		t.Errorf("what was adopted once needs neither flag again, but\n%s", out)
	}
	i.run(exit.Done, "uninstall", "--purge")
	if got := labels(); len(got) > 0 {
		t.Errorf("after the purge the namespace has the labels %v", got)
	}
	if err := i.client.Get().AbsPath(namespace, "secrets/theirs").Do(t.Context()).Error(); err != nil {
		t.Errorf("the secret of others: %v", err)
	}
	if left := i.installed(); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

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
		post(t, i.client, planDefinitions, later)
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
	_, problem := i.runAs(kubeconfig, exit.Error, "install", "--wait=false", "--exclude=secrets")
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

func TestTheDefaultImageIsThatOfTheReleaseOrOneOnTheNodes(t *testing.T) {
	t.Parallel()
	released := "registry.example.com/kube-migrator:v1.2.3@sha256:" + strings.Repeat("0", 64)
	for want, build := range map[string]Build{
		released:                         {Version: "v1.2.3", Image: released},
		"localhost/kube-migrator:v1.2.3": {Version: "v1.2.3"}, "localhost/kube-migrator:devel": {Version: "(devel)"},
		"localhost/kube-migrator:v0.0.0-2026-dirty": {Version: "v0.0.0-2026+dirty"},
	} {
		if got := defaultImage(build); got != want {
			t.Errorf("the image of %+v is %s, want %s", build, got, want)
		}
	}
}
