// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

// largest is a StorageVersionMigration of the largest size that the CRD allows, with as many labels and annotations as
// the API server takes, as JSON.
func largest(t *testing.T) []byte {
	t.Helper()
	text := func(n int) string { return strings.Repeat("€", n) } // lengths are in characters
	m := v1alpha1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{
			Name: strings.Repeat("n", 253), UID: "12345678-1234-1234-1234-123456789012",
			ResourceVersion: "123456789", Generation: 7,
			Labels: map[string]string{}, Annotations: map[string]string{"demo.example.com/text": strings.Repeat("x",
				250<<10)},
			Finalizers: []string{}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "a",
				FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}},
		},
		Spec: v1alpha1.StorageVersionMigrationSpec{
			Resource: v1alpha1.GroupVersionResource{Group: strings.Repeat("g", 253), Version: strings.Repeat("v", 63),
				Resource: strings.Repeat("r", 63)},
			Reason: text(1024), ContinueToken: strings.Repeat("t", 4096), Generation: 3,
			State: v1alpha1.StateActive, Priority: 1000,
			TTLSecondsAfterFinished: new(int32(1 << 30)),
		},
		Status: v1alpha1.StorageVersionMigrationStatus{
			State: v1alpha1.PhaseSucceeded, Summary: text(1024), StorageVersion: text(317),
			StorageVersionHash: text(64), ResourceVersion: text(64),
			CompletedGeneration: 3, Run: v1alpha1.Run{Generation: 3, Attempt: 1, StartResourceVersion: text(64),
				RetryTime: metav1.Now()},
			Epoch: &v1alpha1.Epoch{Evidence: text(32), CRDUID: text(128), Since: metav1.Now()},
			Progress: v1alpha1.Progress{
				Total: 1, StartTime: metav1.Now(), UpdateTime: metav1.Now(), CompletionTime: metav1.Now(),
				EstimatedCompletionTime: metav1.Now(),
			},
		},
	}
	for i := range 300 {
		m.Labels[fmt.Sprintf("%s/%d", strings.Repeat("l", 240), i)] = strings.Repeat("l", 63)
		m.Finalizers = append(m.Finalizers, fmt.Sprintf("%s/%d", strings.Repeat("l", 240), i))
	}
	for range 64 {
		m.Spec.GroupVersions = append(m.Spec.GroupVersions,
			v1alpha1.GroupVersion{Group: m.Spec.Resource.Group, Version: m.Spec.Resource.Version})
		m.Status.Epoch.Servers = append(m.Status.Epoch.Servers, text(512))
	}
	for range 20 {
		m.Status.Failures = append(m.Status.Failures,
			v1alpha1.Failure{Namespace: text(253), Name: text(253), Reason: text(64), Message: text(1024), Attempts: 1})
	}
	for i := range 16 {
		c := v1alpha1.Condition{
			Type: v1alpha1.ConditionType(fmt.Sprintf("%s%d", text(300), i)), Status: metav1.ConditionTrue,
			Reason: text(1024), Message: text(32_768),
			LastUpdateTime: metav1.Now(), LastTransitionTime: metav1.Now(),
		}
		if i < len(ourConditions) {
			c.Type = ourConditions[i]
		}
		m.Status.Conditions = append(m.Status.Conditions, c)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// controllerLimit is the memory limit that package install gives to the controller, of which this cache may use a
// quarter.
func controllerLimit(t *testing.T) uint64 {
	t.Helper()
	source, err := os.ReadFile("../../install/workload.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`memoryLimit += "([^"]+)"`).FindSubmatch(source)
	if found == nil {
		t.Fatal("package install has no memoryLimit")
	}
	limit := resource.MustParse(string(found[1]))
	return uint64(limit.Value())
}

func TestTenThousandMigrationsOfTheLargestSizeFitIntoAQuarterOfTheMemoryLimit(t *testing.T) {
	const n = 40
	raw := largest(t)
	indexers := toolscache.Indexers{uidIndex: func(o any) ([]string, error) {
		return []string{string(o.(*v1alpha1.StorageVersionMigration).UID)}, nil
	}}
	store := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, indexers)
	transform := transformOf(t)
	add := func(i int) {
		m := new(v1alpha1.StorageVersionMigration)
		if err := json.Unmarshal(raw, m); err != nil {
			t.Fatal(err)
		}
		m.Name, m.UID = fmt.Sprintf("%s%d", m.Name[:240], i), types.UID(fmt.Sprintf("%s%d", m.UID, i))
		cached, err := transform(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Add(cached); err != nil {
			t.Fatal(err)
		}
	}
	add(0)
	before := liveHeap() // what is allocated once counts for none
	for i := range n {
		add(i + 1)
	}
	after := liveHeap()
	runtime.KeepAlive(raw)
	if kept := len(store.List()); kept != n+1 || after <= before {
		t.Fatalf("%d migrations are kept, want %d; the heap had %d bytes, and has %d", kept, n+1, before, after)
	}
	each := (after - before) / n
	t.Logf("%d bytes in the cache for an object of %d bytes", each, len(raw))
	if len(raw) < 1<<20 {
		t.Errorf("the object has %d bytes, want one beyond 1 MiB", len(raw))
	}
	if most := controllerLimit(t) / 4; each*10_000 > most {
		t.Errorf("10,000 migrations take %d MiB, want at most %d", each*10_000>>20, most>>20)
	}
}

// transformOf is what the cache does with each migration.
func transformOf(t *testing.T) toolscache.TransformFunc {
	t.Helper()
	for o, by := range cacheOptions("kube-migrator").ByObject {
		if _, ok := o.(*v1alpha1.StorageVersionMigration); ok {
			return by.Transform
		}
	}
	t.Fatal("the cache keeps migrations as they are")
	return nil
}

func liveHeap() uint64 {
	for range 3 { // pools of buffers are emptied by the second one
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func TestAListOfMigrationsIsStrippedPageByPage(t *testing.T) {
	raw := largest(t)
	const n = 30
	served, most := 0, uint64(0)
	before := liveHeap()
	all, err := listStripped(t.Context(), func(_ context.Context, limit int64,
		token string) (*v1alpha1.StorageVersionMigrationList, error) {
		now := liveHeap()
		most = max(most, now-min(before, now))
		page := new(v1alpha1.StorageVersionMigrationList)
		page.ResourceVersion = "7"
		for range min(5, n-served, int(limit)) {
			var m v1alpha1.StorageVersionMigration
			if err := json.Unmarshal(raw, &m); err != nil {
				return nil, err
			}
			m.Name = fmt.Sprint(served)
			page.Items = append(page.Items, m)
			served++
		}
		if served < n {
			page.Continue = fmt.Sprint(served)
		}
		return page, nil
	})
	if err != nil || len(all.Items) != n || all.ResourceVersion != "7" || all.Continue != "" {
		t.Fatalf("%d migrations, resourceVersion %q (%v), want %d", len(all.Items), all.ResourceVersion, err, n)
	}
	if most > 10*uint64(len(raw)) {
		t.Errorf("%d MiB at a time", most>>20)
	}
}

// A pass decides the same from what the cache keeps as from the whole, and finds that the same has to be written.
func TestAPassDecidesTheSameFromAStrippedMigration(t *testing.T) {
	long := strings.Repeat("denied by the webhook. ", 40)
	for name, change := range map[string]func(*v1alpha1.StorageVersionMigration){
		"new":       func(*v1alpha1.StorageVersionMigration) {},
		"paused":    func(m *v1alpha1.StorageVersionMigration) { m.Spec.State = v1alpha1.StatePaused },
		"cancelled": func(m *v1alpha1.StorageVersionMigration) { m.Spec.State = v1alpha1.StateCancelled },
		"succeeded": func(m *v1alpha1.StorageVersionMigration) { m.Status.CompletedGeneration = m.Spec.Generation },
		"succeeded with a long summary": func(m *v1alpha1.StorageVersionMigration) {
			m.Status.CompletedGeneration, m.Status.Summary = m.Spec.Generation, long
		},
		"failed with a long message": func(m *v1alpha1.StorageVersionMigration) {
			m.Status.Run = v1alpha1.Run{Generation: m.Spec.Generation, Attempt: 1, Failures: 1,
				RetryTime: metav1.NewTime(noon.Add(time.Minute))}
			m.Status.Conditions = []v1alpha1.Condition{{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue,
				Reason: "Rejected", Message: long}}
			m.Status.Failures = []v1alpha1.Failure{{Name: "a", Message: long}}
		},
		"with conditions of another program": func(m *v1alpha1.StorageVersionMigration) {
			m.Status.Conditions = []v1alpha1.Condition{{Type: "Other", Status: metav1.ConditionTrue, Message: long}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			whole := aMigration(change)
			for round := range 3 { // later what the first has written is there
				kept := stripped(whole)
				if diff := cmp.Diff(kept, stripped(kept)); diff != "" {
					t.Errorf("stripped twice (-once +twice):\n%s", diff)
				}
				f := facts{now: noon, since: noon, migration: whole, firstRetry: time.Minute}
				d := decide(f)
				f.migration = kept
				ofKept := decide(f)
				if d.step != ofKept.step || d.phase != ofKept.phase || d.again != ofKept.again ||
					d.run.name != ofKept.run.name {
					t.Errorf("round %d: %s %s %s of a stripped one, want %s %s %s", round, ofKept.step, ofKept.phase,
						ofKept.again, d.step, d.phase, d.again)
				}
				next := statusAfter(whole, d, noon, time.Minute)
				writes, ofStripped := differs(whole, next, true),
					differs(kept, statusAfter(kept, ofKept, noon, time.Minute), false)
				if writes != ofStripped || writes && round == 2 && d.step == stepNothing {
					t.Errorf("round %d: a status is written: %t, of a stripped one %t", round, writes, ofStripped)
				}
				whole = whole.DeepCopy()
				whole.Status = next
			}
		})
	}
}

func TestWhatIsToBeDoneForAMigrationTakesItOutOfRest(t *testing.T) {
	told := func(change func(*v1alpha1.StorageVersionMigration)) *v1alpha1.StorageVersionMigration {
		m := aMigration(change)
		now := time.Now()
		for range 2 { // a success without a summary has one then
			m.Status = statusAfter(m, decide(facts{now: now, since: now, migration: m}), now, 0)
		}
		return m
	}
	finished := func(m *v1alpha1.StorageVersionMigration) { m.Status.CompletedGeneration = m.Spec.Generation }
	expiring := func(m *v1alpha1.StorageVersionMigration) {
		finished(m)
		m.Spec.TTLSecondsAfterFinished = new(int32(1000))
		m.Status.Progress.CompletionTime = metav1.Now()
	}
	for name, test := range map[string]struct {
		m    *v1alpha1.StorageVersionMigration
		rest bool
	}{
		"a new one":                     {aMigration(func(*v1alpha1.StorageVersionMigration) {}), false},
		"one that waits":                {told(func(*v1alpha1.StorageVersionMigration) {}), false},
		"one that has succeeded":        {told(finished), true},
		"one whose success is not told": {aMigration(finished), false},
		"one that expires":              {told(expiring), true},
		"a paused one": {
			told(func(m *v1alpha1.StorageVersionMigration) { m.Spec.State = v1alpha1.StatePaused }), true,
		},
		"a cancelled one": {
			told(func(m *v1alpha1.StorageVersionMigration) { m.Spec.State = v1alpha1.StateCancelled }), true,
		},
		"one that has succeeded, raised": {raised(told(finished)), false},
		"one that is tried again":        {told(backsOff), false},
		"one that is being deleted":      {deleted(told(finished)), false},
	} {
		if got := resting(stripped(test.m)); got != test.rest {
			t.Errorf("%s is at rest: %t, want %t", name, got, test.rest)
		}
		if got := resting(test.m); got != test.rest {
			t.Errorf("%s, whole, is at rest: %t, want %t", name, got, test.rest)
		}
	}
}

func raised(m *v1alpha1.StorageVersionMigration) *v1alpha1.StorageVersionMigration {
	m.Spec.Generation++
	return m
}

func deleted(m *v1alpha1.StorageVersionMigration) *v1alpha1.StorageVersionMigration {
	m.DeletionTimestamp = new(metav1.Now())
	return m
}

func backsOff(m *v1alpha1.StorageVersionMigration) {
	m.Status.Run = v1alpha1.Run{Generation: m.Spec.Generation, Attempt: 1, Failures: 1,
		RetryTime: metav1.NewTime(time.Now().Add(time.Minute))}
}
