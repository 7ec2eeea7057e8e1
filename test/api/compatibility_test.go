// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	peer "sigs.k8s.io/kube-storage-version-migrator/pkg/apis/migration/v1alpha1"

	"github.com/kube-migrator/kube-migrator/internal/compare"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// seedVariable sets the seed of the random objects.
const seedVariable = "KUBE_MIGRATOR_API_SEED"

// written makes random objects of kube-storage-version-migrator's types, as its programs could have written them.
type written struct{ *rand.Rand }

func newWritten(t *testing.T) written {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with %s=%d go test ./api/v1alpha1 -run '^%s$'", seedVariable, seed, t.Name())
		}
	})
	return written{rand.New(rand.NewPCG(seed, 0))}
}

// text is empty now and then, and never longer than most characters.
func (w written) text(most int) string {
	alphabet := []rune("abcdefghijklmnopqrstuvwxyz ÄÖ€\"\\\n<&>{}0")
	n := w.IntN(min(most, 40) + 1)
	if w.IntN(20) == 0 {
		n = most
	}
	var b strings.Builder
	for range n {
		b.WriteRune(alphabet[w.IntN(len(alphabet))])
	}
	return b.String()
}

// token is a continue token as API servers give them: URL-safe base64, now and then as long as the CRD allows.
func (w written) token() string {
	n := w.IntN(40)
	if w.IntN(20) == 0 {
		n = 3_072
	}
	raw := make([]byte, n)
	for i := range raw {
		raw[i] = byte(w.Uint32())
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// label is a DNS label.
func (w written) label() string {
	return fmt.Sprintf("%c%x", 'a'+rune(w.IntN(26)), w.Uint32())
}

func (w written) group() string {
	if w.IntN(4) == 0 {
		return ""
	}
	return w.label() + ".example.com"
}

func (w written) time() metav1.Time {
	if w.IntN(4) == 0 {
		return metav1.Time{}
	}
	return metav1.NewTime(time.Unix(w.Int64N(4_000_000_000), 0))
}

func (w written) metadata(name string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: name}
	if w.IntN(2) == 0 {
		m.Labels = map[string]string{w.label(): w.label()}
	}
	if w.IntN(2) == 0 {
		m.Annotations = map[string]string{w.label(): w.text(200)}
	}
	return m
}

func (w written) migration() *peer.StorageVersionMigration {
	resource := peer.GroupVersionResource{Group: w.group(), Version: w.label(), Resource: w.label()}
	if w.IntN(3) == 0 {
		resource.Version = ""
	}
	m := &peer.StorageVersionMigration{
		TypeMeta:   metav1.TypeMeta{APIVersion: peer.SchemeGroupVersion.String(), Kind: "StorageVersionMigration"},
		ObjectMeta: w.metadata(resource.Resource + "-" + w.label()),
		Spec:       peer.StorageVersionMigrationSpec{Resource: resource, ContinueToken: w.token()},
	}
	for _, i := range w.Perm(4)[:w.IntN(5)] {
		m.Status.Conditions = append(m.Status.Conditions, peer.MigrationCondition{
			Type: []peer.MigrationConditionType{peer.MigrationRunning, peer.MigrationSucceeded,
				peer.MigrationFailed, "Other"}[i],
			Status: []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse,
				corev1.ConditionUnknown}[w.IntN(3)],
			LastUpdateTime: w.time(), Reason: w.text(1_024), Message: w.text(32_768),
		})
	}
	return m
}

func (w written) state() *peer.StorageState {
	resource := peer.GroupResource{Group: w.group(), Resource: w.label()}
	name := resource.Resource
	if resource.Group != "" {
		name += "." + resource.Group
	}
	s := &peer.StorageState{
		TypeMeta:   metav1.TypeMeta{APIVersion: peer.SchemeGroupVersion.String(), Kind: "StorageState"},
		ObjectMeta: w.metadata(name),
		Spec:       peer.StorageStateSpec{Resource: resource},
		Status:     peer.StorageStateStatus{CurrentStorageVersionHash: w.text(64), LastHeartbeatTime: w.time()},
	}
	for range w.IntN(5) {
		// distinct, all but surely
		s.Status.PersistedStorageVersionHashes = append(s.Status.PersistedStorageVersionHashes, w.label())
	}
	if w.IntN(2) == 0 {
		s.Status.PersistedStorageVersionHashes = append(s.Status.PersistedStorageVersionHashes, peer.Unknown)
	}
	return s
}

