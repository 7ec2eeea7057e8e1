// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/config"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/crdlife"
)

// upgradeContinuesWhereverItIsKilled kills one run after the other, each before or after the next kind of write.
func upgradeContinuesWhereverItIsKilled(t *testing.T, g *gadgets) {
	const n = 6
	user, proxy := throughProxy(t, g.cluster)
	user.kubectl("apply", "-f", g.file("v1*", "v2")) // on the client's side
	g.ready("v1", "v2")
	g.fill(n)
	user.kubectl("apply", "-f", g.file("v1", "v2*"))
	next := g.file("v2*")
	args := []string{"upgrade-crd", "-f", next, "--settle-time=1s"}
	crd := func(kind types.PatchType) func(*http.Request) bool {
		return func(r *http.Request) bool {
			return r.URL.Path == g.whole() && r.Header.Get("Content-Type") == string(kind)
		}
	}
	item := func(r *http.Request) bool { return strings.Contains(r.URL.Path, g.item()) }
	for _, moment := range []struct {
		name  string
		match func(*http.Request) bool
	}{
		{"fields are taken over from kubectl", crd(types.JSONPatchType)},
		{"the intermediate CRD is applied", crd(types.ApplyYAMLPatchType)},
		{"an object is rewritten", item},
		{"storedVersions is pruned", func(r *http.Request) bool { return r.URL.Path == g.whole()+"/status" }},
		{"managedFields are moved", func(r *http.Request) bool {
			return item(r) &&
				r.URL.Query().Get("fieldManager") == "kube-migrator"
		}},
		{"the CRD of the file is applied", crd(types.ApplyYAMLPatchType)},
	} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("when %s, after: %v", moment.name, after), func(t *testing.T) {
				user.killed(proxy, after, 0, func(r *http.Request) bool {
					return r.Method == http.MethodPatch &&
						moment.match(r)
				}, args...)
				g.wantNothingStranded(n)
			})
		}
	}
	user.run(0, args...)
	g.wantVersions("v2", "v2 served storage")
	g.wantUnnamed(n)
	before := crdOf(t, g.cluster, g.name()).ResourceVersion
	user.kubectl("apply", "--server-side", "-f", next)
	if after := crdOf(t, g.cluster, g.name()).ResourceVersion; after != before {
		t.Error("kubectl apply --server-side changes the CRD")
	}
}

func upgradeTakesNoFieldsOfOthers(t *testing.T, g *gadgets) {
	user := newCLI(t, g.cluster)
	do(t, g.cluster, http.MethodPost, strings.TrimSuffix(crdsPath, "/")+"?fieldManager=helm", g.crd("v1*"))
	g.ready("v1")
	next := g.file("v1*", "v2")
	for _, args := range [][]string{{"--dry-run"}, nil} {
		out := user.run(2, append([]string{"upgrade-crd", "-f", next}, args...)...)
		for _, want := range []string{`refused        `,
			`conflict with "helm" using apiextensions.k8s.io/v1: .spec.versions`,
			"Try: kube-migrator upgrade-crd --filename=" + next + " --force-conflicts\n"} {
			if !strings.Contains(out.stdout, want) {
				t.Errorf("%v: it does not say %q:\n%s", args, want, out.stdout)
			}
		}
	}
	g.wantVersions("v1", "v1 served storage")
	user.run(0, "upgrade-crd", "-f", next, "--field-manager=helm-next", "--force-conflicts")
	g.wantVersions("v1", "v1 served storage", "v2 served")
	owners := crdOf(t, g.cluster, g.name()).ManagedFields
	if !slices.ContainsFunc(owners, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == "helm-next" &&
			e.Operation == "Apply"
	}) {
		t.Errorf("helm-next owns nothing: %v", owners)
	}
}

