// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path"
	"strings"

	"k8s.io/client-go/rest"
)

const (
	keepersOf     = "/apis/keep.example.com/"
	keepersCRD    = "keepers.keep.example.com"
	keepersInEtcd = "/registry/keep.example.com/keepers/victim/one"
)

// createKeeper creates a custom resource whose storage version has a field that the other served version lacks, and an
// object with that field.
func (g *guarded) createKeeper() {
	g.Helper()
	const fields = `"schema":{"openAPIV3Schema":{"type":"object","properties":{"a":{"type":"string"}`
	g.create([][2]string{{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"` + keepersCRD +
		`"},"spec":{"group":"keep.example.com","scope":"Namespaced",
		"names":{"plural":"keepers","singular":"keeper","kind":"Keeper","listKind":"KeeperList"},"versions":[
		{"name":"v1","served":true,"storage":false,` + fields + `}}}},
		{"name":"v2","served":true,"storage":true,` + fields + `,"b":{"type":"string"}}}}}]}}`}})
	body := json.RawMessage(`{"apiVersion":"keep.example.com/v2","kind":"Keeper","metadata":{"name":"one"},"a":"a","b":"kept"}`)
	admin := newClient(g.T, g.cluster)
	eventually(g.T, "keepers are served", func() bool {
		return admin.Post().AbsPath(keepersOf+"v2/namespaces/victim/keepers").SetHeader("Content-Type", "application/json").
			Body([]byte(body)).Do(g.Context()).Error() == nil
	})
}

// rewriteKeeper sends an empty patch to the keeper at a version, and says what became of it. It is no dry run.
func (g *guarded) rewriteKeeper(client rest.Interface, version string) (outcome string) {
	g.Helper()
	raw, err := client.Verb(http.MethodPatch).AbsPath(keepersOf+version+"/namespaces/victim/keepers/one").
		SetHeader("Content-Type", "application/merge-patch+json").SetHeader("Accept", "application/json").
		Body([]byte("{}")).MaxRetries(0).Do(g.Context()).Raw()
	switch {
	case err == nil:
		return passes
	case bytes.Contains(raw, []byte("at its storage version")):
		return guard
	}
	return string(raw)
}

// rewriteAtTheStorageVersion expects that a rewrite at another served version, which would lose a field, is refused by
// the guard, also after the storage version has moved. A controller runs that sees what comes and moves.
func (g *guarded) rewriteAtTheStorageVersion(worker rest.Interface) {
	g.Helper()
	g.createKeeper()
	eventually(g.T, "keepers may be rewritten at their storage version", func() bool {
		return g.rewriteKeeper(worker, "v2") == passes
	})
	if outcome := g.rewriteKeeper(worker, "v1"); outcome != guard {
		g.Errorf("a rewrite at the version without the field: %s, want %s", outcome, guard)
	}
	value, err := g.cluster.Raw(g.Context(), keepersInEtcd)
	if err != nil || !strings.Contains(string(value), `"b":"kept"`) {
		g.Fatalf("etcd holds %s (%v), without the field", value, err)
	}
	if err := g.cluster.MoveStorage(g.Context(), keepersCRD, "v1"); err != nil {
		g.Fatal(err)
	}
	eventually(g.T, "the version follows", func() bool { return g.rewriteKeeper(worker, "v2") == guard })
	g.cluster.Loses(path.Dir(path.Dir(keepersInEtcd))+"/", "b", "the storage version lacks it, and the test sends the patch")
	if outcome := g.rewriteKeeper(worker, "v1"); outcome != passes {
		g.Errorf("a rewrite at the new storage version: %s, want %s", outcome, passes)
	}
}

// tryVersions tries what else the controller's token could write into the role that names versions.
func (g *guarded) tryVersions() {
	path := strings.Replace(laterRolePath, "-later", "-versions", 1)
	former := string(do(g.T, g.cluster, http.MethodGet, path, nil))
	controller := g.as("kube-migrator-controller")
	try := func(what, want, rules string) {
		var role map[string]any
		decode(g.T, []byte(former), &role)
		role["rules"] = json.RawMessage("[" + rules + "]")
		a := attempt{what: what, method: http.MethodPut, path: path, body: string(mustJSON(role))}
		if outcome, answer := g.send(controller, a); outcome != want {
			g.Errorf("the controller can grant %s: %s, want %s\n%.600s", what, outcome, want, answer)
		}
	}
	const named = `"apiGroups":["demo.example.com"],"resources":["widgets"]`
	try("a version", passes, `{`+named+`,"resourceNames":["v1","v2"],"verbs":["rewrite"]}`)
	try("every version", guard, `{`+named+`,"verbs":["rewrite"]}`)
	try("no version", guard, `{`+named+`,"resourceNames":[],"verbs":["rewrite"]}`)
	try("another verb", guard, `{`+named+`,"resourceNames":["v1"],"verbs":["rewrite","patch"]}`)
	try("every verb", guard, `{`+named+`,"resourceNames":["v1"],"verbs":["*"]}`)
	try("all groups", guard, `{"apiGroups":["*"],"resources":["widgets"],"resourceNames":["v1"],"verbs":["rewrite"]}`)
	try("all resources", guard, `{"apiGroups":["a"],"resources":["*"],"resourceNames":["v1"],"verbs":["rewrite"]}`)
	try("a subresource", guard, `{"apiGroups":["a"],"resources":["b/c"],"resourceNames":["v1"],"verbs":["rewrite"]}`)
	try("two rules, one of them wider", guard, `{`+named+`,"resourceNames":["v1"],"verbs":["rewrite"]},`+
		`{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}`)
}
