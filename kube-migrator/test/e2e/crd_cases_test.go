// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/crdlife"
)

// Situations of users of CRDs, from public reports of several projects. check -f and upgrade-crd agree about each.
func TestSituationsOfUsersOfCRDs(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{})
	for i, situation := range []struct {
		name string
		run  func(*testing.T, *gadgets)
	}{
		{"a field that cannot be changed", invalid},
		{"a narrower schema of the version that stays", narrowerSchema},
		{"unknown fields that were preserved", unknownFields},
		{"a conversion webhook that is gone and that no object needs", unneededWebhook},
		{"a conversion webhook that clients need", clientsNeedIt},
		{"a caBundle of a webhook that goes", injectedBundle},
		{"storedVersions that were trimmed by hand", trimmedByHand},
		{"objects that outlived their CRD", outlived},
		{"ownerReferences at a version that goes", ownedAtAVersion},
		{"a conversion webhook that is gone and that only changed apiVersions", trivialWebhook},
		{"a conversion webhook that is gone and that objects need", neededWebhook}, // last: its objects stay unreadable
	} {
		t.Run(situation.name, func(t *testing.T) {
			situation.run(t, gadgetsOf(t, cluster, fmt.Sprintf("cases%c%cs", 'a'+i, 'a'+i)))
		})
	}
}

// withSchema changes the schema of a version's spec.
func (g *gadgets) withSchema(crd map[string]any, version string, change func(root, spec map[string]any)) map[string]any {
	for _, v := range crd["spec"].(map[string]any)["versions"].([]any) {
		if v := v.(map[string]any); v["name"] == version {
			root := v["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
			change(root, root["properties"].(map[string]any)["spec"].(map[string]any))
		}
	}
	return crd
}

// alike takes the fields away that only one version has.
func (g *gadgets) alike(crd map[string]any) map[string]any {
	for version, field := range map[string]string{"v1": "legacy", "v2": "note"} {
		g.withSchema(crd, version, func(_, spec map[string]any) { delete(spec["properties"].(map[string]any), field) })
	}
	return crd
}

// says expects the exit code of a command, and words in what it says.
func (c *cli) says(code int, words []string, args ...string) {
	c.t.Helper()
	out := c.run(code, args...)
	text := strings.Join(strings.Fields(out.stdout+out.stderr), " ")
	for _, want := range words {
		if !strings.Contains(text, want) {
			c.t.Errorf("kube-migrator %s does not say %q:\n%s%s", strings.Join(args, " "), want, out.stdout, out.stderr)
		}
	}
}

func (g *gadgets) define(user *cli, crd map[string]any, versions ...string) {
	g.t.Helper()
	user.kubectl("apply", "--server-side", "-f", g.fileOf(crd))
	g.ready(versions...)
}

// invalid is what an API server refuses for a reason that no plan knows.
func invalid(t *testing.T, g *gadgets) {
	user := newCLI(t, g.cluster)
	g.define(user, g.crd("v1*"), "v1")
	next := g.crd("v1*")
	next["spec"].(map[string]any)["scope"] = "Cluster"
	user.says(2, []string{"the API server refuses it", "spec.scope"}, "check", "-f", g.fileOf(next))
}

func narrowerSchema(t *testing.T, g *gadgets) {
	user := newCLI(t, g.cluster)
	g.define(user, g.crd("v1*"), "v1")
	g.fill(2, "legacy", "old")
	g.mustApply("carol", "v1", "g-100", spec("color", "green"))
	next := g.fileOf(g.withSchema(g.crd("v1*"), "v1", func(_, spec map[string]any) {
		delete(spec["properties"].(map[string]any), "legacy")
	}))
	lost := []string{"2 objects would lose fields", "g-000 (spec.legacy)", "Try: kubectl get " + g.name() + " --all-namespaces"}
	user.says(2, lost, "check", "-f", next)
	user.says(2, lost, "upgrade-crd", "-f", next)
	if got := g.get("v1", "g-000"); got.Spec["legacy"] != "old" {
		t.Errorf("the field is lost: %v", got.Spec)
	}
	user.says(0, []string{"loses fields 2 objects: default/g-000 (spec.legacy), default/g-001 (spec.legacy)"},
		"upgrade-crd", "-f", next, "--accept-field-loss="+g.name())
	user.says(0, []string{"Applying is safe"}, "check", "-f", next)
}

func unknownFields(t *testing.T, g *gadgets) {
	user := newCLI(t, g.cluster)
	preserving := g.withSchema(g.crd("v1*"), "v1", func(root, _ map[string]any) {
		root["x-kubernetes-preserve-unknown-fields"] = true
	})
	g.define(user, preserving, "v1")
	do(t, g.cluster, http.MethodPost, g.collection("v1"), map[string]any{
		"apiVersion": v1, "kind": g.kind(), "metadata": map[string]any{"name": "g-000"}, "other": map[string]any{"a": "b"},
	})
	next := g.file("v1*")
	user.says(2, []string{"1 object would lose fields", "g-000 (other)"}, "check", "-f", next)
	refused := user.upgradeCRDs(2, next)[g.name()]
	if refused.Reason != crdlife.FieldLoss {
		t.Errorf("refused: %q (%s)", refused.Reason, refused.Error)
	}
}

// converting is a CRD whose conversion webhook has no service.
func (g *gadgets) converting(versions ...string) map[string]any {
	crd := g.crd(versions...)
	crd["spec"].(map[string]any)["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"clientConfig":             map[string]any{"service": map[string]any{"namespace": "default", "name": "gone"}},
		"conversionReviewVersions": []string{"v1"},
	}}
	return crd
}

