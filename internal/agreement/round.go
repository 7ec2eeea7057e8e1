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

	"github.com/kube-migrator/kube-migrator/internal/agreement/look"
	"github.com/kube-migrator/kube-migrator/internal/agreement/servers"
	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// Round is one look at every resource. It is a value that is not changed later.
type Round struct {
	// Started and Ended enclose the round, by this machine's clock: everything in it was true at some moment in
	// between.
	Started, Ended time.Time
	// Moved means that kube-apiservers came or went during the round. The verdicts show what the round saw, but those of
	// kube-apiservers' resources have no epoch: look again.
	Moved bool
	// Processes are the holderIdentities of the kube-apiservers that were live at the end, sorted; nil if they are
	// unknown.
	Processes []string
	// Leaving means that API servers which are no longer listed still answer, or may still be serving. Look again soon
	// to find out when they are gone.
	Leaving bool
	// Hidden means that a process may have been replaced since an earlier look, although the Leases are the same: not every
	// API server said when it started. Look again soon.
	Hidden bool
	// Releases are the releases of the kube-apiservers that can write, such as "v1.37.0".
	Releases snapshot.Releases
	// Verdicts are sorted by group and then by plural name. A resource without a verdict is not stored, does not exist, or
	// belongs to a group-version in Unread.
	Verdicts []Verdict
	// Unread are group-versions that could not be read from every server: their resources may exist without a verdict.
	Unread []Unread
}

// Unread is a group-version that could not be read from every server.
type Unread struct {
	GroupVersion schema.GroupVersion
	Reason       string
}

// Round looks once at every resource: it requests each group-version's discovery document once from each server, and
// sends a few more requests. An error means that the round found out nothing; problems that concern only a part of the
// answer are in the verdicts and in Unread.
//
// It needs permission to list CustomResourceDefinitions and APIServices. The evidence is weaker if permission is
// missing to list the Leases in kube-system, the EndpointSlices in default and in the namespaces of APIServices'
// services, or the StorageVersions of both APIs. Epochs of aggregated resources can be compared between accounts only
// if the accounts have the same permissions.
func (o *Observer) Round(ctx context.Context) (*Round, error) {
	f, err := o.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	r := &Round{Started: f.Began, Ended: f.Ended, Moved: f.Moved, Processes: f.Leases.Holders(), Leaving: f.Leaving(),
		Hidden: f.HidesRestarts(), Releases: f.Releases}
	r.Verdicts = o.verdicts(allOf(&f), r.Ended)
	for gv, i := range f.Inquiries {
		if i.Err != nil {
			r.Unread = append(r.Unread, Unread{GroupVersion: gv, Reason: i.Err.Error()})
		}
	}
	slices.SortFunc(r.Unread, func(a, b Unread) int {
		return strings.Compare(a.GroupVersion.String(), b.GroupVersion.String())
	})
	return r, nil
}

// Snapshot looks once at every resource, as Round does, and returns what was read.
func (o *Observer) Snapshot(ctx context.Context) (snapshot.Snapshot, error) {
	s, err := o.looker.Look(ctx, look.Scope{})
	if err != nil {
		return s, fmt.Errorf("determine the storage versions of all resources: %w", err)
	}
	return s, nil
}

// Judge returns the verdicts of one look at everything, sorted as in a Round. Their epochs have no Since, which depends
// on earlier looks.
func Judge(s *snapshot.Snapshot) []Verdict {
	all := allOf(s)
	verdicts := make([]Verdict, len(all))
	for i, f := range all {
		verdicts[i] = f.verdict()
	}
	return verdicts
}

// verdicts judges all resources, and adds what earlier rounds saw of them.
func (o *Observer) verdicts(all []findings, now time.Time) []Verdict {
	o.mu.Lock()
	defer o.mu.Unlock()
	// The servers are the same for all resources: one resource that each of them was asked about proves that they
	// stayed the same.
	for _, f := range all {
		if f.target.Origin != migrate.Aggregated && restartsSeen(f.reports) && !f.moved {
			o.sighting = o.sighting.Next(f.seen(), servers.StampsOf(f.seen()), now)
			break
		}
	}
	verdicts, memories := make([]Verdict, 0, len(all)), make(map[schema.GroupResource]servers.Memories, len(all))
	for _, f := range all {
		v := f.verdict()
		known, remembered := o.memories[v.Resource]
		switch {
		case v.Epoch != nil:
			stamps := servers.StampsOf(f.seen())
			if restartsSeen(f.reports) {
				stamps.Since = o.sighting.Since
			}
			m, since := known.Next(restartsSeen(f.reports), *v.Epoch, stamps, servers.ClocksOf(f.leases), now)
			memories[v.Resource], v.Epoch.Since = m, servers.Latest(since, f.absent.Since)
		case v.Disagree:
			memories[v.Resource] = known.Disagreed(now)
		case remembered: // nothing was found out, which changes nothing
			memories[v.Resource] = known
		}
		verdicts = append(verdicts, v)
	}
	o.memories = memories
	return verdicts
}
