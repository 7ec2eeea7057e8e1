// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"slices"
	"testing"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// unknown is for a StorageState of which something is recorded, and not yet everything known.
func unknown(s *v1alpha1.StorageState) bool {
	return slices.Contains(s.Status.PersistedStorageVersionHashes, v1alpha1.Unknown)
}

// looked waits for three more looks at a resource, of a controller that looks every second, and returns its
// StorageState. The first looks of a controller may each find a reason to doubt, where API servers leave no traces: a
// run that starts between them proves nothing.
func (c *controlled) looked(name string) *v1alpha1.StorageState {
	c.Helper()
	s := c.untilState(
		name,
		"recorded",
		func(s *v1alpha1.StorageState) bool { return len(s.Status.PersistedStorageVersionHashes) > 0 },
	)
	for range 3 {
		last := s.Status.LastHeartbeatTime
		s = c.untilState(
			name,
			"looked at",
			func(s *v1alpha1.StorageState) bool { return s.Status.LastHeartbeatTime.After(last.Time) },
		)
	}
	return s
}

// migrationsOfWidgets are the names of the StorageVersionMigrations of the widgets.
func (c *controlled) migrationsOfWidgets() (names []string) {
	c.Helper()
	var list v1alpha1.StorageVersionMigrationList
	get(c.T, c.cluster, migrations, &list)
	for _, m := range list.Items {
		if m.Spec.Resource.Resource == "widgets" {
			names = append(names, m.Name)
		}
	}
	return names
}

// asPeer makes a migration as kube-storage-version-migrator does, with a condition where it has come to one.
func (c *controlled) asPeer(name string, condition v1alpha1.ConditionType) {
	c.Helper()
	object := map[string]any{
		"apiVersion": "migration.k8s.io/v1alpha1", "kind": "StorageVersionMigration",
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{"resource": map[string]any{"group": testbed.WidgetGroup, "version": "v1",
			"resource": "widgets"}},
	}
	do(c.T, c.cluster, http.MethodPost, migrations, object)
	if condition != "" {
		do(c.T, c.cluster, http.MethodPatch, migrations+"/"+name+"/status", map[string]any{"status": map[string]any{
			"state": nil, "conditions": []any{map[string]any{"type": condition, "status": "True",
				"lastUpdateTime": "2026-01-02T12:00:00Z"}},
		}})
	}
}

func TestAProofCountsNoMatterWhoAskedForTheMigration(t *testing.T) {
	t.Parallel()
	const n = 200
	c := newControlled(t, staleWidgets(t, n, testbed.Widgets{}))
	watchTruth(t, c.cluster, widgetKind)

	// Finished by kube-storage-version-migrator before our controller came: no one knows what happened since.
	c.asPeer("widgets-before", v1alpha1.ConditionSucceeded)
	p := c.controller("--auto-trigger=false", "--discovery-period=1s")
	adopted := c.until("widgets-before", "adopted", inPhase(v1alpha1.PhaseSucceeded))
	if s := adopted.Status; s.CompletedGeneration != 1 || s.Run.Generation != 0 || s.Epoch != nil {
		t.Errorf("status of what another program finished: %+v", s)
	}
	if s := c.looked(widgetsName); !unknown(s) {
		t.Errorf("state is %+v", s.Status)
	}
	wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{v1: n})

	// Asked for by a client of kube-storage-version-migrator, with nothing that asks by itself.
	c.asPeer("widgets-by-a-client", "")
	c.until("widgets-by-a-client", "succeeded", inPhase(v1alpha1.PhaseSucceeded))
	c.untilState(widgetsName, "proven by a client's migration", persistedOnly("v2"))
	wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{v2: n})
	c.end(p)

	// Where someone has asked, a controller that asks by itself does not ask again, and where someone has paused
	// neither.
	moveStorage(t, c.cluster, "v1")
	c.asPeer("widgets-first", v1alpha1.ConditionRunning)
	c.change("widgets-first", `{"spec": {"state": "Paused"}}`)
	c.triggering("--include="+widgetsName, "--discovery-period=1s")
	c.looked(widgetsName)
	wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{v2: n})
	c.change("widgets-first", `{"spec": {"state": "Active"}}`)
	c.untilState(widgetsName, "proven by what was asked for first", persistedOnly("v1"))
	wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{v1: n})
	if names := c.migrationsOfWidgets(); !slices.Equal(names, []string{"widgets-before",
		"widgets-by-a-client", "widgets-first"}) {
		t.Errorf("migrations of widgets are %v, want no other one", names)
	}
	if again, err := c.read("widgets-before"); err != nil || again.Status.Run.Generation != 0 {
		t.Errorf("what was finished before has run again: %+v (%v)", again.Status.Run, err)
	}

	// Where no one does, it asks.
	moveStorage(t, c.cluster, "v2")
	c.untilState(widgetsName, "proven by our own", persistedOnly("v2"))
	if names := c.migrationsOfWidgets(); !slices.Contains(names, widgetsName) {
		t.Errorf("migrations of widgets are %v, want our own too", names)
	}
}
