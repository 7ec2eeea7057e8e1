// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

// revisionKey is how etcd names a revision in its database.
func revisionKey(main int, deleted bool) []byte {
	k := binary.BigEndian.AppendUint64(nil, uint64(main))
	k = append(k, '_')
	k = binary.BigEndian.AppendUint64(k, 0)
	if deleted {
		k = append(k, 't')
	}
	return k
}

// writeSnapshot writes a file like that of etcd, whose history is in the order of the records, and returns its path.
func writeSnapshot(t testing.TB, history func(yield func(record) bool)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "snapshot.db")
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true, NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	main := 1
	put := func(tx *bolt.Tx, r record) error {
		main++
		bucket, err := tx.CreateBucketIfNotExists(keyBucket)
		if err != nil {
			return err
		}
		data, err := proto.Marshal(&mvccpb.KeyValue{Key: r.key, Value: r.value, ModRevision: int64(main)})
		if err != nil {
			return err
		}
		bucket.FillPercent = 0.9
		return bucket.Put(revisionKey(main, r.deleted), data)
	}
	tx, err := db.Begin(true)
	if err != nil {
		t.Fatal(err)
	}
	for r := range history {
		if err = put(tx, r); err != nil {
			t.Fatal(err)
		}
		if main%2000 == 0 {
			if err = tx.Commit(); err == nil {
				tx, err = db.Begin(true)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(path + ".copy")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	if err := db.View(func(tx *bolt.Tx) error {
		if _, err := tx.WriteTo(out); err != nil {
			return err
		}
		_, err := tx.WriteTo(sum)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write(sum.Sum(nil)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(out.Close(), db.Close(), os.Remove(path)); err != nil {
		t.Fatal(err)
	}
	return path + ".copy"
}

func values(s Snapshot, prefix string) (map[string]string, Provenance, error) {
	got := map[string]string{}
	provenance, err := s.Each(context.Background(), prefix, func(key, value []byte) error {
		if _, twice := got[string(key)]; twice {
			return fmt.Errorf("%s is visited twice", key)
		}
		got[string(key)] = string(value)
		return nil
	})
	return got, provenance, err
}

func someHistory(yield func(record) bool) {
	for _, r := range []record{
		{key: []byte("/registry/a"), value: []byte("old")},
		{key: []byte("/registry/b"), value: []byte("kept")},
		{key: []byte("compact_rev_key"), value: []byte("7")},
		{key: []byte("/registry/c"), value: []byte("gone")},
		{key: []byte("/registry/a"), value: []byte("new")},
		{key: []byte("/registry/d"), value: []byte("before")},
		{key: []byte("/registry/c"), deleted: true},
		{key: []byte("/registry/d"), deleted: true},
		{key: []byte("/registry/d"), value: []byte("back")},
		{key: []byte("/registryother/e"), value: []byte("not below the prefix")},
	} {
		if !yield(r) {
			return
		}
	}
}

func TestOnlyTheNewestRevisionOfAKeyCountsAndADeletedKeyDoesNot(t *testing.T) {
	path := writeSnapshot(t, someHistory)
	for name, s := range map[string]Snapshot{
		"at once":                 {Path: path},
		"divided into many parts": {Path: path, slots: 8},
	} {
		t.Run(name, func(t *testing.T) {
			got, provenance, err := values(s, "/registry/")
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"/registry/a": "new", "/registry/b": "kept", "/registry/d": "back"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			if provenance.Revision != 11 || !provenance.ChecksumVerified || len(provenance.SHA256) != 64 {
				t.Errorf("provenance %+v, want revision 11 and a verified checksum", provenance)
			}
		})
	}
}

func TestASnapshotWithoutItsChecksumIsReadAndSaidToBeUnverified(t *testing.T) {
	path := writeSnapshot(t, someHistory)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()-sha256.Size); err != nil {
		t.Fatal(err)
	}
	got, provenance, err := values(Snapshot{Path: path}, "/registry/")
	if err != nil || len(got) != 3 || provenance.ChecksumVerified {
		t.Errorf("got %d values, provenance %+v, %v; want 3, unverified", len(got), provenance, err)
	}
}

func TestFilesThatCannotBeTrustedAreRefusedBeforeAnythingIsCounted(t *testing.T) {
	content, err := os.ReadFile(writeSnapshot(t, someHistory))
	if err != nil {
		t.Fatal(err)
	}
	edit := func(at int, b byte) []byte {
		changed := bytes.Clone(content)
		changed[at] ^= b
		return changed
	}
	for name, test := range map[string]struct {
		content []byte
		want    error
	}{
		"an empty file":                       {nil, ErrNoSnapshot},
		"a text":                              {[]byte(strings.Repeat("hello\n", 5000)), ErrNoSnapshot},
		"a file cut off in its header":        {content[:40], ErrNoSnapshot},
		"a file cut off behind its header":    {content[:8192], ErrTruncated},
		"a file cut off in a page":            {content[:len(content)-5000], ErrTruncated},
		"a file cut off in its checksum":      {content[:len(content)-1], ErrTruncated},
		"a file cut off by chance like one":   {content[:len(content)-4096], ErrTruncated},
		"a changed value":                     {edit(bytes.Index(content, []byte("kept")), 1), ErrDamaged},
		"a changed checksum":                  {edit(len(content)-1, 1), ErrDamaged},
		"a bit too much":                      {append(bytes.Clone(content), 1), ErrTruncated},
		"both headers changed":                {overwrite(content, 16, 4096+16), ErrNoSnapshot},
		"no checksum and a root page of junk": {junk(content[:len(content)-sha256.Size]), ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(path, test.content, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, _, err := values(Snapshot{Path: path}, "/registry/"); !errors.Is(err, test.want) || len(got) > 0 {
				t.Errorf("got %d values and %v, want %v", len(got), err, test.want)
			}
		})
	}
}

func overwrite(content []byte, at ...int) []byte {
	changed := bytes.Clone(content)
	for _, i := range at {
		changed[i] ^= 0xff
	}
	return changed
}

// junk fills everything behind the header.
func junk(content []byte) []byte {
	changed := bytes.Clone(content)
	for i := 2 * 4096; i < len(changed); i++ {
		changed[i] = 0xee
	}
	return changed
}

func TestAFileThatIsNotThereOrNoFileIsRefused(t *testing.T) {
	if _, _, err := values(Snapshot{Path: filepath.Join(t.TempDir(), "none")}, "/"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want %v", err, os.ErrNotExist)
	}
	if _, _, err := values(Snapshot{Path: t.TempDir()}, "/"); !errors.Is(err, ErrNoSnapshot) {
		t.Errorf("got %v, want %v", err, ErrNoSnapshot)
	}
}

func TestADatabaseThatIsNotEtcdsIsNoSnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other")
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := values(Snapshot{Path: path}, "/"); !errors.Is(err, ErrNoSnapshot) {
		t.Errorf("got %v, want %v", err, ErrNoSnapshot)
	}
}

func TestAMembersOwnFileIsRefusedRunningOrNot(t *testing.T) {
	content, err := os.ReadFile(writeSnapshot(t, someHistory))
	if err != nil {
		t.Fatal(err)
	}
	content = content[:len(content)-sha256.Size]
	t.Run("locked by a process", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "copy")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := bolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, _, err := values(Snapshot{Path: path}, "/"); !errors.Is(err, ErrMemberFile) {
			t.Errorf("got %v, want %v", err, ErrMemberFile)
		}
	})
	t.Run("in the member's folder, also through a link", func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "member", "snap")
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		path, link := filepath.Join(folder, "db"), filepath.Join(t.TempDir(), "link")
		if err := errors.Join(os.WriteFile(path, content, 0o600), os.Symlink(path, link)); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{path, link} {
			if _, _, err := values(Snapshot{Path: p}, "/"); !errors.Is(err, ErrMemberFile) {
				t.Errorf("%s: got %v, want %v", p, err, ErrMemberFile)
			}
		}
	})
}

