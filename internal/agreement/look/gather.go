// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/agreement/servers"
	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/waitgroup"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const (
	// askAtOnce bounds how many documents a look requests from each server at the same time.
	askAtOnce = 8
	// roundSamples is the number of connections per document of a round if Leases do not show how many servers there
	// are.
	roundSamples = 2
)

// Scope says what a look is about: resources that all have the same servers, or everything if Targets is nil.
type Scope struct{ Targets []migrate.Target }

func (s Scope) everything() bool { return s.Targets == nil }

// kubeAPIServers reports whether kube-apiservers may encode one of the resources, and aggregated whether others may.
func (s Scope) kubeAPIServers() bool {
	return s.everything() || s.Targets[0].Origin != migrate.Aggregated
}

func (s Scope) aggregated() bool { return s.everything() || !s.kubeAPIServers() }

// Look reads everything that one look needs.
//
// Readings of the Leases, and of the processes behind APIServices, enclose the look: they are read last and compared
// with the reading before the first question. If a server started or left in between, the two differ, and the look is
// void (moved). If they are equal, each process in them lived all the time, because no holderIdentity comes back. A
// server that starts after the last reading started after a moment that this look may speak for (I1). A look at some
// resources begins with the reading that ended the previous look; one at everything reads again, because that is old.
func (o *Looker) Look(ctx context.Context, of Scope) (s snapshot.Snapshot, err error) {
	defer func() {
		if err != nil || !of.everything() && s.Incomplete() {
			o.forget()
		}
		s.Ended = time.Now()
	}()
	s.Began = time.Now()
	if of.kubeAPIServers() {
		if s.Before, err = o.firstLeases(ctx, of); err != nil {
			return s, err
		}
	}
	if err := o.gatherConfiguration(ctx, of, &s); err != nil {
		return s, err
	}
	o.followAll(ctx, of, &s)
	if !of.kubeAPIServers() && len(s.StorageVersions) > 0 {
		if s.Before, err = readLeases(ctx, o.client); err != nil {
			return s, err
		}
	}
	groupVersions, err := o.groupVersions(ctx, of, &s)
	if err != nil {
		return s, err
	}
	o.askAll(ctx, of, &s, groupVersions)
	if s.NotPublishing = "no API server publishes StorageVersions"; of.kubeAPIServers() && len(s.StorageVersions) > 0 {
		s.NotPublishing = o.observed.publishing(ctx, s.Before, s.Endpoints)
	}
	if of.kubeAPIServers() {
		o.identify(&s)
	}
	if of.everything() {
		s.Releases = o.releases(ctx, s.Before, s.Endpoints)
	}
	if s.ServicesAfter = s.Services; len(s.Services) > 0 {
		if s.ServicesAfter, err = o.services(ctx, of); err != nil {
			return s, err
		}
	}
	if s.Leases = s.Before; of.kubeAPIServers() {
		if s.Leases, err = o.readLeases(ctx); err != nil {
			return s, err
		}
		s.Moved = !s.Listed.SameServers(s.Leases)
		s.Leases = s.Leases.Including(s.Absent)
	}
	s.Identify()
	return s, context.Cause(ctx)
}

