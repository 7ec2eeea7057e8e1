// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
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
	t.Run("the controller grants versions by name", func(t *testing.T) { g.in(t).tryVersions() })
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
	g.admin.run(0, "install", "--wait=false", "--image=kube-migrator:test") // grants the new storage version
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
