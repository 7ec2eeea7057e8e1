// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The reference is a map of all keys, which is what newest must do without. Tables of a few slots make it need many
// parts.
func TestNewestSaysWhatAMapOfAllKeysWouldSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) record {
			return record{
				key:     []byte(fmt.Sprint(rapid.IntRange(0, 40).Draw(t, "key"))),
				value:   []byte(rapid.StringN(0, 3, -1).Draw(t, "value")),
				deleted: rapid.IntRange(0, 3).Draw(t, "deleted") == 0,
			}
		}), rapid.SampledFrom([]int{0, 90}).Draw(t, "least"), 400).Draw(t, "history")
		slots := rapid.SampledFrom([]int{32, 64, 1024}).Draw(t, "slots")

		want := map[string]string{}
		for _, r := range history {
			if r.deleted {
				delete(want, string(r.key))
			} else {
				want[string(r.key)] = string(r.value)
			}
		}
		got, visits := map[string]string{}, 0
		err := newest(len(history), slots, backwards(history), func(key, value []byte) error {
			got[string(key)] = string(value)
			visits++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" || visits != len(want) {
			t.Fatalf("%d visits for %d keys (-want +got):\n%s", visits, len(want), diff)
		}
	})
}

func backwards(history []record) descend {
	return func(visit func(record) error) error {
		for _, h := range slices.Backward(history) {
			if err := visit(h); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestNewestWalksOnceWhenTheTableHoldsAllAndOncePerPartOtherwise(t *testing.T) {
	for revisions, want := range map[int]int{0: 1, 640: 1, 641: 2, 6400: 10} {
		walks := 0
		err := newest(revisions, 1024, func(func(record) error) error { walks++; return nil }, nil)
		if err != nil || walks != want {
			t.Errorf("%d revisions: %d walks and %v, want %d", revisions, walks, err, want)
		}
	}
}

func TestNewestFailsRatherThanMiscountWhenTheTableIsFull(t *testing.T) {
	var history []record
	for i := range 100 {
		history = append(history, record{key: []byte(fmt.Sprint(i))})
	}
	err := newest(1, 16, backwards(history), func([]byte, []byte) error { return nil })
	if !errors.Is(err, errTableFull) {
		t.Errorf("got %v, want %v", err, errTableFull)
	}
}

func TestNewestReturnsTheErrorOfAVisit(t *testing.T) {
	stop := errors.New("stop")
	err := newest(1, 16, backwards([]record{{key: []byte("a")}}), func([]byte, []byte) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("got %v, want %v", err, stop)
	}
}
