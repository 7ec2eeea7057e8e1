// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
)

// Agreement is what the API servers write, now and before.
type Agreement struct {
	Servers []Server
	// Changes are sorted, the oldest first.
	Changes []Change
	// Now is how many resources are in which state.
	Now map[State]int
}

// Server is an API server that can write.
type Server struct {
	ID, Process string
	// Silent are how many resources it has not answered for, Others how many it writes in another version than the one
	// that discovery shows, and Resources how many records name it.
	Silent, Others, Resources int
}

// State is whether the API servers encode a resource in one version. The set is closed.
type State string

// The states.
const (
	Agree    State = "agree"
	Disagree State = "disagree"
	Unknown  State = "unknown" // no record says it, or the evidence is too weak for the installation
)

// states are all of them, in the order in which they are drawn.
var states = []State{Agree, Unknown, Disagree}

// Change is the moment from which a resource was in a state.
type Change struct {
	Time     time.Time
	Resource string
	State    State
	Why      string
}

// most bounds the changes that are remembered.
const most = 4000

// agreementOf reads the agreement of the API servers from the StorageStates, and adds the changes that were seen
// earlier. It returns nil if there is no StorageState.
func agreementOf(p render.Progress, earlier []Change) *Agreement {
	a := &Agreement{Now: map[State]int{}, Changes: slices.Clone(earlier)}
	servers := map[string]*Server{}
	for _, r := range p.Resources {
		if r.Recorded == nil {
			continue
		}
		change := changeOf(r)
		a.Now[change.State]++
		if !change.Time.IsZero() && !slices.ContainsFunc(a.Changes, change.repeats) {
			a.Changes = append(a.Changes, change)
		}
		for _, s := range r.Recorded.ServerStorageVersions {
			count(servers, s, r.PresentStorageVersionHash)
		}
	}
	if len(a.Now) == 0 {
		return nil
	}
	slices.SortStableFunc(a.Changes, func(a, b Change) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Resource, b.Resource))
	})
	a.Changes = a.Changes[max(0, len(a.Changes)-most):]
	for _, s := range servers {
		a.Servers = append(a.Servers, *s)
	}
	slices.SortFunc(a.Servers, func(a, b Server) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Process, b.Process))
	})
	return a
}

func (c Change) repeats(other Change) bool {
	return c.Resource == other.Resource && c.State == other.State && c.Time.Equal(other.Time)
}

// changeOf returns the state of a resource, and since when it is in it.
func changeOf(r render.ProgressResource) Change {
	c := Change{Resource: r.Resource, State: Unknown}
	s := r.Recorded
	at := slices.IndexFunc(s.Conditions, func(c v1alpha1.Condition) bool {
		return c.Type == v1alpha1.ConditionAllEncodingVersionsEqual
	})
	if at < 0 {
		return c
	}
	equal := s.Conditions[at]
	c.Time, c.Why = equal.LastTransitionTime.UTC(), equal.Message
	switch {
	case equal.Status == metav1.ConditionTrue:
		c.State, c.Why = Agree, cmp.Or(s.AgreedEncodingVersion, r.PresentStorageVersion)
		if s.Evidence != "" {
			c.Why += ", " + strings.ToLower(s.Evidence)
		}
		if s.Epoch != nil && !s.Epoch.Since.IsZero() {
			c.Time = s.Epoch.Since.UTC()
		}
	case equal.Reason == v1alpha1.ReasonDisagreement, equal.Reason == v1alpha1.ReasonUnresolved:
		c.State = Disagree
	}
	if equal.LastTransitionTime.IsZero() && c.Time.Equal(equal.LastTransitionTime.UTC()) {
		c.Time = time.Time{}
	}
	return c
}

// count counts what one record says about a server.
func count(servers map[string]*Server, s v1alpha1.ServerEncodingVersion, now string) {
	key := s.APIServerID + "\n" + s.HolderIdentity
	if servers[key] == nil {
		servers[key] = &Server{ID: s.APIServerID, Process: s.HolderIdentity}
	}
	known := servers[key]
	known.Resources++
	switch {
	case s.EncodingVersionHash == "":
		known.Silent++
	case now != "" && s.EncodingVersionHash != now:
		known.Others++
	}
}

// event is one or more changes of the same kind at the same time.
type event struct {
	Change
	resources []string
}

// events groups changes, the newest first.
func (a *Agreement) events() (all []event) {
	for _, c := range slices.Backward(a.Changes) {
		second := c.Time.Truncate(time.Second)
		at := slices.IndexFunc(all, func(e event) bool {
			return e.Time.Equal(second) && e.State == c.State && (e.Why == c.Why || c.State == Agree)
		})
		if at < 0 {
			at, all = len(all), append(all, event{Change: c})
			all[at].Time = second
		}
		if all[at].Why != c.Why {
			all[at].Why = ""
		}
		all[at].resources = append(all[at].resources, c.Resource)
	}
	for _, e := range all {
		slices.Sort(e.resources)
	}
	return all
}

// sentence says an event to people.
func (e event) sentence() string {
	says := map[State]string{
		Agree: "The API servers began to agree about ", Disagree: "The API servers began to disagree about ",
		Unknown: "It became unknown whether the API servers agree about ",
	}[e.State] + few(e.resources)
	if e.Why != "" {
		says += ": " + strings.TrimSuffix(e.Why, ".")
	}
	return says + "."
}

// few names at most three.
func few(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %s more", strings.Join(names[:most], ", "), render.Count(int64(len(names)-most)))
}

// windows are how much time a timeline shows.
var windows = []time.Duration{15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}

// window returns the shortest one that shows the changes of the last day, or else the newest one.
func (a *Agreement) window(now time.Time) time.Duration {
	oldest := now
	for _, c := range slices.Backward(a.Changes) {
		if oldest.Equal(now) || now.Sub(c.Time) < 24*time.Hour {
			oldest = c.Time
		}
	}
	for _, window := range windows {
		if now.Sub(oldest) < window*9/10 {
			return window
		}
	}
	return windows[len(windows)-1]
}

// span is a piece of a timeline: how many resources are in which state from begin to end, which are shares of the
// window.
type span struct {
	begin, end float64
	counts     map[State]int
}

// steps is how many pieces a timeline has at most.
const steps = 240

// spans returns the pieces of a timeline that ends now. A resource counts as Unknown before its first change.
func (a *Agreement) spans(now time.Time, window time.Duration) (all []span) {
	state, counts := map[string]State{}, map[State]int{}
	for _, c := range a.Changes {
		if _, known := state[c.Resource]; !known {
			state[c.Resource] = Unknown
			counts[Unknown]++
		}
	}
	begin := now.Add(-window)
	next := 0
	for i := range steps {
		until := begin.Add(window * time.Duration(i+1) / steps)
		for ; next < len(a.Changes) && !a.Changes[next].Time.After(until); next++ {
			c := a.Changes[next]
			counts[state[c.Resource]]--
			state[c.Resource] = c.State
			counts[c.State]++
		}
		at := float64(i) / steps
		if last := len(all) - 1; last >= 0 && same(all[last].counts, counts) {
			all[last].end = float64(i+1) / steps
			continue
		}
		piece := span{begin: at, end: float64(i+1) / steps, counts: map[State]int{}}
		for _, s := range states {
			piece.counts[s] = counts[s]
		}
		all = append(all, piece)
	}
	return all
}

func same(a, b map[State]int) bool {
	return !slices.ContainsFunc(states, func(s State) bool { return a[s] != b[s] })
}
