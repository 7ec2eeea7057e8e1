// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Every key is visited once and in order, whatever the keys are called. What etcd counts for names as objects have them
// grows with the number of keys and not with its square.
func TestEveryKeyOfASpanIsVisitedOnceAndFewKeysAreCounted(t *testing.T) {
	t.Parallel()
	const many = 200_000
	random := rand.New(rand.NewPCG(1, 2))
	odd := []string{"bytes that no name has", "one name begins another"}
	for name, key := range map[string]func(i int) string{
		"numbered":         func(i int) string { return fmt.Sprintf("/registry/configmaps/default/cm-%07d", i) },
		"numbered, uneven": func(i int) string { return fmt.Sprintf("/registry/configmaps/default/cm-%d", i) },
		"random": func(int) string {
			return fmt.Sprintf("/registry/pods/default/pod-%016x", random.Uint64())
		},
		"many namespaces": func(i int) string { return fmt.Sprintf("/registry/secrets/ns-%d/token", i) },
		"long names": func(i int) string {
			return "/registry/leases/" + strings.Repeat("a-long-name-", 12) + fmt.Sprintf("%d/%d", i%7, i)
		},
		"bytes that no name has": func(i int) string {
			return "/registry/" + strings.Repeat("\xff", i%5) + string([]byte{byte(i), byte(i >> 8), byte(i >> 16)})
		},
		"one name begins another": func(i int) string { return "/registry/x/" + strings.Repeat("a", i%300) + fmt.Sprint(i/300) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys := []string{"/registry/a", "/registry/zz"}
			for i := range many {
				keys = append(keys, key(i))
			}
			slices.Sort(keys)
			keys = slices.Compact(keys)
			counted, requests := visitAll(t, "/registry/", keys)
			if most := 40 * len(keys); counted > most && !slices.Contains(odd, name) {
				t.Errorf("etcd counts %d keys for %d, want at most %d", counted, len(keys), most)
			}
			if most := len(keys) / 100; requests > most {
				t.Errorf("%d requests for %d keys, want at most %d", requests, len(keys), most)
			}
		})
	}
}

// All keys of an etcd have no end.
func TestASpanWithoutAnEnd(t *testing.T) {
	t.Parallel()
	var keys []string
	for i := range 100_000 {
		keys = append(keys, fmt.Sprintf("%c/%06d", []rune{'\x00', '/', '~'}[i%3], i))
	}
	keys = append(keys, "\xff\xff\xff")
	slices.Sort(keys)
	visitAll(t, "", keys)
}

// visitAll reads a span from keys as etcd answers requests, and returns how many keys etcd has to count.
func visitAll(t *testing.T, prefix string, keys []string) (counted, requests int) {
	t.Helper()
	s := newSpan(prefix)
	s.limit = maxPageKeys
	var visited []string
	for more := true; more; {
		from, _ := slices.BinarySearch(keys, s.from)
		to := len(keys)
		if s.until != everything {
			to, _ = slices.BinarySearch(keys, s.until)
		}
		page := keys[from:min(to, from+int(s.limit))]
		visited = append(visited, page...)
		counted, requests = counted+to-from, requests+1
		var first, last string
		if len(page) > 0 {
			first, last = page[0], page[len(page)-1]
		}
		if more = s.advance(first, last, int64(to-from), to-from > len(page)); requests > 2*len(keys) {
			t.Fatal("the span does not end")
		}
	}
	if !slices.Equal(visited, keys) {
		t.Errorf("%d keys are visited, want all %d in order", len(visited), len(keys))
	}
	return counted, requests
}