func upgradeLosesNoFieldWithoutAWord(t *testing.T, g *gadgets) {
	user := newCLI(t, g.cluster)
	user.run(0, "upgrade-crd", "-f", g.file("v1*", "v2"))
	g.ready("v1", "v2")
	g.fill(2, "legacy", "old")
	accepted := "--accept-field-loss=" + g.name()
	g.cluster.Loses(g.prefix(), "spec.legacy", accepted)
	user.kubectl("apply", "--server-side", "-f", g.file("v1", "v2*"))
	g.ready("v1", "v2")
	g.mustApply("carol", "v2", "g-100", spec("color", "green"))
	next := g.file("v2*")

	refused := user.upgradeCRDs(2, next)[g.name()]

	if refused.Reason != crdlife.FieldLoss || !strings.HasPrefix(refused.Next, "kubectl get "+g.name()) ||
		!strings.Contains(refused.Error, accepted) {
		t.Errorf("refused %q (%s), next %q", refused.Reason, refused.Error, refused.Next)
	}
	if diff := cmp.Diff("2 objects: spec.legacy", shownLosses(refused)); diff != "" {
		t.Errorf("losses (-want +got):\n%s", diff)
	}
	g.wantVersions("v1 v2", "v1 served", "v2 served storage")
	before := crdOf(t, g.cluster, g.name()).ResourceVersion
	if got := user.upgradeCRDs(0, next, accepted,
		"--dry-run"); stepsOf(got)[g.name()] != wholeUpgrade {
		t.Errorf("a dry run: %v", stepsOf(got))
	}
	if after := crdOf(t, g.cluster, g.name()).ResourceVersion; after != before {
		t.Error("the dry run has written the CRD")
	}
	if out := user.run(1, "upgrade-crd", "-f", next, "--accept-field-loss=spec.legacy"); !strings.Contains(out.stderr,
		"the name of a CustomResourceDefinition in the files") {
		t.Errorf("accepted for another one: %s", out.stderr)
	}
	if got := user.upgradeCRDs(0, next, accepted); stepsOf(got)[g.name()] != wholeUpgrade ||
		shownLosses(got[g.name()]) != "2 objects: spec.legacy" {
		t.Errorf("accepted: %v, lost %s", stepsOf(got), shownLosses(got[g.name()]))
	}
	g.wantVersions("v2", "v2 served storage")
	g.wantUnnamed(3)
	g.mustApply("alice", "v2", "g-000", spec("color", "red", "payload", "q"))
}

