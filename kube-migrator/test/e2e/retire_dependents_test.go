// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
)

// applyDependent applies a ConfigMap with ownerReferences, as an operator does.
func (g *gadgets) applyDependent(name string, owners ...metav1.OwnerReference) {
	g.t.Helper()
	body := mustJSON(map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": g.plural + "-" + name, "ownerReferences": owners}, "data": map[string]string{"a": "b"}})
	err := g.client.Patch(types.ApplyPatchType).AbsPath(g.dependent(name)).Param("fieldManager", "operator").
		Body(body).Do(g.t.Context()).Error()
	if err != nil {
		g.t.Fatalf("apply %s: %v", name, err)
	}
}

// dependent is the path of a ConfigMap of these gadgets.
func (g *gadgets) dependent(name string) string {
	return "/api/v1/namespaces/default/configmaps/" + g.plural + "-" + name
}

// owner is a reference to a gadget at a version.
func (g *gadgets) owner(version, name string) metav1.OwnerReference {
	g.t.Helper()
	var object metav1.PartialObjectMetadata
	get(g.t, g.cluster, g.collection("v2")+"/"+name, &object)
	yes := true
	return metav1.OwnerReference{APIVersion: testbed.WidgetGroup + "/" + version, Kind: g.kind(), Name: name,
		UID: object.UID, Controller: &yes, BlockOwnerDeletion: &yes}
}

func (g *gadgets) dependentMeta(name string) metav1.ObjectMeta {
	g.t.Helper()
	var object metav1.PartialObjectMetadata
	get(g.t, g.cluster, g.dependent(name), &object)
	return object.ObjectMeta
}

// managers are what each manager owns, with times left out.
func managers(m metav1.ObjectMeta) (all []string) {
	for _, e := range m.ManagedFields {
		all = append(all, fmt.Sprintf("%s %s %s %s", e.Manager, e.Operation, e.APIVersion, e.FieldsV1.GetRawString()))
	}
	slices.Sort(all)
	return all
}

func dependentsKeepTheVersionServed(t *testing.T, g *gadgets) {
	const n = 250
	g.stale(2)
	old, current := g.owner("v1", "g-000"), g.owner("v2", "g-001")
	other := old
	other.Kind, other.Controller, other.UID = "Another", nil, "another"
	for i := range n {
		g.applyDependent(fmt.Sprintf("%03d", i), old)
	}
	g.applyDependent("current", current)
	g.applyDependent("other", other)
	g.do(http.MethodPost, "/api/v1/namespaces/default/secrets", map[string]any{
		"metadata": map[string]any{"name": g.plural, "ownerReferences": []any{old}}})
	user, proxy := throughProxy(t, g.cluster)

	what, try := user.refused("retire", g.name(), "--version=v1", "--settle-time=1s", "--unserve", "--remove")

	first := "default/" + g.plural + "-00"
	found := fmt.Sprintf("ownerReferences of 251 objects name v1 of %s: 250 configmaps (%s0, %s1, %s2, …), 1 secrets "+
		"(default/%s);", g.name(), first, first, first, g.plural)
	if !strings.HasPrefix(what, found) ||
		try != "kube-migrator retire "+g.name()+" --version=v1 --unserve --remove --fix-owners" {
		t.Errorf("it is refused with %q and %q, want %q", what, try, found)
	}
	pages := 0
	for _, r := range proxy.Records() {
		if r.Method == http.MethodGet && strings.HasPrefix(r.Path, "/api/v1/configmaps") {
			pages++
		}
	}
	if pages < 3 {
		t.Errorf("250 ConfigMaps were read in %d pages, want at least 3", pages)
	}
	wantUnwritten(t, proxy)
	g.wantVersions("v1 v2", "v1 served", "v2 served storage")

	if report := user.retire(0, g); stepStates(report)[retire.Pointing] != retire.NotAsked ||
		report.Dependents == nil || report.Dependents.Objects != n+1 {
		t.Errorf("nothing is unserved: steps %v, dependents %v; want them reported", report.Steps, report.Dependents)
	}
	report := user.retire(0, g, "--unserve", "--leave-owners")
	if got := stepStates(report); got[retire.Pointing] != retire.NotAsked || got[retire.Unserve] != retire.Done {
		t.Errorf("on request: %v, want the version unserved", report.Steps)
	}
	if got := g.dependentMeta("000").OwnerReferences; got[0].APIVersion != v1 {
		t.Errorf("the references are %v, want them left", got)
	}
	// It is not too late.
	if report := user.retire(0, g, "--fix-owners"); stepStates(report)[retire.Pointing] != retire.Done {
		t.Errorf("afterwards: %v, want the references moved", report.Steps)
	}
	for i := range n {
		g.wantPointing(fmt.Sprintf("%03d", i), "v2")
	}
	if got := g.dependentMeta("other").OwnerReferences[0]; got.APIVersion != v1 {
		t.Errorf("a reference to another kind is %v, want it left", got)
	}
}

// wantPointing expects that the only reference of a dependent names the version.
func (g *gadgets) wantPointing(name, version string) {
	g.t.Helper()
	want := g.owner(version, "g-000")
	if diff := cmp.Diff([]metav1.OwnerReference{want}, g.dependentMeta(name).OwnerReferences); diff != "" {
		g.t.Errorf("references of %s (-want +got):\n%s", name, diff)
	}
}

func dependentsFollowWhileOthersWrite(t *testing.T, g *gadgets) {
	g.stale(1)
	old := g.owner("v1", "g-000")
	names := []string{"changed", "deleted", "released", "recreated", "quiet"}
	for _, name := range names {
		g.applyDependent(name, old)
	}
	before := map[string][]string{}
	for _, s := range names {
		before[s] = managers(g.dependentMeta(s))
	}
	user, proxy := throughProxy(t, g.cluster)
	// Before the first reference is moved, others write; before the version is unserved, there is a new dependent.
	ahead := testbed.ResetBefore(func() {
		g.do(http.MethodPatch, g.dependent("changed"), map[string]any{"data": map[string]any{"a": "c"}})
		g.do(http.MethodDelete, g.dependent("deleted"), nil)
		g.applyDependent("released")
		g.do(http.MethodDelete, g.dependent("recreated"), nil)
		g.applyDependent("recreated", old)
	})
	late := testbed.ResetBefore(func() { g.applyDependent("late", old) })
	patches := func(part string) func(*http.Request) bool {
		return func(r *http.Request) bool { return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, part) }
	}
	proxy.SetRules(
		testbed.Rule{Fault: ahead, Times: 1, Match: patches("/configmaps/")},
		testbed.Rule{Fault: late, Times: 1, Match: func(r *http.Request) bool {
			return r.Method == http.MethodPatch && r.URL.Path == g.whole()
		}},
	)

	report := user.retire(0, g, "--unserve", "--remove", "--fix-owners")

	if stepStates(report)[retire.Pointing] != retire.Done || stepStates(report)[retire.Remove] != retire.Done {
		t.Errorf("steps %v, want all done", report.Steps)
	}
	for _, s := range []string{"changed", "recreated", "quiet", "late"} {
		g.wantPointing(s, "v2")
	}
	if got := g.dependentMeta("released").OwnerReferences; len(got) != 0 {
		t.Errorf("a dependent that was released has the references %v", got)
	}
	for _, s := range []string{"recreated", "quiet"} { // the field managers are those of before
		if diff := cmp.Diff(before[s], managers(g.dependentMeta(s))); diff != "" {
			t.Errorf("managers of %s (-before +after):\n%s", s, diff)
		}
	}
	g.applyDependent("quiet") // an operator that stops to apply the reference removes it
	if got := g.dependentMeta("quiet").OwnerReferences; len(got) != 0 {
		t.Errorf("its applier cannot remove the references %v", got)
	}
	var changed struct{ Data map[string]string }
	get(t, g.cluster, g.dependent("changed"), &changed)
	if changed.Data["a"] != "c" {
		t.Errorf("what another client wrote is %v, want c", changed.Data)
	}
}

func dependentsAreNotMissed(t *testing.T, g *gadgets) {
	g.stale(1)
	old := g.owner("v1", "g-000")
	user, proxy := throughProxy(t, g.cluster)
	// The dependent comes when the plan is made, and the version is not unserved yet.
	late := testbed.ResetBefore(func() { g.applyDependent("late", old) })
	proxy.SetRules(testbed.Rule{Fault: late, Times: 1, Match: func(r *http.Request) bool {
		return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, g.item())
	}})

	report := user.retire(2, g, "--unserve", "--remove")

	if stepStates(report)[retire.Unserve] == retire.Done || !strings.HasSuffix(report.Next, " --fix-owners") {
		t.Errorf("steps %v, next %q; want the version served, and --fix-owners", report.Steps, report.Next)
	}
	g.wantVersions("v2", "v1 served", "v2 served storage")
	user.shell(0, report.Next+" --settle-time=1s")
	g.wantVersions("v2", "v2 served storage")
	g.wantPointing("late", "v2")
}
