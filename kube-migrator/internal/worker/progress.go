// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"reflect"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/printable"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// Bounds of a report, in characters: of a message, and of a name or a namespace.
const (
	maxText = 1024
	maxName = 253
)

// report returns the current report. Before the sweep has read its checkpoint, the numbers are those of the previous
// report.
func (s *sweeping) report() *Report {
	report := s.before
	report.Updated = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sweep == nil {
		return &report
	}
	p := s.sweep.Progress()
	report.Phase, report.Waiting = p.Phase, cut(p.Waiting)
	report.Throttled += p.Pace.Throttles
	report.ThrottledSeconds += p.Pace.Paused.Seconds()
	report.ObjectsPerSecond = s.speed.at(report.Updated, p)
	if p.Started.IsZero() {
		return &report
	}
	report.Total, report.Counts, report.Epoch, report.Restarts = p.Total, p.Counts, p.Epoch, p.Restarts
	report.Verified = p.Verified
	report.StorageVersion = ""
	if p.Epoch.Hash != "" && p.Epoch.Hash == s.resource.StorageVersionHash {
		report.StorageVersion = s.resource.Storage()
	}
	if c := s.run.record.saved(); c != nil {
		report.Listed, report.Baseline, report.Failures = c.Listed, c.Baseline, named(c.Failures)
	}
	return &report
}

// done returns how many objects the run has processed, over all passes. If it grows, there is progress.
func (s *sweeping) done() int64 {
	counts := s.report().Counts
	return counts.Done() + counts.RewrittenBefore
}

// named returns the failures that a report names: for users, because long names are cut.
func named(failures []migrate.Failure) []migrate.Failure {
	var first []migrate.Failure
	for _, f := range failures[:min(len(failures), maxReportedFailures)] {
		f.Namespace, f.Name = printable.Cut(f.Namespace, maxName), printable.Cut(f.Name, maxName)
		f.Message = cut(f.Message)
		first = append(first, f)
	}
	return first
}

// cut bounds a message to maxText characters.
func cut(text string) string { return printable.Cut(text, maxText) }

// same reports whether two reports differ only in their times.
func same(a, b *Report) bool {
	x, y := *a, *b
	x.Updated, y.Updated = time.Time{}, time.Time{}
	return reflect.DeepEqual(x, y)
}

// window is the period over which the current rate is measured.
const window = 5 * time.Second

// speed measures how many objects a sweep processes per second.
type speed struct{ samples []sample }

type sample struct {
	at   time.Time
	done int64
}

// at takes a sample and returns the rate, or 0 if nothing is being rewritten.
func (m *speed) at(now time.Time, p migrate.Progress) float64 {
	done := p.Counts.Done()
	if p.Phase != migrate.Rewriting && p.Phase != migrate.Retrying {
		m.samples = nil
		return 0
	}
	if n := len(m.samples); n > 0 && done < m.samples[n-1].done { // a new pass
		m.samples = nil
	}
	if n := len(m.samples); n == 0 || now.Sub(m.samples[n-1].at) >= window/10 {
		m.samples = append(m.samples, sample{now, done})
	}
	for len(m.samples) > 1 && now.Sub(m.samples[0].at) > window {
		m.samples = m.samples[1:]
	}
	first := m.samples[0]
	if passed := now.Sub(first.at).Seconds(); passed > 0 {
		return float64(done-first.done) / passed
	}
	return 0
}
