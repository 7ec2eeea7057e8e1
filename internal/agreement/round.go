// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/waitgroup"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const (
	// roundConcurrency bounds how many documents a round requests from each server at the same time.
	roundConcurrency = 8
	// roundSamples is the number of connections per document if Leases do not show how many servers there are.
	roundSamples = 2
)

// Round is one look at every resource. It is a value that is not changed later.
type Round struct {
	// Started and Ended enclose the round, by this machine's clock: everything in it was true at some moment in
	// between.
	Started, Ended time.Time
	// Moved means that kube-apiservers came or went during the round. The views show what the round saw, but those of
	// kube-apiservers' resources have no epoch: look again.
	Moved bool
	// Processes are the holderIdentities of the kube-apiservers that were live at the end, sorted; nil if they are
	// unknown.
	Processes []string
	// Leaving means that API servers which are no longer listed still answer, or may still be serving. Look again soon
	// to find out when they are gone.
	Leaving bool
	// Releases are the releases of the kube-apiservers that can write, such as "v1.37.0".
	Releases Releases
	// Views are sorted by group and then by plural name. A resource without a view is not stored, does not exist, or
	// belongs to a group-version in Unread.
	Views []View
	// Unread are group-versions that could not be read from every server: their resources may exist without a view.
	Unread []Unread
}

// Unread is a group-version that could not be read from every server.
type Unread struct {
	GroupVersion schema.GroupVersion
	Reason       string
}

// Round looks once at every resource: it requests each group-version's discovery document once from each server, and
// sends a few more requests. An error means that the round found out nothing; problems that concern only a part of the
// answer are in the views and in Unread.
//
// It needs permission to list CustomResourceDefinitions and APIServices. The evidence is weaker if permission is
// missing to list the Leases in kube-system, the EndpointSlices in default and in the namespaces of APIServices'
// services, or the StorageVersions of both APIs. Epochs of aggregated resources can be compared between accounts only
// if the accounts have the same permissions.
func (o *Observer) Round(ctx context.Context) (*Round, error) {
	begun := time.Now()
	f, err := o.gatherAll(ctx)
	if err != nil {
		o.forget()
		return nil, fmt.Errorf("determine the storage versions of all resources: %w", err)
	}
	r := &Round{Started: begun, Ended: time.Now(), Moved: f.moved, Processes: f.leases.holders(), Leaving: f.leaving(),
		Releases: f.releases}
	r.Views = o.views(f.all(), r.Ended)
	for gv, i := range f.inquiries {
		if i.err != nil {
			r.Unread = append(r.Unread, Unread{GroupVersion: gv, Reason: i.err.Error()})
		}
	}
	slices.SortFunc(r.Unread, func(a, b Unread) int {
		return strings.Compare(a.GroupVersion.String(), b.GroupVersion.String())
	})
	return r, nil
}

// facts are everything that one round gathered.
type facts struct {
	before, leases leases
	moved          bool
	endpoints      endpoints
	crds           map[schema.GroupResource]*crd.CRD
	services       map[schema.GroupVersion]*service // as before the first question
	servicesAfter  map[schema.GroupVersion]*service
	declarations   map[schema.GroupResource][]declaration
	notPublishing  string
	releases       Releases
	inquiries      map[schema.GroupVersion]inquiry
	// absent are the departed kube-apiservers that can still write, absentBehind the departed processes behind
	// services.
	absent       absent
	absentBehind map[schema.GroupVersion]absent
}

// leaving reports whether any server that has departed can still write.
func (f *facts) leaving() bool {
	leaving := f.absent.any()
	for _, a := range f.absentBehind {
		leaving = leaving || a.any()
	}
	return leaving
}

// inquiry contains the surveys of one group-version's documents. If err is set, they are not sufficient.
type inquiry struct {
	surveys []survey
	err     error
}

// gatherAll reads everything that a round needs. Readings of the Leases, and of the processes behind APIServices,
// enclose it, as in gather. They are read again before the first request, because those from the end of the round
// before are old.
func (o *Observer) gatherAll(ctx context.Context) (f facts, err error) {
	listed, err := o.readLeases(ctx)
	if err != nil {
		return f, err
	}
	f.before = listed
	var (
		wg   waitgroup.Group
		errs [4]error
	)
	wg.Go(func() { f.endpoints, errs[0] = readEndpoints(ctx, o.client) })
	wg.Go(func() { f.crds, errs[1] = o.crds.all(ctx) })
	wg.Go(func() { f.services, errs[2] = readServices(ctx, o.client, "") })
	wg.Go(func() { f.declarations, errs[3] = o.declarations.all(ctx) })
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return f, err
	}
	o.followAll(ctx, &f)
	groupVersions, err := o.groupVersions(ctx, f)
	if err != nil {
		return f, err
	}
	o.askAll(ctx, &f, groupVersions)
	if f.notPublishing = "no API server publishes StorageVersions"; len(f.declarations) > 0 {
		f.notPublishing = o.observed.publishing(ctx, f.before, f.endpoints)
	}
	f.releases = o.releases(ctx, f.before, f.endpoints)
	if f.servicesAfter = f.services; len(f.services) > 0 {
		if f.servicesAfter, err = readServices(ctx, o.client, ""); err != nil {
			return f, err
		}
	}
	if f.leases, err = o.readLeases(ctx); err != nil {
		return f, err
	}
	f.moved = !listed.sameServers(f.leases)
	f.leases = f.leases.with(f.absent)
	return f, ctx.Err()
}

