// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

const states = "/apis/migration.k8s.io/v1alpha1/storagestates"

// triggering starts a controller that asks for what is needed by itself.
func (c *controlled) triggering(arguments ...string) *process {
	c.Helper()
	return c.controller(append([]string{"--auto-trigger", "--max-concurrent-migrations=8"}, arguments...)...)
}

// state returns a StorageState; nil where there is none, or no API server answers.
func (c *controlled) state(name string) *v1alpha1.StorageState {
	for _, server := range c.cluster.Servers {
		status, answer, err := server.Do(c.Context(), http.MethodGet, states+"/"+name, nil)
		if err != nil || status != http.StatusOK {
			continue
		}
		s := new(v1alpha1.StorageState)
		if json.Unmarshal(answer, s) == nil {
			return s
		}
	}
	return nil
}

// untilState waits until a StorageState is as wanted, and returns it.
func (c *controlled) untilState(name, what string, is func(*v1alpha1.StorageState) bool) *v1alpha1.StorageState {
	c.Helper()
	deadline := time.Now().Add(patience)
	for {
		s := c.state(name)
		if s != nil && is(s) {
			return s
		}
		if time.Now().After(deadline) {
			raw, _ := json.MarshalIndent(s, "", " ") // for people
			c.Fatalf("not within %v: %s is %s\n%s", patience, name, what, raw)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func holds(s *v1alpha1.StorageState, condition v1alpha1.ConditionType) metav1.ConditionStatus {
	for _, c := range s.Status.Conditions {
		if c.Type == condition {
			return c.Status
		}
	}
	return ""
}

// persistedOnly is for a StorageState that is proven to have nothing but the given version.
func persistedOnly(version string) func(*v1alpha1.StorageState) bool {
	return func(s *v1alpha1.StorageState) bool {
		return slices.Equal(s.Status.PersistedVersions, []string{version}) && s.Status.CurrentVersion == version &&
			holds(s, v1alpha1.ConditionMigrated) == metav1.ConditionTrue
	}
}

var widgetKind = testbed.Kind{Group: testbed.WidgetGroup, Version: "v2", Kind: "Widget", Plural: "widgets",
	Prefix: testbed.WidgetsPrefix}

// The life of a CronJob in the proposal, with a resource of our own: Unknown, migrated, upgraded, downgraded in the
// middle.
func TestTheLifeOfAStorageState(t *testing.T) {
	t.Parallel()
	// Only where API servers keep their EndpointSlice a restarted controller knows that none came and went.
	cluster := testbed.New(t, testbed.Options{Isolated: true})
	installStale(t, cluster, testbed.Bulk{Count: 500}, testbed.Widgets{})
	c := newControlled(t, cluster)
	watchTruth(t, c.cluster, widgetKind)
	p := c.triggering("--include=widgets.*")
	first := c.untilState(widgetsName, "recorded",
		func(s *v1alpha1.StorageState) bool { return len(s.Status.PersistedStorageVersionHashes) > 0 })
	if first.Status.PersistedStorageVersionHashes[0] != v1alpha1.Unknown ||
		holds(first, v1alpha1.ConditionMigrated) != metav1.ConditionFalse {
		t.Errorf("begins as %+v, want Unknown", first.Status)
	}
	migrated := c.untilState(widgetsName, "migrated", persistedOnly("v2"))
	wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{v2: 500})
	if holds(migrated, v1alpha1.ConditionAllEncodingVersionsEqual) != metav1.ConditionTrue ||
		migrated.Status.AgreedEncodingVersion != "v2" || migrated.Status.Evidence == "" {
		t.Errorf("is %+v, want an agreement on v2", migrated.Status)
	}
	m, err := c.read(widgetsName)
	if err != nil || m.Spec.Reason == "" || len(m.OwnerReferences) != 1 {
		t.Fatalf("asked for with %+v (%v)", m, err)
	}

	c.end(p)
	c.triggering("--include=widgets.*")
	time.Sleep(3 * time.Second)
	again, err := c.read(widgetsName)
	if s := c.state(widgetsName); err != nil || again.Spec.Generation != m.Spec.Generation || !persistedOnly("v2")(s) {
		t.Errorf("a restart of the controller asked for generation %d after %d, and the state is %+v",
			again.Spec.Generation, m.Spec.Generation, s.Status)
	}

	moveStorage(t, c.cluster, "v1")
	c.untilState(widgetsName, "moving", func(s *v1alpha1.StorageState) bool {
		return slices.Equal(s.Status.PersistedVersions, []string{"v2", "v1"}) && s.Status.CurrentVersion == "v1"
	})
	eventually(t, "some are rewritten", func() bool { return stored(t, c.cluster, testbed.WidgetsPrefix)[v1] > 0 })
	moveStorage(t, c.cluster, "v2")
	c.untilState(widgetsName, "migrated back", persistedOnly("v2"))
	wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{v2: 500})
	if claimed := storedVersions(t, c.cluster); !slices.Equal(claimed, []string{"v2"}) {
		t.Errorf("storedVersions = %v", claimed)
	}

	do(t, c.cluster, http.MethodDelete, states+"/"+widgetsName, nil)
	generation := func() int64 {
		m, err := c.read(widgetsName)
		if err != nil {
			return 0
		}
		return m.Spec.Generation
	}
	before := generation()
	c.untilState(widgetsName, "discovered again", func(s *v1alpha1.StorageState) bool {
		return slices.Contains(s.Status.PersistedStorageVersionHashes, v1alpha1.Unknown)
	})
	c.untilState(widgetsName, "migrated once more", persistedOnly("v2"))
	if after := generation(); after != before+1 {
		t.Errorf("a deleted StorageState raised the generation from %d to %d", before, after)
	}
	fmt.Fprintln(t.Output(), "generations:", generation())
}

// told are the reasons of the Events about a StorageState, in the order in which they were sent.
func (c *controlled) told(name string) (reasons []string) {
	c.Helper()
	var list struct{ Items []eventsv1.Event }
	decode(c.T, do(c.T, c.cluster, http.MethodGet, "/apis/events.k8s.io/v1/events", nil), &list)
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	for _, e := range list.Items {
		if e.Regarding.Kind != "StorageState" || e.Regarding.Name != name {
			continue
		}
		reasons = append(reasons, e.Reason)
		if e.Series != nil {
			c.Errorf("an Event was sent %d times: %+v", e.Series.Count, e)
		}
	}
	return reasons
}