func TestAPanicOfAVisitIsNotTakenForADamagedFile(t *testing.T) {
	defer func() {
		if r := recover(); r != "mine" {
			t.Errorf("recovered %v, want the visit's own panic", r)
		}
	}()
	_, err := Snapshot{Path: writeSnapshot(t, someHistory)}.Each(t.Context(), "/",
		func([]byte, []byte) error { panic("mine") })
	t.Errorf("got %v, want a panic", err)
}

func TestAnAuditStopsWhenItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, visits := Snapshot{Path: writeSnapshot(t, widgetHistory(10_000, 10))}, 0
	_, err := s.Each(ctx, "/", func([]byte, []byte) error { cancel(); visits++; return nil })
	if !errors.Is(err, context.Canceled) || visits > 200 {
		t.Errorf("got %v after %d visits, want %v within a page", err, visits, context.Canceled)
	}
}

// peakHeap audits a snapshot and returns the largest live heap seen on the way.
func peakHeap(t *testing.T, path string) (peak uint64, objects int64) {
	t.Helper()
	visits := 0
	sample := func(StaleObject) error {
		if visits++; visits%2000 == 1 {
			runtime.GC()
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			peak = max(peak, stats.HeapAlloc)
		}
		return nil
	}
	current, err := ParseCurrent([]byte("widgets.demo.example.com: v2"))
	if err != nil {
		t.Fatal(err)
	}
	// A small table, next to which anything that grows with the keys would show.
	report, err := Audit(t.Context(), Snapshot{Path: path, slots: 1 << 14}, Options{Current: current, OnStale: sample})
	if err != nil {
		t.Fatal(err)
	}
	return peak, report.Totals.Stale
}

