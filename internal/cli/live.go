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
	"github.com/kube-migrator/kube-migrator/migrate"
)

const (
	repaintEvery = 200 * time.Millisecond // on a terminal
	logEvery     = 5 * time.Second        // elsewhere
	rateWindow   = 10 * time.Second       // over which the shown rate is taken
)

// showProgress shows how far a sweep is until the context ends: one line that is painted over on a terminal, one
// line every few seconds elsewhere.
func showProgress(ctx context.Context, w io.Writer, name string, sweep *migrate.Sweep) {
	file, ok := w.(*os.File)
	terminal := ok && term.IsTerminal(int(file.Fd()))
	every := logEvery
	if terminal {
		every = repaintEvery
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var meter rateMeter
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			if terminal {
				fmt.Fprint(w, "\r\x1b[K")
			}
			return
		}
		p := sweep.Progress()
		rate := meter.rate(time.Now(), p)
		if !terminal {
			fmt.Fprintf(w, "%s  %s\n", name, render.Line(p, rate))
			continue
		}
		width, _, err := term.GetSize(int(file.Fd()))
		if err != nil {
			width = 80
		}
		fmt.Fprintf(w, "\r%s\x1b[K", render.Bar(name, p, rate, width))
	}
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
