// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
)

func nothingIsPrunedWithoutEnoughEvidence(t *testing.T, g *gadgets) {
	g.stale(3)
	user := newCLI(t, g.cluster)

	report := user.retire(3, g, "--unserve", "--remove", "--min-evidence=declared")

	if got := stepStates(report); got[retire.Migrate] != retire.Todo || got[retire.Prune] != retire.Todo ||
		!strings.Contains(report.Next, "--min-evidence=observed") {
		t.Errorf("steps %v, next %q; want none done, and the evidence that there is", got, report.Next)
	}
	g.wantVersions("v1 v2", "v1 served", "v2 served storage")
	user.shell(0, report.Next)
	g.wantVersions("v2", "v2 served storage")
}

// storageVersionGoesBack has the storage version go back and forth before the CRD is changed for the (skip+1)th
// time.
func storageVersionGoesBack(skip int) func(*testing.T, *gadgets) {
	return func(t *testing.T, g *gadgets) {
		g.stale(3)
		user, proxy := throughProxy(t, g.cluster)
		back := testbed.ResetBefore(func() { // there and back: something may have been written as v1 in between
			for range 2 {
				g.edit(func(versions []any) []any {
					for _, v := range versions {
						v := v.(map[string]any)
						v["storage"] = v["storage"] != true
					}
					return versions
				})
			}
		})
		proxy.SetRules(testbed.Rule{Fault: back, Skip: skip, Times: 1, Match: func(r *http.Request) bool {
			return r.Method == http.MethodPatch && r.URL.Path == g.whole()
		}})

		report := user.retire(2, g, "--unserve", "--remove")

		if stepStates(report)[retire.Remove] == retire.Done ||
			!strings.Contains(report.Error, "status.storedVersions names v1 again") {
			t.Errorf("steps %v, error %q: want it refused, because v1 may be stored again", report.Steps, report.Error)
		}
		versions, stored := g.versions()
		if len(versions) != 2 || len(stored) != 2 || skip == 0 && versions[0] != "v1 served" {
			t.Errorf("spec.versions %v, storedVersions %v, want v1 in both", versions, stored)
		}
		user.retire(0, g, "--unserve", "--remove")
		g.wantVersions("v2", "v2 served storage")
		g.wantUnnamed(3)
	}
}

func entriesThatOwnNothingAreEntries(t *testing.T, g *gadgets) {
	g.stale(1)
	user, proxy := throughProxy(t, g.cluster)
	// After the migration, because the API server drops such entries whenever it writes an object.
	emptied := testbed.ResetBefore(func() { g.disown("g-000") })
	proxy.SetRules(testbed.Rule{Fault: emptied, Skip: 1, Times: 1, Match: func(r *http.Request) bool {
		return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, g.item())
	}})

	user.retire(0, g, "--unserve", "--remove")

	g.mustApply("bob", "v2", "g-000", spec("color", "blue"))
	g.wantUnnamed(1)
}

// disown leaves an object with one entry that owns nothing.
func (g *gadgets) disown(name string) {
	g.t.Helper()
	key := g.prefix() + "default/" + name
	raw, err := g.cluster.Raw(g.t.Context(), key)
	if err != nil {
		g.t.Fatal(err)
	}
	var object map[string]any
	decode(g.t, raw, &object)
	object["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{
		"manager": "alice", "operation": "Update", "apiVersion": v1, "fieldsType": "FieldsV1",
		"fieldsV1": map[string]any{},
	}}
	if raw, err = json.Marshal(object); err != nil {
		g.t.Fatal(err)
	}
	if err := g.cluster.PutRaw(g.t.Context(), key, raw); err != nil {
		g.t.Fatal(err)
	}
}