func widgetHistory(n, bytesEach int) func(yield func(record) bool) {
	return func(yield func(record) bool) {
		value := append([]byte(`{"apiVersion":"demo.example.com/v1","kind":"Widget","spec":"`),
			bytes.Repeat([]byte("x"), bytesEach)...)
		value = append(value, `"}`...)
		for i := range n {
			if !yield(record{key: []byte("/registry/demo.example.com/widgets/default/widget-" +
				strconv.Itoa(i)), value: value}) {
				return
			}
		}
	}
}

func TestMemoryDoesNotGrowWithTheNumberOfKeysNorWithTheSizeOfValues(t *testing.T) {
	few, manyKeys, largeValues := writeSnapshot(t, widgetHistory(8_000, 10)),
		writeSnapshot(t, widgetHistory(80_000, 10)), writeSnapshot(t, widgetHistory(8_000, 10_000))
	base, n := peakHeap(t, few)
	if n != 8_000 {
		t.Fatalf("%d stale objects, want 8000", n)
	}
	for name, path := range map[string]string{"10 times the keys": manyKeys, "100 times the bytes": largeValues} {
		peak, _ := peakHeap(t, path)
		if t.Logf("%s: live heap of at most %d KiB, with a tenth %d KiB", name, peak>>10,
			base>>10); peak > base+128<<10 {
			t.Errorf("%s: live heap of %d bytes, %d without", name, peak, base)
		}
	}
}

// What is mapped of the file counts as ours as long as no one else needs the memory.
func TestOnlyAPartOfTheFileIsMappedAtATime(t *testing.T) {
	path := writeSnapshot(t, widgetHistory(1_000, 128<<10))
	var peak, sum int
	_, err := Snapshot{Path: path}.Each(t.Context(), "/", func(_, value []byte) error {
		for _, b := range value {
			sum += int(b)
		}
		peak = max(peak, residentFileBytes(t))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if limit := 48 << 20; peak > limit {
		t.Errorf("%d MiB of files in memory, binaries included, want at most %d", peak>>20, limit>>20)
	}
}

func residentFileBytes(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
