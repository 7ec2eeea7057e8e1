// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

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
	p = c.triggering("--include=widgets.*")
	time.Sleep(3 * time.Second)
	again, err := c.read(widgetsName)
	if s := c.state(widgetsName); err != nil || again.Spec.Generation != m.Spec.Generation || !persistedOnly("v2")(s) {
		t.Errorf("a restart of the controller asked for generation %d after %d, and the state is %+v",
			again.Spec.Generation, m.Spec.Generation, s.Status)
	}

	c.end(p)
	c.diedAtTheSuccess(widgetsName)
	c.triggering("--include=widgets.*")
	c.untilState(widgetsName, "proven by what had succeeded before", persistedOnly("v2"))
	if kept, err := c.read(widgetsName); err != nil || kept.UID != m.UID || kept.Spec.Generation != m.Spec.Generation {
		t.Errorf("the migration has expired before its proof was recorded: it is now %+v (%v)", kept, err)
	}
	c.change(widgetsName, `{"spec": {"ttlSecondsAfterFinished": null}}`)

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

// diedAtTheSuccess makes the record and the migration what they are if a controller died when the migration had
// succeeded, and was away until it is due to expire.
func (c *controlled) diedAtTheSuccess(name string) {
	c.Helper()
	ago := func(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339) }
	s := c.state(name).Status
	i := slices.IndexFunc(s.Conditions, func(one v1alpha1.Condition) bool { return one.Type == v1alpha1.ConditionMigrated })
	s.Conditions[i].Status, s.Conditions[i].Reason = metav1.ConditionFalse, "NotProven"
	do(c.T, c.cluster, http.MethodPatch, states+"/"+name+"/status", map[string]any{"status": map[string]any{
		"persistedStorageVersionHashes": append([]string{v1alpha1.Unknown}, s.PersistedStorageVersionHashes...),
		"persistedVersions":             append([]string{v1alpha1.Unknown}, s.PersistedVersions...),
		"lastHeartbeatTime":             ago(time.Minute),
		"conditions":                    s.Conditions,
	}})
	c.change(name, `{"spec": {"ttlSecondsAfterFinished": 0}}`)
	do(c.T, c.cluster, http.MethodPatch, migrations+"/"+name+"/status", map[string]any{"status": map[string]any{
		"progress": map[string]any{"completionTime": ago(30 * time.Second)}}})
}
