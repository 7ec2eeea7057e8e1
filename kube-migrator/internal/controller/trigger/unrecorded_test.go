// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/ledger"
)

// A command waits for the record of a proof for as long as settle would still write it, and no longer.
func TestAProofIsAwaitedInTheRecordUntilItIsThereOrRefusedForGood(t *testing.T) {
	later := metav1.NewTime(noon.Add(time.Hour))
	for name, c := range map[string]struct {
		change  func(m *v1alpha1.StorageVersionMigration, s *v1alpha1.StorageStateStatus)
		awaited bool
		why     string
	}{
		"it was proven": {func(*v1alpha1.StorageVersionMigration,
			*v1alpha1.StorageStateStatus) {
		}, true, ""},
		"the next look may count it": {func(_ *v1alpha1.StorageVersionMigration,
			s *v1alpha1.StorageStateStatus) {
			s.Epoch = nil
		}, true, ""},
		"it is recorded": {func(_ *v1alpha1.StorageVersionMigration, s *v1alpha1.StorageStateStatus) {
			s.PersistedStorageVersionHashes = []string{hashOf("v2")}
		}, false, ""},
		"it started too early": {func(_ *v1alpha1.StorageVersionMigration, s *v1alpha1.StorageStateStatus) {
			s.RequiredStartResourceVersion = "30"
		}, false, ledger.TooEarly},
		"its start is unknown": {func(m *v1alpha1.StorageVersionMigration, _ *v1alpha1.StorageStateStatus) {
			m.Status.Run.StartResourceVersion = ""
		}, false, ""},
		"the record is older than a run in another epoch": {func(m *v1alpha1.StorageVersionMigration,
			_ *v1alpha1.StorageStateStatus) {
			m.Status.Epoch.Servers = []string{"p2"}
		}, true, ""},
		"a later look has seen that its epoch is over": {func(m *v1alpha1.StorageVersionMigration,
			s *v1alpha1.StorageStateStatus) {
			m.Status.Epoch.Servers, s.LastHeartbeatTime = []string{"p2"}, later
		}, false, "the epoch of the run is over"},
		"a later look has found no agreement": {func(_ *v1alpha1.StorageVersionMigration,
			s *v1alpha1.StorageStateStatus) {
			s.Epoch, s.LastHeartbeatTime = nil, later
		}, true, ""},
		"a later look could not read its collection": {func(_ *v1alpha1.StorageVersionMigration,
			s *v1alpha1.StorageStateStatus) {
			s.LastHeartbeatTime = later
		}, true, ""},
		"its collection was never compared so far": {func(_ *v1alpha1.StorageVersionMigration,
			s *v1alpha1.StorageStateStatus) {
			s.ResourceVersion = ""
		}, true, ""},
		"its collection cannot be compared": {func(_ *v1alpha1.StorageVersionMigration,
			s *v1alpha1.StorageStateStatus) {
			s.ResourceVersion, s.LastHeartbeatTime = "", later
		}, false, ledger.NotCompared},
		"it has not succeeded": {func(m *v1alpha1.StorageVersionMigration, _ *v1alpha1.StorageStateStatus) {
			m.Status.CompletedGeneration = 0
		}, false, ""},
	} {
		_, m := settling(t, func(http.ResponseWriter, *http.Request) {})
		m.migration.Status.Progress.CompletionTime = metav1.NewTime(noon.Add(time.Minute))
		c.change(&m.migration, &m.state.Status)
		if awaited, why := Unrecorded(&m.migration, &m.state.Status); awaited != c.awaited || why != c.why {
			t.Errorf("%s: awaited %t, %q, want %t, %q", name, awaited, why, c.awaited, c.why)
		}
	}
}

// recordsOf hold StorageStates by name.
type recordsOf struct {
	client.Reader
	states map[string]*v1alpha1.StorageState
}

func (s recordsOf) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	found, ok := s.states[key.Name]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "storagestates"}, key.Name)
	}
	found.DeepCopyInto(o.(*v1alpha1.StorageState))
	return nil
}

func TestAProofIsAwaitedInTheStorageStateOfItsResource(t *testing.T) {
	_, m := settling(t, func(http.ResponseWriter, *http.Request) {})
	proven := m.state.DeepCopy()
	proven.Status.PersistedStorageVersionHashes = []string{hashOf("v2")}
	shared := []v1alpha1.GroupVersion{{Group: "demo.example.com", Version: "v2"}, {Version: "v1"},
		{Group: "old.example.com", Version: "v1"}}
	for name, c := range map[string]struct {
		states        map[string]*v1alpha1.StorageState
		groupVersions []v1alpha1.GroupVersion
		want          bool
	}{
		"it is not recorded": {map[string]*v1alpha1.StorageState{settled: &m.state}, nil, true},
		"it is recorded":     {map[string]*v1alpha1.StorageState{settled: proven}, nil, false},
		"there is no record, and a new one would refuse it": {nil, shared, false},
		"the record has the name of another group that serves the same objects": {
			map[string]*v1alpha1.StorageState{"widgets.old.example.com": &m.state}, shared, true},
		"the record has the name in the core group": {
			map[string]*v1alpha1.StorageState{"widgets": &m.state}, shared, true},
		"another group's record is not asked": {
			map[string]*v1alpha1.StorageState{settled: proven, "widgets": &m.state}, shared, false},
	} {
		migration := m.migration.DeepCopy()
		migration.Spec.GroupVersions = c.groupVersions
		if got, err := AwaitsRecord(t.Context(), recordsOf{states: c.states}, migration); got != c.want || err != nil {
			t.Errorf("%s: awaited %t (%v), want %t", name, got, err, c.want)
		}
	}
}
