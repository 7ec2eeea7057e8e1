// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/internal/printable"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const (
	repaintEvery = 200 * time.Millisecond // on a terminal
	logEvery     = 5 * time.Second        // elsewhere
	rateWindow   = 10 * time.Second       // over which the shown rate is taken
)

// live shows how far sweeps are, one after the other: one line that is painted over on a terminal, elsewhere a line
// whenever something has changed.
type live struct {
	w io.Writer
	// terminal is w where that is one, else nil.
	terminal *os.File
	// settle is --settle-time.
	settle time.Duration
	// last is the line that was written last; explained is set once it was said what is waited for.
	last      string
	explained bool
}

// show shows how far a sweep is until the context ends.
func (l *live) show(ctx context.Context, name string, sweep *migrate.Sweep) {
	every := logEvery
	if l.terminal != nil {
		every = repaintEvery
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var meter rateMeter
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			if l.terminal != nil {
				fmt.Fprint(l.terminal, "\r\x1b[K")
			}
			return
		}
		p := sweep.Progress()
		rate := meter.rate(time.Now(), p)
		if l.terminal == nil {
			l.log(name, p, rate)
			continue
		}
		width, _, err := term.GetSize(int(l.terminal.Fd()))
		if err != nil {
			width = 80
		}
		if text := l.explanation(p); text != "" {
			fmt.Fprintf(l.terminal, "\r\x1b[K%s\n", text)
		}
		fmt.Fprintf(l.terminal, "\r%s\x1b[K", printable.Text(render.Bar(name, p, rate, width)))
	}
}

// log writes the line of a sweep, unless it is the one that was written last.
func (l *live) log(name string, p migrate.Progress, rate float64) {
	line := name + "  " + render.Line(p, rate)
	if line == l.last {
		return
	}
	l.last = line
	fmt.Fprintln(l.w, line)
	if text := l.explanation(p); text != "" {
		fmt.Fprintln(l.w, text)
	}
}

// explanation says, the first time that a sweep waits, for how long and why; else it is empty.
func (l *live) explanation(p migrate.Progress) string {
	if p.Phase != migrate.Waiting || l.explained {
		return ""
	}
	l.explained = true
	return fmt.Sprintf("Nothing is written until the API servers have agreed on one version for %s (--settle-time): "+
		"before that, a request that\n"+
		"began earlier may still write another version. It may be shorter only where no request to the API servers "+
		"lasts that long.", delayValue{&l.settle})
}

// rateMeter measures objects per second over the last rateWindow.
type rateMeter struct {
	phase  migrate.Phase
	points []ratePoint
}

type ratePoint struct {
	at   time.Time
	done int64
}

func (m *rateMeter) rate(now time.Time, p migrate.Progress) float64 {
	done := p.Counts.Done()
	if p.Phase == migrate.Verifying {
		done = p.Verified
	}
	if p.Phase != m.phase || len(m.points) > 0 && done < m.points[len(m.points)-1].done {
		m.phase, m.points = p.Phase, nil
	}
	m.points = append(m.points, ratePoint{at: now, done: done})
	for len(m.points) > 2 && now.Sub(m.points[1].at) >= rateWindow {
		m.points = m.points[1:]
	}
	first := m.points[0]
	if elapsed := now.Sub(first.at).Seconds(); elapsed > 0 {
		return float64(done-first.done) / elapsed
	}
	return 0
}
