// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/migrate"
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
	f, err := o.looker.Look(ctx, scope{})
	if err != nil {
		return nil, fmt.Errorf("determine the storage versions of all resources: %w", err)
	}
	r := &Round{Started: f.began, Ended: f.ended, Moved: f.moved, Processes: f.leases.holders(), Leaving: f.leaving(),
		Releases: f.releases}
	r.Views = o.views(allOf(&f), r.Ended)
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

// views judges all resources, and adds what earlier rounds saw of them.
func (o *Observer) views(all []findings, now time.Time) []View {
	o.mu.Lock()
	defer o.mu.Unlock()
	// The servers are the same for all resources: one resource that each of them was asked about proves that they
	// stayed the same.
	for _, f := range all {
		if f.target.Origin != migrate.Aggregated && restartsSeen(f.reports) && !f.moved {
			o.sighting = o.sighting.next(f.seen(), stampsOf(f.seen()), now)
			break
		}
	}
	views, memories := make([]View, 0, len(all)), make(map[schema.GroupResource]memory, len(all))
	for _, f := range all {
		v := f.view()
		known, remembered := o.memories[v.Resource]
		switch {
		case v.Epoch != nil:
			stamps := stampsOf(f.seen())
			if restartsSeen(f.reports) {
				stamps.since = o.sighting.since
			}
			m := known.next(*v.Epoch, stamps, clocksOf(f.leases), now)
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
