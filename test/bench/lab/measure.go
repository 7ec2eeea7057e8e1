// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Measured is a migration from its first write to its last.
type Measured struct {
	Span
	// Objects is how many there were.
	Objects int
	// Samples are those of the whole run, with its discovery, lists and checks.
	Samples []Sample
	// Whole is the whole run.
	Whole Span
	// Counters are what the API servers counted during the whole run.
	Counters Counters
	// ClientPeakRSSBytes is the largest resident set of the client.
	ClientPeakRSSBytes int64
}

// Measure makes the first n objects old, lets run migrate them and returns what happened. run tells watch the IDs of
// its processes. An object that is not stored again afterwards is an error. wire counts bytes; nil does not.
func (o *Objects) Measure(ctx context.Context, n int, wire *Wire,
	run func(ctx context.Context, watch func(pid int)) error) (Measured, error) {
	before, err := o.MakeOld(ctx, n)
	if err != nil {
		return Measured{}, err
	}
	m, err := o.lab.During(ctx, o.Kind, wire, run)
	if err != nil {
		return Measured{}, err
	}
	progress, err := o.Since(ctx, before)
	if err != nil {
		return Measured{}, err
	}
	if progress.Stored != n {
		return Measured{}, fmt.Errorf("stored again: %d of %d objects", progress.Stored, n)
	}
	m.Objects = n
	m.Span, err = spanOf(m.Samples, progress.First, progress.Last)
	return m, err
}

// During samples while run runs, and counts requests for a kind. Its Span is the whole run.
func (l *Lab) During(ctx context.Context, k Kind, wire *Wire,
	run func(ctx context.Context, watch func(pid int)) error) (m Measured, err error) {
	begin, err := l.Count(ctx, k)
	if err != nil {
		return m, err
	}
	s := sampling(ctx, l.Cluster, wire)
	ran := run(ctx, s.watch)
	m.Samples, err = s.stop(ctx)
	if err := errors.Join(ran, err); err != nil {
		return m, err
	}
	end, err := l.Count(ctx, k)
	if err != nil {
		return m, err
	}
	m.Counters = end.minus(begin)
	last := m.Samples[len(m.Samples)-1]
	m.Whole = between(m.Samples[0], last)
	m.Span, m.ClientPeakRSSBytes = m.Whole, last.ClientPeakRSSBytes
	return m, nil
}

// Idle measures API servers and etcd while no one asks them anything: the share of one processor that they use.
func (l *Lab) Idle(ctx context.Context, d time.Duration) (float64, error) {
	m, err := l.During(ctx, Kind{}, nil, func(ctx context.Context, _ func(int)) error { return Pause(ctx, d) })
	if err != nil {
		return 0, fmt.Errorf("measure idle cluster: %w", err)
	}
	return (m.Whole.APIServer + m.Whole.Etcd).Seconds() / m.Whole.End.Sub(m.Whole.Begin).Seconds(), nil
}

// Point is a moment and a rate.
type Point struct {
	Seconds, PerSecond float64
}

// RateOver returns the writes to etcd per second, in steps of a duration from the first sample on.
func RateOver(samples []Sample, step time.Duration) []Point {
	if len(samples) == 0 {
		return nil
	}
	var points []Point
	from := samples[0]
	for _, s := range samples {
		if elapsed := s.At.Sub(from.At); elapsed >= step {
			points = append(points, Point{
				Seconds:   s.At.Sub(samples[0].At).Seconds(),
				PerSecond: float64(s.Revision-from.Revision) / elapsed.Seconds(),
			})
			from = s
		}
	}
	return points
}
