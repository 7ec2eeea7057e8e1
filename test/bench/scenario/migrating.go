// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kube-migrator/kube-migrator/test/bench/contestant"
	"github.com/kube-migrator/kube-migrator/test/bench/lab"
)

// migrating is a migration that goes on while something else is done. Its owner calls wait or stop.
type migrating struct {
	run    contestant.Run
	ctx    context.Context //nolint:containedctx // it is that of the goroutine, which ends with it
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

func begin(ctx context.Context, c contestant.Contestant, r contestant.Run) *migrating {
	m := &migrating{run: r, ended: make(chan struct{})}
	m.ctx, m.cancel = context.WithCancel(ctx)
	go func() {
		defer close(m.ended)
		m.err = c.Migrate(m.ctx, r)
	}()
	return m
}

// wrote waits until an object has been written after a revision.
func (m *migrating) wrote(revision int64) error {
	ctx, cancel := context.WithTimeout(m.ctx, 2*time.Minute)
	defer cancel()
	err := lab.Await(ctx, func() (bool, error) {
		if begun, err := m.run.Objects.Begun(ctx, revision); begun || err != nil {
			return begun, err
		}
		select {
		case <-m.ended:
			return false, errors.New("the contestant ended without a write")
		default:
			return false, nil
		}
	})
	if err != nil {
		return fmt.Errorf("wait for the first write: %w", err)
	}
	return nil
}

// wait waits for the end of the migration and returns its error.
func (m *migrating) wait() error {
	<-m.ended
	m.cancel()
	return m.err
}

// stop ends the migration and returns its error, unless that says only that it was stopped.
func (m *migrating) stop() error {
	m.cancel()
	<-m.ended
	if errors.Is(m.err, context.Canceled) {
		return nil
	}
	return m.err
}