// gatherConfiguration reads what shows where the servers are, and what tells them what to write.
func (o *Looker) gatherConfiguration(ctx context.Context, of Scope, s *snapshot.Snapshot) error {
	var (
		wg   waitgroup.Group
		errs [4]error
	)
	s.Failed = map[schema.GroupResource]error{}
	if of.kubeAPIServers() {
		wg.Go(func() { s.Endpoints, errs[0] = readEndpoints(ctx, o.client) })
	}
	if of.aggregated() {
		wg.Go(func() { s.Services, errs[1] = o.services(ctx, of) })
	}
	if of.everything() {
		wg.Go(func() { s.CRDs, errs[2] = o.crds.all(ctx) })
		wg.Go(func() { s.StorageVersions, errs[3] = o.declarations.all(ctx) })
	} else {
		wg.Go(func() { o.gatherNamed(ctx, of.Targets, s) })
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

// services reads what is known of the processes behind APIServices.
func (o *Looker) services(ctx context.Context, of Scope) (map[schema.GroupVersion]*snapshot.Service, error) {
	if of.everything() {
		return readServices(ctx, o.client, "")
	}
	found, err := readServices(ctx, o.client, of.Targets[0].Resource.Group)
	if statusOf(err) == http.StatusForbidden {
		return nil, nil
	}
	maps.DeleteFunc(found, func(gv schema.GroupVersion, _ *snapshot.Service) bool {
		return !slices.ContainsFunc(of.Targets, func(t migrate.Target) bool { return t.Resource.GroupVersion() == gv })
	})
	return found, err
}

// gatherNamed reads the CRDs and StorageVersions of some resources. One that cannot be read makes the look fail for its
// resource alone.
func (o *Looker) gatherNamed(ctx context.Context, targets []migrate.Target, s *snapshot.Snapshot) {
	s.CRDs, s.StorageVersions = map[schema.GroupResource]*crd.CRD{}, map[schema.GroupResource][]snapshot.StorageVersion{}
	var mu sync.Mutex
	each(targets, func(target migrate.Target) {
		var (
			custom    *crd.CRD
			published []snapshot.StorageVersion
			err       error
		)
		if target.Origin == migrate.Custom { // StorageVersions do not cover these
			custom, err = o.crds.read(ctx, target)
		} else {
			published, err = o.declarations.of(ctx, target)
		}
		mu.Lock()
		defer mu.Unlock()
		r := target.GroupResource()
		switch {
		case err != nil:
			s.Failed[r] = err
		case custom != nil:
			s.CRDs[r] = custom
		case len(published) > 0:
			s.StorageVersions[r] = published
		}
	})
}

// followAll finds out which servers of each fleet have departed and can still write.
func (o *Looker) followAll(ctx context.Context, of Scope, s *snapshot.Snapshot) {
	s.Listed = s.Before
	if of.kubeAPIServers() {
		s.Absent = o.follow(ctx, s.Before, s.Endpoints)
		s.Before, s.Endpoints = s.Before.Including(s.Absent), s.Endpoints.Including(s.Absent)
		s.Before.Alike = o.alike.of(ctx, s.Before, s.Endpoints)
	}
	s.AbsentBehind = map[schema.GroupVersion]snapshot.Absent{}
	at := map[string]snapshot.Absent{} // one service may be behind several group-versions
	for gv, one := range s.Services {
		key := one.Namespace + "/" + one.Service
		if _, known := at[key]; !known {
			at[key] = o.followService(ctx, one)
		}
		s.AbsentBehind[gv], s.Services[gv] = at[key], one.Including(at[key])
	}
}

// groupVersions returns the group-versions whose documents the look needs, sorted: those of its resources or, for
// everything, all that any server lists, any CRD serves, or any APIService registers.
func (o *Looker) groupVersions(ctx context.Context, of Scope, s *snapshot.Snapshot) ([]schema.GroupVersion, error) {
	var list []schema.GroupVersion
	for _, target := range of.Targets {
		if s.Failed[target.GroupResource()] == nil {
			list = append(list, target.Resource.GroupVersion())
		}
	}
	if of.everything() {
		served, err := o.served(ctx, s)
		if err != nil {
			return nil, err
		}
		list = served
	}
	slices.SortFunc(list, func(a, b schema.GroupVersion) int {
		return strings.Compare(a.Group+"/"+a.Version, b.Group+"/"+b.Version)
	})
	return slices.Compact(list), nil
}

func (o *Looker) served(ctx context.Context, s *snapshot.Snapshot) (list []schema.GroupVersion, err error) {
	for _, path := range []string{corePath, groupsPath} {
		surveys, err := o.ask(ctx, queryOf(s, path, nil, max(roundSamples, len(s.Before.Live))), false)
		if err != nil && !answered(surveys) {
			return nil, err
		}
		for _, one := range surveys {
			for _, r := range one.Answers {
				list = append(list, r.Document.GroupVersions()...)
			}
		}
	}
	for _, d := range s.CRDs {
		for _, v := range d.Spec.Versions {
			if v.Served {
				list = append(list, schema.GroupVersion{Group: d.Spec.Group, Version: v.Name})
			}
		}
	}
	for gv := range s.Services {
		list = append(list, gv)
	}
	return list, nil
}

func answered(surveys []snapshot.Survey) bool {
	return slices.ContainsFunc(surveys, func(s snapshot.Survey) bool { return len(s.Answers) > 0 })
}

// askAll requests the document of every group-version.
func (o *Looker) askAll(ctx context.Context, of Scope, s *snapshot.Snapshot, groupVersions []schema.GroupVersion) {
	s.Inquiries = map[schema.GroupVersion]snapshot.Inquiry{}
	var mu sync.Mutex
	each(groupVersions, func(gv schema.GroupVersion) {
		service, samples := s.Services[gv], 0
		if of.everything() {
			samples = max(roundSamples, len(s.Before.Live))
		}
		q := queryOf(s, discoveryPath(gv), service, samples)
		surveys, err := o.ask(ctx, q, service != nil || !of.kubeAPIServers())
		if errors.Is(err, migrate.ErrSilent) && !of.everything() { // others may still show whether the epoch lasts
			others, failed := o.sampled.ask(ctx, q)
			if surveys = append(surveys, others); failed != nil {
				err = failed
			}
		}
		mu.Lock()
		defer mu.Unlock()
		s.Inquiries[gv] = snapshot.Inquiry{Surveys: surveys, Err: err}
	})
}

// queryOf returns the query for a path.
func queryOf(s *snapshot.Snapshot, path string, behind *snapshot.Service, samples int) query {
	return query{path: path, leases: s.Before, endpoints: s.Endpoints, service: behind, samples: samples}
}

// each calls f for every element, for some of them at the same time.
func each[T any](list []T, f func(T)) {
	var wg waitgroup.Group
	next := make(chan T)
	for range min(askAtOnce, len(list)) {
		wg.Go(func() {
			for one := range next {
				f(one)
			}
		})
	}
	for _, one := range list {
		next <- one
	}
	close(next)
	wg.Wait()
}

// ask asks the sources, strongest first, until one of them knows all servers.
func (o *Looker) ask(ctx context.Context, q query, isAggregated bool) ([]snapshot.Survey, error) {
	sources := []source{o.observed, o.lines, o.sampled}
	if isAggregated {
		sources = []source{o.aggregated, o.sampled}
	}
	var surveys []snapshot.Survey
	for _, s := range sources {
		one, err := s.ask(ctx, q)
		surveys = append(surveys, one)
		if err != nil || one.Evidence >= migrate.Observed {
			return surveys, err
		}
	}
	return surveys, nil
}

// firstLeases returns the reading of the Leases that a look begins with.
func (o *Looker) firstLeases(ctx context.Context, of Scope) (snapshot.Leases, error) {
	o.mu.Lock()
	last := o.last
	o.mu.Unlock()
	if last != nil && !of.everything() {
		return *last, nil
	}
	return o.readLeases(ctx)
}

// identify finds out when the processes started. Only a look that has asked every API server knows all of them. What it
// found is assumed for a while by looks that could not; see Snapshot.Assumed.
func (o *Looker) identify(s *snapshot.Snapshot) {
	whole, shared := s.Whole()
	switch {
	case shared:
		s.Started = o.lines.starts()
	case whole:
		s.Started = o.observed.startsAt(s.Before, s.Endpoints)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	known := &o.identified
	if known.missed.IsZero() {
		known.missed = time.Now()
	}
	if !whole && slices.Equal(known.holders, s.Listed.Holders()) && time.Since(known.missed) < servers.MissedFor {
		s.Started, s.Assumed = known.started, true
		return
	}
	*known = identified{holders: s.Listed.Holders(), started: s.Started}
}

// identified is what the last look that asked every API server found out about when they started.
type identified struct {
	holders []string // of their Leases
	started map[string]time.Time
	missed  time.Time // when the first look after it could not ask every API server; zero: none
}

// forget makes the next look read the Leases first: the look may have failed because the remembered ones were out of
// date.
func (o *Looker) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = nil
}

func (o *Looker) readLeases(ctx context.Context) (snapshot.Leases, error) {
	l, err := readLeases(ctx, o.client)
	if err != nil {
		return l, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = &l
	return l, nil
}
