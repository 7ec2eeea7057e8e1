// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package retire_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/refusal"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
)

// removal is an API server that has a CRD with v1, unserved, and objects without traces of v1.
type removal struct {
	live *crd.CRD
	// widgetsListed is called after the last look for managedFields.
	widgetsListed func()
	// late are the names of ConfigMaps that get an ownerReference to v1 at the moment of the removal.
	late    []string
	written []string // bodies of writes
}

func (a *removal) answer(r *http.Request, body string) (int, any) {
	switch {
	case r.Method == http.MethodPatch:
		a.written = append(a.written, body)
		a.live.Spec.Versions = a.live.Spec.Versions[1:]
		return http.StatusOK, a.live
	case strings.HasSuffix(r.URL.Path, "/widgets"):
		if a.widgetsListed != nil {
			a.widgetsListed()
		}
		return http.StatusOK, map[string]any{"items": []any{}}
	case strings.HasSuffix(r.URL.Path, "/configmaps"):
		items := []any{}
		for _, name := range a.late {
			if len(a.written) > 0 {
				items = append(items, map[string]any{"metadata": map[string]any{"name": name, "namespace": "default",
					"uid": name, "ownerReferences": []any{map[string]any{"apiVersion": oldVersion, "kind": "Widget",
						"name": "w", "uid": "u"}}}})
			}
		}
		return http.StatusOK, map[string]any{"items": items}
	}
	return http.StatusOK, a.live
}

// remove carries out the last steps of retiring v1.
func (a *removal) remove(t *testing.T, want retire.Intent) ([]retire.Step, error) {
	t.Helper()
	a.live = facts("v2", "v1", "v2/served/storage").CRD
	a.live.Spec.Names.Kind, a.live.Metadata.ResourceVersion, a.live.Metadata.Generation = "Widget", "5", 5
	planned := *a.live
	want.Program, want.Version, want.Remove = "kube-migrator", "v1", true
	run := &retire.Run{
		Client: answers(a.answer).client(t), Intent: want, CRD: &planned,
		Resources: []retire.Resource{{GroupVersionResource: schema.GroupVersionResource{Version: "v1",
			Resource: "configmaps"}, Namespaced: true}},
		Stopped: func() error { return nil }, Report: func(retire.Step) {},
		Settle: func(context.Context, int64) error { return nil },
	}
	plan, err := want.Decide(retire.Facts{CRD: &planned})
	if err != nil {
		t.Fatal(err)
	}
	plan.Steps = plan.Steps[len(plan.Steps)-3:] // the objects are migrated and pruned
	return run.Do(t.Context(), plan)
}

func TestReferencesThatComeAtTheMomentOfTheRemovalAreWorkLeft(t *testing.T) {
	late := []string{"a", "b", "c"}
	const what = "those of 3 objects are left: 3 configmaps (default/a, default/b, default/c)"
	for name, test := range map[string]struct {
		want     retire.Intent
		late     []string
		pointing retire.State
		err      string
	}{
		"references are moved":           {retire.Intent{FixOwners: true}, late, retire.Todo, what},
		"none was there":                 {retire.Intent{}, late, retire.NotAsked, what},
		"they are to be left":            {retire.Intent{LeaveOwners: true}, late, retire.NotAsked, ""},
		"none comes":                     {retire.Intent{FixOwners: true}, nil, retire.Done, ""},
		"none comes, and none was there": {retire.Intent{}, nil, retire.Done, ""},
	} {
		t.Run(name, func(t *testing.T) {
			api := &removal{late: test.late}
			steps, err := api.remove(t, test.want)
			if len(api.written) != 1 || steps[2].State != retire.Done {
				t.Fatalf("writes %v, steps %v (%v), want v1 removed", api.written, steps, err)
			}
			if steps[0].Name != retire.Pointing || steps[0].State != test.pointing {
				t.Errorf("the step %+v, want %s", steps[0], test.pointing)
			}
			refused := (*refusal.Error)(nil)
			if !errors.As(err, &refused) {
				if test.err != "" || err != nil {
					t.Errorf("error %v, want %q", err, test.err)
				}
				return
			}
			const try = "kube-migrator retire widgets.demo.example.com --version=v1 --fix-owners"
			if test.err == "" || !strings.Contains(err.Error(), test.err) || refused.Try != try {
				t.Errorf("error %v, Try: %s, want %q and %s", err, refused.Try, test.err, try)
			}
			// what it suggests moves them
			plan, err := retire.Intent{Version: "v1", FixOwners: true}.Decide(retire.Facts{CRD: api.live,
				Dependents: retire.Dependents{Objects: 3}})
			if err != nil || len(plan.Steps) != 1 || plan.Steps[0].Name != retire.Pointing ||
				plan.Steps[0].State != retire.Todo {
				t.Errorf("the command that goes on plans %v (%v)", plan, err)
			}
		})
	}
}

// After the last look, a client may have written in a version that was served again for a moment: nothing is removed
// from a CRD that has changed since (I2).
func TestAVersionIsRemovedOnlyFromTheGenerationThatWasLookedAt(t *testing.T) {
	for _, generation := range []int64{5, 6} {
		api := &removal{}
		api.widgetsListed = func() { api.live.Metadata.Generation = generation }
		_, err := api.remove(t, retire.Intent{})
		refused, want := (*refusal.Error)(nil), fmt.Sprintf("its generation is %d, was 5", generation)
		if generation == 5 {
			if err != nil || len(api.written) != 1 {
				t.Errorf("%v, writes %v, want v1 removed", err, api.written)
			}
		} else if !errors.As(err, &refused) || refused.Reason != retire.Changed || len(api.written) != 0 ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, writes %v, want %q and none", err, api.written, want)
		}
	}
}
