// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

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
const objects = 44

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

	for _, step := range []struct {
		name  string
		check func(*installer)
	}{
		{"a dry run writes nothing", (*installer).checkDryRun},
		{"a user without permission is told which verb is missing, and nothing is written",
			(*installer).checkMissingPermission},
		{"a pattern that matches nothing gets two lines", (*installer).checkUnknownPattern},
		{"what kubectl applies from --export is what install applies", (*installer).checkExport},
		{"an image without a digest is warned of", (*installer).checkDigest},
		{"who connects to whom can be limited, and metrics get a certificate", (*installer).checkNetwork},
		{"running it again changes nothing", (*installer).checkAgain},
		{"a changed flag configures what depends on it", (*installer).checkChangedFlag},
		{"a flag is remembered until it is forgotten", (*installer).checkFlags},
		{"a rollout that does not happen ends with what is known", (*installer).checkStuckRollout},
		{"the pods comply with the restricted policy of their namespace", (*installer).checkPodSecurity},
		{"the worker can do its work and nothing else", (*installer).checkWorker},
		{"every account may do what the golden file says", (*installer).checkAccounts},
		{"a viewer looks and a requester requests", (*installer).checkUsers},
		{"the worker migrates what comes later", func(i *installer) { i.checkLater(true) }},
		{"the controller reads no object of what is migrated", (*installer).checkController},
		{"without the guard nothing of it is left, and the roles are for everything", (*installer).checkUnguarded},
		{"who may not impersonate the worker is told that the guard is not verified", (*installer).checkUnverified},
		{"a narrower include takes permissions away", (*installer).checkNarrowerInclude},
		{"no one can grant what they do not have", (*installer).checkEscalation},
	} {
		t.Run(step.name, func(t *testing.T) {
			i.t = t
			step.check(i)
		})
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
