// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/agreement/look"
	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/compare"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// gated are looks that end when the test lets them.
type gated struct {
	begun chan []string // the resources of each look that has begun
	end   chan struct{}
}

func (g *gated) gather(ctx context.Context, of look.Scope) (snapshot.Snapshot, error) {
	var names []string
	for _, target := range of.Targets {
		names = append(names, target.Resource.Resource)
	}
	g.begun <- names
	select {
	case <-g.end:
		return snapshot.Snapshot{}, nil
	case <-ctx.Done():
		return snapshot.Snapshot{}, ctx.Err()
	}
}

func resourceOf(plural string) migrate.Target {
	return migrate.Target{Resource: schema.GroupVersionResource{Group: "x", Version: "v1", Resource: plural}}
}

func TestALookThatBeginsLaterServesAllWhoWaitForIt(t *testing.T) {
	g := &gated{make(chan []string), make(chan struct{})}
	var j joined
	first := j.add(t.Context(), resourceOf("a"), g.gather)
	if diff := compare.Diff([]string{"a"}, <-g.begun); diff != "" {
		t.Errorf("the first look (-want +got):\n%s", diff)
	}
	var later []*shared
	for _, plural := range []string{"b", "a", "c", "b"} { // the running look began before they asked
		later = append(later, j.add(t.Context(), resourceOf(plural), g.gather))
	}
	g.end <- struct{}{}
	<-first.done
	if diff := compare.Diff([]string{"b", "a", "c"}, <-g.begun); diff != "" {
		t.Errorf("the second look (-want +got):\n%s", diff)
	}
	for i, s := range later {
		if s == first || s != later[0] {
			t.Errorf("%d: not the second look", i)
		}
	}
	g.end <- struct{}{}
	<-later[0].done
	last := j.add(t.Context(), resourceOf("d"), g.gather) // nothing runs any more
	if diff := compare.Diff([]string{"d"}, <-g.begun); diff != "" {
		t.Errorf("the third look (-want +got):\n%s", diff)
	}
	g.end <- struct{}{}
	<-last.done
}

func TestALookIsCancelledOnceNoOneWaitsForIt(t *testing.T) {
	g := &gated{make(chan []string, 2), make(chan struct{})}
	var j joined
	impatient, leave := context.WithCancel(t.Context())
	running := j.add(impatient, resourceOf("a"), g.gather)
	next := j.add(impatient, resourceOf("b"), g.gather)
	if j.add(t.Context(), resourceOf("b"), g.gather) != next {
		t.Fatal("two looks wait")
	}
	leave() // the context of one who waits does not end a look for the others
	j.leave(running)
	j.leave(next)
	<-running.done
	if running.err == nil {
		t.Error("a look that no one waits for goes on")
	}
	g.end <- struct{}{}
	<-next.done
	if next.err != nil {
		t.Errorf("the look of the other one: %v", next.err)
	}
}

func TestALookThatWasGivenUpBeforeItBeganIsNotSharedWithLaterCallers(t *testing.T) {
	g := &gated{make(chan []string, 2), make(chan struct{})}
	var j joined
	running := j.add(t.Context(), resourceOf("a"), g.gather)
	givenUp := j.add(t.Context(), resourceOf("b"), g.gather)
	j.leave(givenUp)
	later := j.add(t.Context(), resourceOf("c"), g.gather)
	g.end <- struct{}{}
	<-running.done
	select {
	case g.end <- struct{}{}:
	case <-later.done: // at once, because it was cancelled
	}
	<-later.done
	if later.err != nil {
		t.Errorf("a caller whose own context lives gets: %v", later.err)
	}
}

func TestAResourceThatCannotBeReadLeavesTheOthersTheirLook(t *testing.T) {
	server := &scripted{holders: [][]string{{"a_1"}}, release: "v1.37.0", hash: "h"}
	o, err := NewObserver(serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "customresourcedefinitions") {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind": "Status", "code": 404, "details": {"name": "x"}}`)
			return
		}
		server.ServeHTTP(w, r)
	})), look.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := o.looker.Look(t.Context(), look.Scope{Targets: []migrate.Target{deviceClasses, widgets}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Unread(widgets); err == nil || !strings.Contains(err.Error(), "no CustomResourceDefinition") {
		t.Errorf("the resource without a CRD: %v", err)
	}
	v, err := combine(findingsOf(&s, deviceClasses, deviceClasses.Resource.Version))
	if err != nil || v.epoch.Hash != "h" || s.Unread(deviceClasses) != nil {
		t.Errorf("the other resource: %+v, %v, %v", v.epoch, err, s.Unread(deviceClasses))
	}
}

func TestResourcesThatLookAtTheSameTimeShareOneLook(t *testing.T) {
	server := &scripted{holders: [][]string{{"a_1"}}, release: "v1.37.0", hash: "h"}
	o, err := NewObserver(serve(t, server), look.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var j joined
	hold := make(chan struct{})
	first := j.add(t.Context(), deviceClasses, func(ctx context.Context, of look.Scope) (snapshot.Snapshot, error) {
		<-hold
		return o.looker.Look(ctx, of)
	})
	var second *shared
	for i := range 100 {
		target := deviceClasses
		target.Kind = fmt.Sprint("Kind", i)
		second = j.add(t.Context(), target, o.looker.Look)
	}
	close(hold)
	<-first.done
	<-second.done
	if err := errors.Join(first.err, second.err); err != nil {
		t.Fatal(err)
	}
	if server.read != 3 || server.documents.Load() != 2 { // the second look begins with the last reading of the first
		t.Errorf("the Leases were read %d times and %d documents, want 3 and 2", server.read, server.documents.Load())
	}
}
