// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/cli/exit"
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
		const warning = "Warning: the image registry.example.com/kube-migrator:v1 has no digest: anyone who can push it " +
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
