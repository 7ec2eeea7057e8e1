// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const webhooksPath = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"

// judge is a validating webhook that denies while denies is set.
func judge(t *testing.T, cluster *testbed.Cluster, object, message string) (denies *atomic.Bool) {
	t.Helper()
	denies = new(atomic.Bool)
	denies.Store(true)
	server, err := cluster.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Request struct {
				UID string `json:"uid"`
			} `json:"request"`
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		response := map[string]any{"uid": review.Request.UID, "allowed": !denies.Load()}
		if denies.Load() {
			response["status"] = map[string]any{"message": message, "code": http.StatusForbidden}
		}
		answer := map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	do(t, cluster, http.MethodPost, webhooksPath, map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
		"metadata": map[string]any{"name": "judge"},
		"webhooks": []any{map[string]any{
			"name": "judge.example.com", "sideEffects": "None", "admissionReviewVersions": []string{"v1"},
			"clientConfig": map[string]any{"url": server.URL + "/judge", "caBundle": cluster.CA()},
			"rules": []any{map[string]any{
				"apiGroups": []string{testbed.WidgetGroup}, "apiVersions": []string{"*"},
				"resources": []string{"widgets"}, "operations": []string{"UPDATE"},
			}},
			"matchConditions": []any{map[string]any{"name": "one", "expression": "request.name == '" + object + "'"}},
		}},
	})
	eventually(t, "the webhook denies", func() bool {
		status, _, err := cluster.Servers[0].Do(t.Context(), http.MethodPatch,
			"/apis/"+v2+"/namespaces/default/widgets/"+object+"?dryRun=All", []byte("{}"))
		return err == nil && status == http.StatusForbidden
	})
	return denies
}

func TestOneRejectedObjectIsNamedAndTheOthersAreMigrated(t *testing.T) {
	t.Parallel()
	const n, bad = 700, "widget-0000634"
	cluster := staleWidgets(t, n, testbed.Widgets{})
	denies := judge(t, cluster, bad, "the color is out of fashion")
	user := newCLI(t, cluster)

	got := user.migrate(4, "widgets")

	wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v1: 1, v2: n - 1})
	if claimed := storedVersions(t, cluster); !slices.Equal(claimed, []string{"v1", "v2"}) {
		t.Errorf("storedVersions = %v, want it unpruned: [v1 v2]", claimed)
	}
	if got.Outcome != render.Incomplete || got.Result.Complete || got.Result.Proven {
		t.Errorf("outcome %s, complete %v, proven %v: success was claimed (I4)", got.Outcome,
			got.Result.Complete, got.Result.Proven)
	}
	if diff := cmp.Diff(migrate.Counts{Rewritten: n - 1, Failed: 1}, got.Result.Counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if f := got.Result.Failures; len(f) != 1 || f[0].Namespace != "default" || f[0].Name != bad ||
		f[0].Reason != migrate.Rejected ||
		!strings.Contains(f[0].Message, "the color is out of fashion") {
		t.Errorf("failures = %+v, want %s, rejected, with the webhook's reason", f, bad)
	}

	t.Run("the summary for users says the same", func(t *testing.T) {
		people := *user
		people.t = t
		out := people.run(4, "migrate", "widgets", "--resume", "--settle-time=1s")
		for _, want := range []string{"finished with failures", "1 failed", "default/" + bad + ": Rejected: ",
			"the color is out of fashion", "kube-migrator migrate widgets.demo.example.com --resume"} {
			if !strings.Contains(out.stdout, want) {
				t.Errorf("the summary does not say %q:\n%s", want, out.stdout)
			}
		}
	})

	t.Run("the printed command finishes it, and sends nothing else", func(t *testing.T) {
		denies.Store(false)
		proxy := testbed.NewProxy(t, cluster)
		kubeconfig, err := proxy.Kubeconfig()
		if err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(t.Context(), "bash", "-c",
			strings.Replace(got.Next, "kube-migrator", binary, 1)+" -o json")
		command.Env = append(user.env, "KUBECONFIG="+kubeconfig)
		out, err := command.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", got.Next, err, out)
		}
		fixed := report(t, output{stdout: string(out)})
		if diff := cmp.Diff(migrate.Counts{Rewritten: n}, fixed.Result.Counts); diff != "" || !fixed.Result.Proven {
			t.Errorf("proven %v, counts (-want +got):\n%s", fixed.Result.Proven, diff)
		}
		if sent := patches(proxy); len(sent) != 1 || !strings.HasSuffix(sent[0].Path, "/"+bad) {
			t.Errorf("%d patches sent, want one, for %s", len(sent), bad)
		}
		wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v2: n})
		if claimed := storedVersions(t, cluster); !slices.Equal(claimed, []string{"v2"}) {
			t.Errorf("storedVersions = %v, want [v2]", claimed)
		}
	})

	t.Run("an object that a policy refuses is rewritten through its status", func(t *testing.T) {
		refusedObjectIsRewrittenThroughItsStatus(t, newGadgets(t, cluster, "seals"))
	})
}

