// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package screen shows progress while it changes: on a terminal it overwrites, elsewhere it writes the lines of a log.
package screen

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/kube-migrator/kube-migrator/internal/printable"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const (
	repaintEvery = 200 * time.Millisecond // on a terminal
	logEvery     = 5 * time.Second        // elsewhere
	rateWindow   = 10 * time.Second       // the shown rate is the average over this time
)

// Sweeps shows the progress of sweeps: of several at the same time that of the first one, until it has ended. On a
// terminal it overwrites one line, elsewhere it writes a new line when something has changed.
type Sweeps struct {
	Out io.Writer
	// Terminal is Out if that is a terminal, else nil.
	Terminal *os.File
	// SettleTime is --settle-time.
	SettleTime time.Duration

	mu sync.Mutex
	// shown is the sweep that is shown. last is the line that was written last. explained means that the wait for the
	// API servers has been explained.
	shown     *migrate.Sweep
	last      string
	explained bool
}

// Say writes a line that stays.
func (l *Sweeps) Say(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
	fmt.Fprintln(l.Out, line)
}

// clear removes the line of a sweep from a terminal.
func (l *Sweeps) clear() {
	if l.Terminal != nil {
		fmt.Fprint(l.Terminal, "\r\x1b[K")
	}
}

// Show shows the progress of a sweep until the context ends.
func (l *Sweeps) Show(ctx context.Context, name string, sweep *migrate.Sweep) {
	every := logEvery
	if l.Terminal != nil {
		every = repaintEvery
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	defer l.end(sweep)
	var meter rateMeter
	for {
		select {
		case <-ticker.C:
			p := sweep.Progress()
			l.show(name, sweep, p, meter.rate(time.Now(), p))
		case <-ctx.Done():
			return
		}
	}
}

// end lets another sweep be shown.
func (l *Sweeps) end(sweep *migrate.Sweep) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown == sweep || l.shown == nil {
		l.shown = nil
		l.clear()
	}
}

// show shows the progress of a sweep, unless another one is shown.
func (l *Sweeps) show(name string, sweep *migrate.Sweep, p migrate.Progress, rate float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown == nil {
		l.shown = sweep
	}
	if l.shown != sweep {
		return
	}
	if l.Terminal == nil {
		l.log(name, p, rate)
		return
	}
	width, _, err := term.GetSize(int(l.Terminal.Fd()))
	if err != nil {
		width = 80
	}
	if text := l.explanation(p); text != "" {
		fmt.Fprintf(l.Terminal, "\r\x1b[K%s\n", text)
	}
	fmt.Fprintf(l.Terminal, "\r%s\x1b[K", printable.Text(render.Bar(name, p, rate, width)))
}

// log writes the line of a sweep, unless it is the same as the last one.
func (l *Sweeps) log(name string, p migrate.Progress, rate float64) {
	line := name + "  " + render.Line(p, rate)
	if line == l.last {
		return
	}
	l.last = line
	fmt.Fprintln(l.Out, line)
	if text := l.explanation(p); text != "" {
		fmt.Fprintln(l.Out, text)
	}
}

// explanation returns for how long and why a sweep waits, or "" if that was explained before.
func (l *Sweeps) explanation(p migrate.Progress) string {
	if p.Phase != migrate.Waiting || l.explained {
		return ""
	}
	l.explained = true
	return fmt.Sprintf("Nothing is written until the API servers have agreed on one version for %s (--settle-time): "+
		"before that, a request that\n"+
		"began earlier may still write another version. It may be shorter only where no request to the API servers "+
		"lasts that long.", arg.FormatDelay(l.SettleTime))
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