func unneededWebhook(t *testing.T, g *gadgets) {
	user := newCLI(t, g.cluster)
	user.kubectl("apply", "-f", g.fileOf(g.alike(g.converting("v1", "v2*")))) // on the client's side
	g.ready("v2")
	g.mustApply("alice", "v2", "g-000", spec("color", "red"))
	// a rotated encryption key, for example
	if m := user.migrate(0, g.name()); !m.Result.Proven {
		t.Errorf("migrate: %s", m.Error)
	}
	next := g.fileOf(g.alike(g.crd("v1", "v2*")))
	user.says(0, []string{"Applying is safe"}, "check", "-f", next)
	if diff := cmp.Diff(map[string]string{}, stepsOf(user.upgradeCRDs(0, next))); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

// injectedBundle has a certificate in the CRD that another manager keeps there.
func injectedBundle(t *testing.T, g *gadgets) {
	user := newCLI(t, g.cluster)
	g.define(user, g.alike(g.converting("v1", "v2*")), "v2")
	g.mustApply("alice", "v2", "g-000", spec("color", "red"))
	do(t, g.cluster, http.MethodPatch, g.whole()+"?fieldManager=cainjector", map[string]any{"spec": map[string]any{
		"conversion": map[string]any{"webhook": map[string]any{"clientConfig": map[string]any{"caBundle": g.cluster.CA()}}},
	}})
	next := g.fileOf(g.alike(g.crd("v1", "v2*")))
	user.says(2, []string{"it has no conversion webhook, of which cainjector owns a part", "Try: kube-migrator upgrade-crd -f "}, "check",
		"-f", next)
	user.says(0, nil, "upgrade-crd", "-f", next, "--dry-run")
	user.says(0, nil, "upgrade-crd", "-f", next)
	user.says(0, []string{"Applying is safe"}, "check", "-f", next)
}

func neededWebhook(t *testing.T, g *gadgets) {
	user := newCLI(t, g.cluster)
	g.define(user, g.crd("v1*", "v2"), "v1")
	g.mustApply("alice", "v1", "g-000", spec("color", "red"))
	g.define(user, g.converting("v1", "v2*"))
	next := g.file("v1", "v2*")
	cause := []string{`the objects cannot be listed: conversion webhook for ` + v1 + `, Kind=` + g.kind() + ` failed`,
		"Try: kubectl get customresourcedefinition " + g.name() + " -o jsonpath='{.spec.conversion}'"}
	user.says(3, cause, "check", "-f", next)
	user.says(2, cause, "upgrade-crd", "-f", next)
}

func trivialWebhook(t *testing.T, g *gadgets) {
	user := newCLI(t, g.cluster)
	g.define(user, g.alike(g.crd("v1*", "v2")), "v1")
	g.mustApply("alice", "v1", "g-000", spec("color", "red"))
	g.define(user, g.alike(g.converting("v1", "v2*")))
	next := g.fileOf(g.alike(g.crd("v1", "v2*")))
	user.says(3, []string{"conversion webhook for " + v1, "Try: kube-migrator upgrade-crd -f "}, "check", "-f", next)
	if diff := cmp.Diff(map[string]string{g.name(): "unhook apply"}, stepsOf(user.upgradeCRDs(0, next))); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	user.migrate(0, g.name())
	last := g.fileOf(g.alike(g.crd("v2*")))
	user.says(2, []string{"it removes v1, and managedFields name it", "Try: kube-migrator upgrade-crd -f "}, "check", "-f", last)
	user.says(0, nil, "upgrade-crd", "-f", last, "--settle-time=1s")
	user.says(0, []string{"Applying is safe"}, "check", "-f", last)
	if got := g.get("v2", "g-000"); got.Spec["color"] != "red" {
		t.Errorf("the object is %v", got.Spec)
	}
}

// clientsNeedIt has a webhook that is gone, with versions of different fields.
func clientsNeedIt(t *testing.T, g *gadgets) {
	user := newCLI(t, g.cluster)
	g.define(user, g.converting("v1", "v2*"), "v2")
	g.mustApply("alice", "v2", "g-000", spec("color", "red"))
	next, lost := g.file("v1", "v2*"), []string{"it takes the conversion webhook away", "--accept-field-loss=" + g.name()}
	user.says(2, lost, "check", "-f", next)
	user.says(2, lost, "upgrade-crd", "-f", next)
}

func trimmedByHand(t *testing.T, g *gadgets) {
	user := newCLI(t, g.cluster)
	g.define(user, g.crd("v1*", "v2"), "v1", "v2")
	g.mustApply("alice", "v1", "g-000", spec("color", "red"))
	g.define(user, g.crd("v1", "v2*"), "v2")
	user.kubectl("patch", "customresourcedefinition", g.name(), "--subresource=status", "--type=merge", "-p",
		`{"status":{"storedVersions":["v2"]}}`)
	next, claim := g.file("v2*"), []string{"kubectl-patch has written status.storedVersions, and no run"}
	user.says(3, append(claim, "Try: kube-migrator migrate "+g.name()), "check", g.name())
	user.says(3, claim, "check", "-f", next)
	user.says(3, claim, "plan", g.name())
	user.says(0, nil, "upgrade-crd", "-f", next, "--settle-time=1s")
	user.says(0, []string{"safe"}, "check", g.name())
	user.says(0, []string{"Applying is safe"}, "check", "-f", next)
	wantStored(t, g.cluster, g.prefix(), map[string]int{v2: 1})
}

func outlived(t *testing.T, g *gadgets) {
	user := newCLI(t, g.cluster)
	etcd := g.cluster.Etcd.Client()
	g.define(user, g.crd("v1*"), "v1")
	g.mustApply("alice", "v1", "g-000", spec("color", "red"))
	key := g.prefix() + "default/g-000"
	kept, err := etcd.Get(t.Context(), key)
	if err != nil || len(kept.Kvs) != 1 {
		t.Fatalf("%v: %v", kept, err)
	}
	user.kubectl("delete", "customresourcedefinition", g.name())
	if _, err := etcd.Put(t.Context(), key, string(kept.Kvs[0].Value)); err != nil {
		t.Fatal(err)
	}
	user.kubectl("apply", "--server-side", "-f", g.file("v2*"))
	user.kubectl("wait", "--for=condition=Established", "crd/"+g.name())
	rescue := "kube-migrator retire " + g.name() + " --version=v1 --rescue"
	user.says(3, []string{"invalid group/version", "Try: " + rescue}, "check", g.name())
	user.says(3, nil, "plan", g.name())
	user.says(0, nil, strings.Fields(strings.TrimPrefix(rescue, "kube-migrator ")+" --settle-time=1s")...)
	user.says(0, nil, "check", g.name())
	wantStored(t, g.cluster, g.prefix(), map[string]int{v2: 1})
}

func ownedAtAVersion(t *testing.T, g *gadgets) {
	user := newCLI(t, g.cluster)
	g.define(user, g.crd("v1*", "v2"), "v1", "v2")
	g.mustApply("alice", "v1", "g-000", spec("color", "red"))
	g.define(user, g.crd("v1", "v2*"), "v2")
	user.migrate(0, g.name())
	var owner struct {
		Metadata struct{ UID types.UID }
	}
	get(t, g.cluster, g.collection("v2")+"/g-000", &owner)
	do(t, g.cluster, http.MethodPost, "/api/v1/namespaces/default/configmaps", map[string]any{
		"metadata": map[string]any{"name": "owned", "ownerReferences": []any{map[string]any{
			"apiVersion": v1, "kind": g.kind(), "name": "g-000", "uid": owner.Metadata.UID,
		}}},
	})
	next := g.file("v2*")
	named := []string{"ownerReferences of 1 object name: 1 configmaps (default/owned)",
		"Try: kube-migrator retire " + g.name() + " --version=v1 --fix-owners"}
	user.says(2, named, "check", "-f", next)
	user.says(2, named, "upgrade-crd", "-f", next)
	user.says(0, nil, "retire", g.name(), "--version=v1", "--fix-owners", "--settle-time=1s")
	user.says(0, []string{"Applying is safe"}, "check", "-f", next)
	user.says(0, nil, "upgrade-crd", "-f", next, "--settle-time=1s")
}
