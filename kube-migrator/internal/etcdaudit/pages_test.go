// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
)

// crafted is a snapshot whose pages a test changes. Its checksum is left out, as someone would who changes pages.
type crafted struct {
	t       testing.TB
	content []byte
}

const craftedPage = 4096

func craft(t testing.TB, history func(yield func(record) bool)) *crafted {
	t.Helper()
	content, err := os.ReadFile(writeSnapshot(t, history))
	if err != nil {
		t.Fatal(err)
	}
	return &crafted{t: t, content: content[:len(content)-sha256.Size]}
}

func (c *crafted) page(id uint64) []byte { return c.content[id*craftedPage:] }

func (c *crafted) flags(id uint64) uint16 { return binary.NativeEndian.Uint16(c.page(id)[8:]) }

// find returns the pages of a kind that the tree of keys has.
func (c *crafted) find(flags uint16) (ids []uint64) {
	for id := uint64(2); id < uint64(len(c.content)/craftedPage); id++ {
		if p := c.page(id); c.flags(id) == flags && binary.NativeEndian.Uint64(p) == id &&
			binary.NativeEndian.Uint16(p[10:]) > 1 {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		c.t.Fatalf("there is no page with the flags %#x", flags)
	}
	return ids
}

// lead makes the i-th element of a branch lead to another page.
func (c *crafted) lead(branch uint64, i int, to uint64) {
	binary.NativeEndian.PutUint64(c.page(branch)[pageHeaderBytes+i*branchElement+8:], to)
}

// root makes both meta pages say that the root bucket is elsewhere.
func (c *crafted) root(id uint64) {
	for _, at := range []uint64{0, 1} {
		meta := c.page(at)[pageHeaderBytes:][:metaBytes]
		binary.NativeEndian.PutUint64(meta[16:], id)
		sum := fnv.New64a()
		sum.Write(meta[:56])
		binary.NativeEndian.PutUint64(meta[56:], sum.Sum64())
	}
}

func (c *crafted) write() string {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), "crafted")
	if err := os.WriteFile(path, c.content, 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// Following such pages as they lead takes memory until there is none.
func TestPagesThatLeadInCirclesEndTheReadInLittleMemory(t *testing.T) {
	order := binary.NativeEndian
	for name, test := range map[string]struct {
		change func(c *crafted)
		says   string
	}{
		"a branch that leads to itself": {func(c *crafted) {
			for _, b := range c.find(branchFlag) {
				for i := range int(order.Uint16(c.page(b)[10:])) {
					c.lead(b, i, b)
				}
			}
		}, "two ways lead to page"},
		"a root bucket that leads to itself": {func(c *crafted) {
			b := c.find(branchFlag)[0]
			c.root(b)
			c.lead(b, int(order.Uint16(c.page(b)[10:]))-1, b)
		}, "two ways lead to page"},
		"two ways to one leaf": {func(c *crafted) {
			b := c.find(branchFlag)[0]
			c.lead(b, 0, order.Uint64(c.page(b)[pageHeaderBytes+branchElement+8:]))
		}, "two ways lead to page"},
		"a page beyond the last one": {func(c *crafted) { c.lead(c.find(branchFlag)[0], 0, 1<<40) },
			"leads to page 1099511627776 of"},
		"a page that says that it is another": {func(c *crafted) {
			order.PutUint64(c.page(order.Uint64(c.page(c.find(branchFlag)[0])[pageHeaderBytes+8:])), 7777)
		}, "says that it is 7777"},
		"a page of all pages": {func(c *crafted) {
			order.PutUint32(c.page(c.find(branchFlag)[0])[12:], 1<<31)
		}, "says that it is"},
		"a leaf with an element beyond its end": {func(c *crafted) {
			order.PutUint32(c.page(c.find(leafFlag)[0])[pageHeaderBytes+12:], 1<<30)
		}, "has an element of"},
		"a leaf whose element begins nowhere": {func(c *crafted) {
			order.PutUint32(c.page(c.find(leafFlag)[0])[pageHeaderBytes+4:], 1<<32-1)
		}, "has an element of"},
		"a page with more elements than it has room for": {
			func(c *crafted) { order.PutUint16(c.page(c.find(leafFlag)[0])[10:], 1<<16-1) }, "has no room for its",
		},
		"a page of no known kind": {func(c *crafted) {
			order.PutUint16(c.page(c.find(leafFlag)[0])[8:],
				0x10)
		}, "of no known kind"},
		"a branch without elements": {func(c *crafted) {
			order.PutUint16(c.page(c.find(branchFlag)[0])[10:],
				0)
		}, "leads nowhere"},
		"keys that are not in order": {func(c *crafted) {
			b := c.find(branchFlag)[0]
			first, last := pageHeaderBytes+8, pageHeaderBytes+(int(order.Uint16(c.page(b)[10:]))-1)*branchElement+8
			p := c.page(b)
			one, other := order.Uint64(p[first:]), order.Uint64(p[last:])
			order.PutUint64(p[first:], other)
			order.PutUint64(p[last:], one)
		}, "its keys are not in order"},
		"a chain of branches": {func(c *crafted) {
			leaves := c.find(leafFlag)
			for i, id := range leaves[:maxDepth+3] {
				p := c.page(id)
				order.PutUint16(p[8:], branchFlag)
				order.PutUint16(p[10:], 1)
				order.PutUint64(p[pageHeaderBytes+8:], leaves[i+1])
			}
			c.root(leaves[0])
		}, "nested more than 32 deep"},
	} {
		t.Run(name, func(t *testing.T) {
			c := craft(t, widgetHistory(20_000, 10))
			test.change(c)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Snapshot{Path: c.write(), slots: 1 << 10}.Each(t.Context(), "/",
				func([]byte, []byte) error { return nil })
			runtime.ReadMemStats(&after)
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %v that says %q", err, ErrDamaged, test.says)
			}
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 256<<20 {
				t.Errorf("%d MiB were allocated", allocated>>20)
			}
		})
	}
}

