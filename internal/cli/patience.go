// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/internal/install"
	"github.com/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/internal/upgrade"
)

const (
	// refusedFor is how long a refusal has to last: an API server that has just started refuses what it takes a moment
	// later.
	refusedFor = 10 * time.Second
	// longQuiet is how long nothing is written while a controller works, and then some.
	longQuiet = 5 * time.Minute
)

// patience is what somebody who waits has seen, and said.
type patience struct {
	refusedSince time.Time
	toldQuiet    bool
	toldPaused   map[string]bool
}

// ends reports whether waiting on is of no use: the API server answers, and has refused for a while.
func (p *patience) ends(err error, now time.Time) bool {
	unknown := (*inventory.NotFoundError)(nil)
	if !errors.Is(err, errNotInstalled) && !apierrors.IsForbidden(err) && !errors.As(err, &unknown) {
		p.refusedSince = time.Time{}
		return false
	}
	if p.refusedSince.IsZero() {
		p.refusedSince = now
	}
	return now.Sub(p.refusedSince) >= refusedFor
}

// tellQuiet says once that nothing happens although something should.
func (o *observer) tellQuiet(all []v1alpha1.StorageVersionMigration, now time.Time) {
	quiet := untouched(all, now)
	if quiet >= longQuiet && !o.toldQuiet {
		fmt.Fprintf(o.env.Err, "Nothing was written to any StorageVersionMigration for %v: perhaps no controller "+
			"runs.\nTry: kubectl get pods --all-namespaces -l app.kubernetes.io/name=%s\n",
			quiet.Truncate(time.Minute), install.Name)
	}
	o.toldQuiet = quiet >= longQuiet
}

// untouched is for how long nothing was written to any migration, while there is one to carry out; 0 where there is
// none. Not each of them is touched while it waits for its turn. It is pure.
func untouched(all []v1alpha1.StorageVersionMigration, now time.Time) time.Duration {
	var newest time.Time
	waits := false
	for i := range all {
		m := &all[i]
		waits = waits || isWanted(m)
		times := []time.Time{m.CreationTimestamp.Time, m.Status.Progress.UpdateTime.Time}
		for _, c := range m.Status.Conditions {
			times = append(times, c.LastTransitionTime.Time)
		}
		for _, f := range m.ManagedFields {
			if f.Time != nil {
				times = append(times, f.Time.Time)
			}
		}
		for _, t := range times {
			if t.After(newest) {
				newest = t
			}
		}
	}
	if !waits {
		return 0
	}
	return max(0, now.Sub(newest))
}

// isWanted reports whether a migration is to be carried out: it has not ended, and is neither paused nor cancelled.
func isWanted(m *v1alpha1.StorageVersionMigration) bool {
	run := upgrade.RunOf(m)
	return run == upgrade.NotBegun || run == upgrade.AtWork
}

// tellPaused says of each migration once that it waits for somebody.
func (o *observer) tellPaused(p render.Progress) {
	for _, r := range p.Resources {
		paused := r.Run == upgrade.Paused
		if paused && !o.toldPaused[r.Migration] {
			fmt.Fprintf(o.env.Err, "%s is paused: waiting for %s resume %s\n", r.Migration, o.env.name, r.Migration)
		}
		if o.toldPaused == nil {
			o.toldPaused = map[string]bool{}
		}
		o.toldPaused[r.Migration] = paused
	}
}