func refusedObjectIsRewrittenThroughItsStatus(t *testing.T, g *gadgets) {
	const n, sealed = 5, "g-001"
	for i := range n {
		g.mustApply("alice", "v1", fmt.Sprintf("g-%03d", i), spec("color", "red"))
	}
	g.mustApply("carol", "v1", sealed, map[string]any{"status": map[string]any{"phase": "Ready"}})
	g.moveStorage("v2")
	seal(t, g, sealed)
	before := snapshot(t, g.cluster, g.prefix())
	user := newCLI(t, g.cluster)

	refused := user.migrate(4, g.name())

	if f := refused.Result.Failures; len(f) != 1 || f[0].Name != sealed || f[0].Reason != migrate.Rejected {
		t.Errorf("failures %+v, want %s, rejected", f, sealed)
	}
	out := user.run(0, "migrate", g.name(), "--settle-time=1s", "--verify", "--retry-through-status")
	if !strings.Contains(out.stdout, "1 of them by an empty patch of their status") {
		t.Errorf("it does not say that it went through the status:\n%s", out.stdout)
	}
	wantStored(t, g.cluster, g.prefix(), map[string]int{v2: n})
	if changes := before.Diff(snapshot(t, g.cluster, g.prefix())); !changes.None() {
		t.Errorf("the objects have changed (I3): %+v", changes)
	}
}

// seal lets an admission policy refuse every update of an object, and returns when it does.
func seal(t *testing.T, g *gadgets, name string) {
	t.Helper()
	const policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
	do(t, g.cluster, http.MethodPost, policies+"ies", map[string]any{
		"metadata": map[string]any{"name": g.plural},
		"spec": map[string]any{
			"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
				"apiGroups": []string{testbed.WidgetGroup}, "apiVersions": []string{"*"},
				"operations": []string{"UPDATE"}, "resources": []string{g.plural},
			}}},
			"validations": []any{map[string]any{"expression": "object.metadata.name != '" + name + "'",
				"message": "sealed"}},
		},
	})
	do(t, g.cluster, http.MethodPost, policies+"ybindings", map[string]any{
		"metadata": map[string]any{"name": g.plural},
		"spec":     map[string]any{"policyName": g.plural, "validationActions": []string{"Deny"}},
	})
	eventually(t, "the policy denies", func() bool {
		status, _, err := g.cluster.Servers[0].Do(t.Context(), http.MethodPatch,
			g.collection("v2")+"/"+name+"?dryRun=All", []byte("{}"))
		return err == nil && status == http.StatusUnprocessableEntity
	})
}

// patches are the rewrites of objects that went through the proxy.
func patches(proxy *testbed.Proxy) (sent []testbed.Record) {
	for _, r := range proxy.Records() {
		if r.Method == http.MethodPatch && r.Query.Get("fieldValidation") == "Ignore" {
			sent = append(sent, r)
		}
	}
	return sent
}