// upgradeIsPlannedAgain lets someone make v1 the storage version again, and write an object in it, just before v1 is
// to go.
func upgradeIsPlannedAgain(t *testing.T, g *gadgets) {
	user, proxy := throughProxy(t, g.cluster)
	user.run(0, "upgrade-crd", "-f", g.file("v1*", "v2"))
	g.ready("v1", "v2")
	g.fill(3)
	other := newCLI(t, g.cluster)
	back := testbed.Overtaken(func() {
		other.kubectl("apply", "--server-side", "-f", g.file("v1*", "v2"))
		g.ready("v1")
		g.mustApply("carol", "v1", "g-100", spec("color", "green"))
	})
	proxy.SetRules(testbed.Rule{Fault: back, Skip: 1, Times: 1, Match: func(r *http.Request) bool {
		return r.URL.Path == g.whole() && r.Header.Get("Content-Type") == string(types.ApplyYAMLPatchType)
	}})

	upgraded := user.upgradeCRDs(0, g.file("v2*"))

	want := map[string]string{g.name(): "intermediate migrate prune managedFields " + wholeUpgrade}
	if diff := cmp.Diff(want, stepsOf(upgraded)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	g.wantVersions("v2", "v2 served storage")
	g.wantUnnamed(4)
}

// upgradeWaitsForTheController plays a controller, which asks for a migration some time after the CRD has changed.
func upgradeWaitsForTheController(t *testing.T, g *gadgets) {
	if err := g.cluster.InstallCRDs(t.Context(), config.CRDs); err != nil {
		t.Fatal(err)
	}
	user, proxy := throughProxy(t, g.cluster)
	user.run(0, "upgrade-crd", "-f", g.file("v1*", "v2"))
	g.ready("v1", "v2")
	g.fill(3)
	resource := map[string]any{"group": testbed.WidgetGroup, "resource": g.plural}
	do(t, g.cluster, http.MethodPost, strings.Replace(migrations, "storageversionmigrations",
		"storagestates", 1), map[string]any{
		"apiVersion": "migration.k8s.io/v1alpha1", "kind": "StorageState",
		"metadata": map[string]any{"name": g.name()}, "spec": map[string]any{"resource": resource},
	})
	_, wait := user.start("upgrade-crd", "-f", g.file("v2*"), "--settle-time=1s")
	rewrites := func() (n int) {
		for _, r := range proxy.Records() {
			if r.Method == http.MethodPatch && strings.Contains(r.Path, g.item()) {
				n++
			}
		}
		return n
	}
	looks := func() (n int) {
		for _, r := range proxy.Records() {
			if r.Path == migrations {
				n++
			}
		}
		return n
	}
	eventually(t, "it waits for the controller to notice", func() bool { return looks() >= 2 || rewrites() > 0 })
	do(t, g.cluster, http.MethodPost, migrations, map[string]any{
		"apiVersion": "migration.k8s.io/v1alpha1", "kind": "StorageVersionMigration",
		"metadata": map[string]any{"name": g.name()}, "spec": map[string]any{"resource": resource},
	})
	before := looks()
	eventually(t, "it waits for the migration", func() bool { return looks() >= before+3 || rewrites() > 0 })
	if n := rewrites(); n > 0 {
		t.Errorf("%d objects were rewritten while the controller was to migrate them", n)
	}
	do(t, g.cluster, http.MethodPatch, migrations+"/"+g.name()+"/status",
		map[string]any{"status": map[string]any{"completedGeneration": 1}})
	if out := wait(); out.code != 0 || !strings.Contains(out.stderr,
		"Waiting for storageversionmigration.migration.k8s.io/"+g.name()+"\n") {
		t.Errorf("exit code %d\n%s\n%s", out.code, out.stdout, out.stderr)
	}
	g.wantVersions("v2", "v2 served storage")
}

// upgradeConvertsBeforeTheWebhookGoes has a file without v1, and without the conversion webhook that keeps a field of
// v1 in another of v2.
func upgradeConvertsBeforeTheWebhookGoes(t *testing.T, g *gadgets) {
	converter := newConverter(t, g.cluster)
	converter.move = func(fields map[string]any, apiVersion string) {
		from, to := "legacy", "payload"
		if apiVersion == v1 {
			from, to = to, from
		}
		if value, ok := fields[from]; ok {
			fields[to] = value
			delete(fields, from)
		}
	}
	user := newCLI(t, g.cluster)
	live := g.crd("v1*", "v2")
	live["spec"].(map[string]any)["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"clientConfig":             map[string]any{"url": converter.web.URL, "caBundle": g.cluster.CA()},
		"conversionReviewVersions": []string{"v1"},
	}}
	user.run(0, "upgrade-crd", "-f", g.fileOf(live))
	g.ready("v1", "v2")
	for _, name := range []string{"g-000", "g-001", "g-002"} {
		g.mustApply("alice", "v1", name, spec("legacy", "kept in "+name))
	}
	g.cluster.Loses(g.prefix(), "spec.legacy", "the webhook moves it to payload")
	next := g.file("v2*")

	converter.down.Store(true)
	out := user.run(2, "upgrade-crd", "-f", next, "--settle-time=1s")
	if !strings.Contains(out.stdout+out.stderr, "conversion webhook") {
		t.Errorf("it does not say that the conversion webhook fails:\n%s\n%s", out.stdout, out.stderr)
	}
	converter.down.Store(false)
	g.wantNothingStranded(3)

	steps := stepsOf(user.upgradeCRDs(0, next))[g.name()]
	if !strings.HasSuffix(steps, "migrate prune managedFields apply") {
		t.Errorf("steps %q, want the objects migrated before the file is applied", steps)
	}
	g.wantVersions("v2", "v2 served storage")
	g.wantUnnamed(3)
	converter.down.Store(true)
	var list struct {
		Items []struct {
			Metadata metav1.ObjectMeta
			Spec     struct{ Payload string }
		}
	}
	getWhenReady(t, g.cluster, g.collection("v2"), &list)
	for _, item := range list.Items {
		if want := "kept in " + item.Metadata.Name; item.Spec.Payload != want {
			t.Errorf("%s has the payload %q, want %q", item.Metadata.Name, item.Spec.Payload, want)
		}
	}
	if len(list.Items) != 3 {
		t.Errorf("%d objects, want 3", len(list.Items))
	}
}

func upgradeReadsWhatKubectlPrints(t *testing.T, g *gadgets) {
	user := newCLI(t, g.cluster)
	path := filepath.Join(t.TempDir(), "list.json")
	namespace := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "other"}}
	list := map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{namespace, g.crd("v1*")}}
	if err := os.WriteFile(path, mustJSON(list), 0o600); err != nil {
		t.Fatal(err)
	}
	out := user.shell(0, binary+" upgrade-crd -f - < "+path)
	if want := g.name() + "  create         created with v1\n"; out.stdout != want {
		t.Errorf("it says %q, want %q", out.stdout, want)
	}
	if want := "Skipped: 1 objects that are not CustomResourceDefinitions.\n"; out.stderr != want {
		t.Errorf("the other one says %q, want %q", out.stderr, want)
	}
	if out := user.run(1, "upgrade-crd", "-f", path, "-f", path); !strings.Contains(out.stderr, "give one of them") {
		t.Errorf("a CRD that is there twice: %s", out.stderr)
	}
}

func shownLosses(c render.CRDUpgrade) string {
	if c.Losses == nil {
		return ""
	}
	return fmt.Sprintf("%d objects: %s", c.Losses.Objects, strings.Join(c.Losses.Fields, ", "))
}
