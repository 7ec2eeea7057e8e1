// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/test/chaos/plan"
)

// clock is the clock of one machine: of an API server, or of the controllers or workers that use one line. The lab's
// lock of judging guards it.
type clock struct {
	testbed.Clock
	number, moves int
}

// newClock returns a clock that is right.
func (l *lab) newClock() (*clock, error) {
	l.judging.Lock()
	defer l.judging.Unlock()
	l.made++
	c, err := testbed.NewClock(filepath.Join(l.clockDir, fmt.Sprint(l.made)))
	return &clock{Clock: c, number: l.made}, err
}

// moved makes a clock wrong for a while. It is right afterwards, unless another fault moves it meanwhile.
func (l *lab) moved(ctx context.Context, c *clock, s plan.Step) {
	move := l.move(c, s.By)
	wait(ctx, s.Hold)
	if l.lastMove(c) == move {
		l.move(c, 0)
	}
}

func (l *lab) move(c *clock, by time.Duration) (move int) {
	l.judging.Lock()
	defer l.judging.Unlock()
	c.moves++
	l.clocks.Move(c.number, by, time.Now())
	l.must("move clock", c.Move(by))
	return c.moves
}

func (l *lab) lastMove(c *clock) int {
	l.judging.Lock()
	defer l.judging.Unlock()
	return c.moves
}
