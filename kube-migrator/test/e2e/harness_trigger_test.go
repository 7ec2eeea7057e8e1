// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
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
			raw, _ := json.MarshalIndent(s, "", " ") // for users
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

// generation is the spec.generation of a migration, 0 where it cannot be read.
func (c *controlled) generation(name string) int64 {
	for _, server := range c.cluster.Servers {
		var m v1alpha1.StorageVersionMigration
		if status, answer, err := server.Do(c.Context(), http.MethodGet, migrations+"/"+name, nil); err == nil &&
			status == http.StatusOK {
			decode(c.T, answer, &m)
			return m.Spec.Generation
		}
	}
	return 0
}
