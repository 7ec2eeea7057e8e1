// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/ledger"
)

// looking is a trigger whose looks take half a second and find nothing.
type looking struct {
	*trigger
	looks []time.Time
	t     *testing.T
}

func newLooking(t *testing.T) *looking {
	t.Helper()
	l := &looking{trigger: newRolling().trigger, t: t}
	l.moved, l.changed = make(chan struct{}, 1), make(chan struct{}, 1)
	l.journal = newJournal(func() { poke(l.moved) })
	l.observer.journal = l.journal
	var err error
	if l.metrics, err = newMetrics(prometheus.NewRegistry()); err != nil {
		t.Fatal(err)
	}
	return l
}

// run looks until the test ends.
func (l *looking) run(then func()) {
	ctx, stop := context.WithCancel(l.t.Context())
	done := make(chan error)
	go func() {
		done <- l.repeat(ctx, func(context.Context) (bool, error) {
			l.looks = append(l.looks, time.Now())
			time.Sleep(500 * time.Millisecond)
			if then != nil {
				then()
			}
			return true, nil
		})
	}()
	time.Sleep(time.Hour)
	stop()
	if err := <-done; err != nil {
		l.t.Error(err)
	}
}

// Two controllers that fight over a CRD must not have every API server asked for everything again and again (I7).
func TestACRDThatChangesAllTheTimeCausesLooksForATwentiethOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooking(t)
		var first, came time.Time
		go func() {
			time.Sleep(time.Minute)
			first = time.Now()
			for generation := range int64(1700) {
				l.journal.defines("widgets.demo.example.com", specState{types.UID("u"), generation})
				time.Sleep(2 * time.Second)
				if generation == 1500 { // long after the burst is spent
					came = time.Now()
					l.journal.holds("api-2", tenure{holder: "p2", renewed: came}, 1)
				}
			}
		}()
		l.run(nil)
		if most := int((lookBurst + time.Hour/lookShare) / (500 * time.Millisecond)); len(l.looks) > most+10 {
			t.Errorf("%d looks in an hour, at most %d are expected", len(l.looks), most)
		}
		for name, at := range map[string]time.Time{"the first change of a CRD": first, "a new API server": came} {
			soonest := time.Hour
			for _, look := range l.looks {
				if after := look.Sub(at); after >= 0 {
					soonest = min(soonest, after)
				}
			}
			if soonest > 1500*time.Millisecond {
				t.Errorf("%s: the next look begins %s later", name, soonest)
			}
		}
	})
}

func TestALookIsPutOffByAMinuteAtMost(t *testing.T) {
	var b budget
	now := time.Now()
	b.spend(now, lookBurst)
	if b.from().After(now) {
		t.Errorf("within the burst a look is put off by %s", b.from().Sub(now))
	}
	b.spend(now, time.Minute) // busy API servers
	if off := b.from().Sub(now); off != longestPutOff {
		t.Errorf("after long looks the next one is put off by %s, want %s", off, longestPutOff)
	}
}

// API servers that restart cause looks, too. These leave CRDs their share.
func TestLooksThatServersAskForDoNotPutOffThoseOfCRDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooking(t)
		var changed time.Time
		go func() {
			for n := range 200 {
				time.Sleep(2 * time.Second)
				l.journal.holds("api-2", tenure{holder: fmt.Sprint("p", n), renewed: time.Now()}, uint64(n+1))
			}
			time.Sleep(5 * time.Second)
			changed = time.Now()
			l.journal.defines("widgets.demo.example.com", specState{types.UID("u"), 1})
		}()
		l.run(nil)
		if !slices.ContainsFunc(l.looks, func(look time.Time) bool {
			after := look.Sub(changed)
			return after >= 0 && after < 2*time.Second
		}) {
			t.Error("a CRD that has changed once is not looked at")
		}
	})
}

func TestAMissingPermissionIsAskedForWithoutALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooking(t)
		begun, allowed := time.Now(), 0
		var asked []string
		a := &answers{answer: func(r *http.Request) (int, string) {
			asked = append(asked, r.URL.Path)
			if time.Since(begun) < 35*time.Minute {
				return http.StatusCreated, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":false}}`
			}
			allowed++
			return http.StatusCreated, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`
		}}
		permits, err := newPermits(a.client(t), access.Account{}, prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		l.permits = permits
		l.run(func() {
			l.permits.missing = nil
			if allowed == 0 {
				l.permits.missing = []schema.GroupResource{{Resource: "pods"}, {Resource: "secrets"}}
			}
		})
		granted := 0
		for _, look := range l.looks {
			if after := look.Sub(begun); after >= 35*time.Minute && after <= 37*time.Minute {
				granted++
			}
		}
		// a look in each of the six periods, and one once the permission is granted
		if len(l.looks) > 8 || granted != 1 || len(asked) > 2*40 || len(asked) < 30 {
			t.Errorf("%d looks, %d of them after the grant, and %d requests", len(l.looks), granted, len(asked))
		}
	})
}

// An installation with --include has no permission for what it excludes.
func TestAnExcludedCollectionThatIsForbiddenIsNotAskedForAgain(t *testing.T) {
	a := &answers{answer: func(*http.Request) (int, string) {
		return http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`
	}}
	c := comparer{rest: a.client(t), collections: map[string]collection{
		"pods":    {path: "/api/v1/pods", small: "/api/v1/namespaces/n/pods", excluded: true},
		"secrets": {path: "/api/v1/secrets", small: "/api/v1/namespaces/n/secrets"},
	}}
	for range 3 {
		if found, err := c.read(t.Context(), []string{"pods"}, 1); err != nil || found["pods"] != (ledger.Collection{}) {
			t.Errorf("excluded: %v, %v", found, err)
		}
		if _, err := c.read(t.Context(), []string{"secrets"}, 1); err == nil {
			t.Error("that an included collection cannot be compared is not told")
		}
	}
	if len(a.asked) != 2+4 { // everything once, then a part: once, and each time
		t.Errorf("requests: %q", a.asked)
	}
}