// followAll finds out which servers have of each fleet have departed and can still write.
func (o *Observer) followAll(ctx context.Context, f *facts) {
	f.absent = o.follow(ctx, f.before, f.endpoints)
	f.before, f.endpoints = f.before.with(f.absent), f.endpoints.with(f.absent)
	f.before.alike = o.alike.of(ctx, f.before, f.endpoints)
	f.absentBehind = map[schema.GroupVersion]absent{}
	at := map[string]absent{} // one service may be behind several group-versions
	for gv, s := range f.services {
		key := s.namespace + "/" + s.service
		if _, known := at[key]; !known {
			at[key] = o.followService(ctx, s)
		}
		f.absentBehind[gv], f.services[gv] = at[key], s.with(at[key])
	}
}

// query returns the query for a path in a round.
func (f *facts) query(path string, s *service) query {
	return query{
		path: path, leases: f.before, endpoints: f.endpoints, service: s,
		samples: max(roundSamples, len(f.before.live)),
	}
}

// groupVersions returns all group-versions that any server lists, any CRD serves, or any APIService registers, sorted.
func (o *Observer) groupVersions(ctx context.Context, f facts) ([]schema.GroupVersion, error) {
	var list []schema.GroupVersion
	for _, path := range []string{corePath, groupsPath} {
		surveys, err := o.ask(ctx, f.query(path, nil), false)
		if err != nil && !answered(surveys) {
			return nil, err
		}
		for _, s := range surveys {
			for _, r := range s.readings {
				list = append(list, r.document.groupVersions()...)
			}
		}
	}
	for _, d := range f.crds {
		for _, v := range d.Spec.Versions {
			if v.Served {
				list = append(list, schema.GroupVersion{Group: d.Spec.Group, Version: v.Name})
			}
		}
	}
	for gv := range f.services {
		list = append(list, gv)
	}
	slices.SortFunc(list, func(a, b schema.GroupVersion) int {
		return strings.Compare(a.Group+"/"+a.Version, b.Group+"/"+b.Version)
	})
	return slices.Compact(list), nil
}

func answered(surveys []survey) bool {
	return slices.ContainsFunc(surveys, func(s survey) bool { return len(s.readings) > 0 })
}

// askAll requests the document of every group-version.
func (o *Observer) askAll(ctx context.Context, f *facts, groupVersions []schema.GroupVersion) {
	f.inquiries = map[schema.GroupVersion]inquiry{}
	var (
		mu   sync.Mutex
		wg   waitgroup.Group
		next = make(chan schema.GroupVersion)
	)
	for range roundConcurrency {
		wg.Go(func() {
			for gv := range next {
				s := f.services[gv]
				surveys, err := o.ask(ctx, f.query(discoveryPath(gv), s), s != nil)
				mu.Lock()
				f.inquiries[gv] = inquiry{surveys, err}
				mu.Unlock()
			}
		})
	}
	for _, gv := range groupVersions {
		next <- gv
	}
	close(next)
	wg.Wait()
}

// views judges all resources, and adds what earlier rounds saw of them.
func (o *Observer) views(all []findings, now time.Time) []View {
	o.mu.Lock()
	defer o.mu.Unlock()
	// The servers are the same for all resources: one resource that each of them was asked about proves that they
	// stayed the same.
	for _, f := range all {
		if f.target.Origin != migrate.Aggregated && restartsSeen(f.reports) && !f.moved {
			o.sighting = o.sighting.next(f, stampsOf(f), now)
			break
		}
	}
	views, memories := make([]View, 0, len(all)), make(map[schema.GroupResource]memory, len(all))
	for _, f := range all {
		v := f.view()
		known, remembered := o.memories[v.Resource]
		switch {
		case v.Epoch != nil:
			stamps := stampsOf(f)
			if restartsSeen(f.reports) {
				stamps.since = o.sighting.since
			}
			m := known.next(*v.Epoch, stamps, f.leases.clocks(), now)
			memories[v.Resource], v.Epoch.Since = m, latest(m.since, f.absent.since)
		case v.Disagree:
			memories[v.Resource] = known.disagreed(now)
		case remembered: // nothing was found out, which changes nothing
			memories[v.Resource] = known
		}
		views = append(views, v)
	}
	o.memories = memories
	return views
}
