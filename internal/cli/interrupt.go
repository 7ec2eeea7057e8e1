// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// interruptible calls work, whose context ends with the second interrupt; the first closes gentle, so that work can
// finish what it has begun.
func (env *environment) interruptible(ctx context.Context, work func(ctx context.Context,
	gentle <-chan struct{}) error) error {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	gentle := make(chan struct{})
	var listener sync.WaitGroup
	listener.Go(func() {
		select {
		case <-signals:
			fmt.Fprintln(env.Err, "\nStopping: finishing what is in flight. Interrupt again to stop at once.")
			close(gentle)
		case <-ctx.Done():
			return
		}
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	})
	err := work(ctx, gentle)
	signal.Stop(signals)
	cancel()
	listener.Wait()
	return err
}
