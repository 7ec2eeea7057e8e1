// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/ledger"
)

// shelves is an API server with many migrations, which it generates while they are listed.
type shelves struct {
	client.Reader
	n       int
	at      func(i int) v1alpha1.StorageVersionMigration
	largest int // objects of one page
}

func (s *shelves) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	o := new(client.ListOptions).ApplyOptions(options)
	found := list.(*v1alpha1.StorageVersionMigrationList)
	from, _ := strconv.Atoi(o.Continue)
	to := min(s.n, from+int(o.Limit))
	for i := from; i < to; i++ {
		found.Items = append(found.Items, s.at(i))
	}
	if s.largest = max(s.largest, to-from); to < s.n {
		found.Continue = strconv.Itoa(to)
	}
	return nil
}

// large returns a migration that has succeeded and is as large as its creator can make it.
func large(i int) v1alpha1.StorageVersionMigration {
	m := v1alpha1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("%s%d", strings.Repeat("n", 240), i),
		UID:  "12345678-1234-1234-1234-123456789012", ResourceVersion: "7",
		Annotations: map[string]string{"a": strings.Repeat("x", 10<<10) + strconv.Itoa(i)},
	}}
	m.Spec.Resource = v1alpha1.GroupVersionResource{Group: strings.Repeat("g", 250),
		Resource: fmt.Sprintf("widgets%d", i%100)}
	m.Spec.ContinueToken = strings.Repeat("t", 4090) + strconv.Itoa(i)
	for j := range 64 {
		m.Spec.GroupVersions = append(m.Spec.GroupVersions,
			v1alpha1.GroupVersion{Group: fmt.Sprintf("%s%d-%d", strings.Repeat("g", 240), i, j), Version: "v1"})
	}
	m.Spec.Generation, m.Status.CompletedGeneration, m.Status.Run.Generation, m.Status.StorageVersionHash = 1, 1, 1,
		"hash"
	m.Status.Epoch = &v1alpha1.Epoch{}
	for j := range 5 {
		m.Status.Epoch.Servers = append(m.Status.Epoch.Servers, fmt.Sprintf("%s%d", strings.Repeat("s", 60), j))
	}
	for range 20 {
		m.Status.Failures = append(m.Status.Failures,
			v1alpha1.Failure{Name: "a", Message: strings.Repeat("m", 1000) + strconv.Itoa(i)})
	}
	return m
}

func TestALookHoldsLittleOfEachMigration(t *testing.T) {
	const n = 2000
	s := &shelves{n: n, at: large}
	heap := func() uint64 {
		for range 3 {
			runtime.GC()
		}
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := heap()
	all, err := readMigrations(t.Context(), s)
	if err != nil || len(all) != n || s.largest > 500 {
		t.Fatalf("%d migrations in pages of up to %d (%v), want %d", len(all), s.largest, err, n)
	}
	each := (heap() - min(before, heap())) / n
	if t.Logf("%d bytes for each", each); each > 3000 {
		t.Errorf("%d bytes are held of each migration", each)
	}
	names := []string{"widgets7." + strings.Repeat("g", 250)}
	ours, others := migrationsOf(all.of(names), names)
	if len(others) != n/100 || ours != (ledger.Migration{}) || len(proofsOf(all.of(names), names)) != n/100 {
		t.Errorf("%d migrations of one resource, want %d", len(others), n/100)
	}
	whole := large(3)
	held := all.of([]string{"widgets3." + strings.Repeat("g", 250)})
	if !slices.Equal(held[0].Spec.GroupVersions, digested(whole.Spec.GroupVersions)) ||
		slices.Equal(held[0].Spec.GroupVersions, held[1].Spec.GroupVersions) {
		t.Errorf("group versions are compared by %v", held[0].Spec.GroupVersions)
	}
}

func TestMigrationsOfAResourceAreFoundByEachOfItsNames(t *testing.T) {
	var list []v1alpha1.StorageVersionMigration
	for _, name := range []string{"events", "widgets.demo.example.com", "events.events.k8s.io", "eventses",
		"events.other.example.com", "events"} {
		resource, group, _ := strings.Cut(name, ".")
		m := v1alpha1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(name, len(list))}}
		m.Spec.Resource = v1alpha1.GroupVersionResource{Group: group, Resource: resource}
		list = append(list, m)
	}
	all, err := readMigrations(t.Context(), &shelves{n: len(list),
		at: func(i int) v1alpha1.StorageVersionMigration { return list[i] }})
	if err != nil {
		t.Fatal(err)
	}
	for names, want := range map[string]string{
		"events": "events0 events5", "events.events.k8s.io events": "events.events.k8s.io2 events0 events5",
		"gadgets": "", "widgets": "",
		"widgets.demo.example.com": "widgets.demo.example.com1", "zoos": "", "eventses": "eventses3",
	} {
		var got []string
		for _, m := range all.of(strings.Fields(names)) {
			got = append(got, m.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", names, got, want)
		}
	}
}

func TestAReasonIsOneLineThatIsShown(t *testing.T) {
	for text, want := range map[string]string{
		"storage version changed v1 → v2": "storage version changed v1 → v2", "a\nb\t c": "a b c",
		"a\x1b[2Jb": `a\u001b[2Jb`, "a\u202eb": `a\u202eb`,
	} {
		if got := oneLine(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	long := []rune(oneLine(strings.Repeat("ä", 5000)))
	if len(long) != mostReason || slices.ContainsFunc(long, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("%d characters, want %d", len(long), mostReason)
	}
}