// bbolt, which etcd writes with, finds the same in what it has written.
func TestThePagesHoldWhatBboltFindsInThem(t *testing.T) {
	for name, history := range map[string]func(yield func(record) bool){
		"small":        someHistory,
		"many":         widgetHistory(20_000, 10),
		"large values": widgetHistory(300, 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			path := craft(t, history).write()
			db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			want := sha256.New()
			n := 0
			if err := db.View(func(tx *bolt.Tx) error {
				c := tx.Bucket(keyBucket).Cursor()
				for k, v := c.Last(); k != nil; k, v = c.Prev() {
					want.Write(k)
					want.Write(v)
					n++
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			layout, err := readLayout(file)
			if err != nil {
				t.Fatal(err)
			}
			got, seen := sha256.New(), 0
			r := &database{pages: &pages{file: file, pageBytes: layout.pageBytes,
				count: uint64(layout.usedBytes / layout.pageBytes)}, root: layout.root}
			if err := r.revisions(t.Context(), func(k, v []byte) error {
				got.Write(k)
				got.Write(v)
				seen++
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Sum(nil), got.Sum(nil)); diff != "" || seen != n {
				t.Errorf("%d entries, want %d (-want +got):\n%s", seen, n, diff)
			}
		})
	}
}

func TestTheContextIsObeyedBeforeTheFirstVisit(t *testing.T) {
	c := craft(t, widgetHistory(20_000, 10))
	ctx, cancel := context.WithCancel(t.Context())
	file, err := os.Open(c.write())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	layout, err := readLayout(file)
	if err != nil {
		t.Fatal(err)
	}
	r := &database{pages: &pages{file: file, pageBytes: layout.pageBytes,
		count: uint64(layout.usedBytes / layout.pageBytes)}, root: layout.root}
	seen := 0
	err = r.revisions(ctx, func([]byte, []byte) error {
		if seen++; seen == 1 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || seen > 200 {
		t.Errorf("got %v after %d revisions, want %v within a page", err, seen, context.Canceled)
	}
}