// through writes one value as JSON and reads it as another type.
func through(t *testing.T, from, to any) {
	t.Helper()
	raw, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, to); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
}

func TestObjectsOfKubeStorageVersionMigratorLoseNothingInOurTypes(t *testing.T) {
	w := newWritten(t)
	for range 300 {
		migration, state := w.migration(), w.state()

		var ours v1alpha1.StorageVersionMigration
		var back peer.StorageVersionMigration
		through(t, migration, &ours)
		through(t, &ours, &back)
		if diff := compare.Diff(migration, &back); diff != "" {
			t.Fatalf("StorageVersionMigration (-written +read):\n%s", diff)
		}

		var oursState v1alpha1.StorageState
		var backState peer.StorageState
		through(t, state, &oursState)
		through(t, &oursState, &backState)
		if diff := compare.Diff(state, &backState); diff != "" {
			t.Fatalf("StorageState (-written +read):\n%s", diff)
		}
	}
}

func TestObjectsOfKubeStorageVersionMigratorLoseNothingOnAnAPIServer(t *testing.T) {
	w := newWritten(t)
	c := newCluster(t, testbed.Options{})
	for range 12 {
		migration, state := w.migration(), w.state()
		var back peer.StorageVersionMigration
		var ours v1alpha1.StorageVersionMigration
		wanted := migration.DeepCopy()
		c.write(migrations, migration.Name, migration, &migration.ObjectMeta, &back, &ours)
		// an absent status is a new one, which says that the controller has yet to look
		if len(wanted.Status.Conditions) == 0 {
			wanted.Status = back.Status
		}
		if diff := compare.Diff(wanted.Spec, back.Spec); diff != "" {
			t.Errorf("spec (-written +read):\n%s", diff)
		}
		if diff := compare.Diff(wanted.Status, back.Status); diff != "" {
			t.Errorf("status (-written +read):\n%s", diff)
		}
		compareMetadata(t, wanted.ObjectMeta, back.ObjectMeta)
		if ours.Spec.Generation != 1 || ours.Spec.State != v1alpha1.StateActive ||
			ours.Spec.ContinueToken != wanted.Spec.ContinueToken {
			t.Errorf("our type reads %+v, want generation 1, Active and the token", ours.Spec)
		}

		var backState peer.StorageState
		var oursState v1alpha1.StorageState
		wantedState := state.DeepCopy()
		c.write(states, state.Name, state, &state.ObjectMeta, &backState, &oursState)
		if diff := compare.Diff(wantedState.Spec, backState.Spec); diff != "" {
			t.Errorf("spec (-written +read):\n%s", diff)
		}
		if diff := compare.Diff(wantedState.Status, backState.Status); diff != "" {
			t.Errorf("status (-written +read):\n%s", diff)
		}
		compareMetadata(t, wantedState.ObjectMeta, backState.ObjectMeta)
		if diff := compare.Diff(wantedState.Status.PersistedStorageVersionHashes,
			oursState.Status.PersistedStorageVersionHashes); diff != "" {
			t.Errorf("our type (-written +read):\n%s", diff)
		}
	}
}

// compareMetadata compares what its writer says; the API server adds to it.
func compareMetadata(t *testing.T, want, got metav1.ObjectMeta) {
	t.Helper()
	got = metav1.ObjectMeta{Name: got.Name, Labels: got.Labels, Annotations: got.Annotations}
	if diff := compare.Diff(want, got); diff != "" {
		t.Errorf("metadata (-written +read):\n%s", diff)
	}
}
