// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/agreement/look"
)

func TestARoundShowsTheReleasesOfTheServersAsTheyAreNow(t *testing.T) {
	s := &scripted{holders: [][]string{{"a_1"}}, release: "v1.37.0", hash: "h"}
	var silent atomic.Bool
	o, err := NewObserver(serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if silent.Load() && r.URL.Path == "/version" {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		s.ServeHTTP(w, r)
	})), look.Options{})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(step string, isUnread bool, want ...string) {
		t.Helper()
		r, err := o.Round(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.Releases.All, want) || (r.Releases.Unread != "") != isUnread {
			t.Errorf("%s: the releases are %+v, want %v", step, r.Releases, want)
		}
	}
	expect("one server", false, "v1.37.0")
	silent.Store(true)
	expect("the same process is silent", false, "v1.37.0")
	s.holders = [][]string{{"a_2"}}
	expect("another process is silent", true)
	silent.Store(false)
	s.release = "v1.34.4"
	expect("a server that keeps the identity of its predecessor", false, "v1.34.4")
	silent.Store(true)
	expect("one that may have been replaced is silent", true)
	silent.Store(false)
	s.holders = [][]string{{"a_2", "b_1"}}
	expect("two servers behind one address", false, "v1.34.4")
}
