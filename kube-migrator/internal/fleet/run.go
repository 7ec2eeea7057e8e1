// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Options say how to run.
type Options struct {
	// Parallel is how many clusters are asked at the same time; less than 1 means 1.
	Parallel int
	// Timeout is how long the work for one cluster may take; 0 means without a limit.
	Timeout time.Duration
}

// grace is how long work may take to return after its context has ended. Some work cannot be interrupted, for example
// a plugin of a kubeconfig that obtains credentials: it is abandoned, and its result is discarded.
const grace = 2 * time.Second

// ErrNotStarted is the error of work that was not started because the context had ended.
var ErrNotStarted = errors.New("not started")

// TimeoutError says that the work for a cluster took longer than Options.Timeout.
type TimeoutError struct{ After time.Duration }

func (e *TimeoutError) Error() string { return fmt.Sprintf("no answer within %v", e.After) }

// PanicError says that the work for a cluster panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Result is the result of the work for one cluster.
type Result[T any] struct {
	// Value is what the work returned. It is the zero value if the work did not return.
	Value T
	// Err is the error of the work, a *TimeoutError, a *PanicError, ErrNotStarted, or the context's error if the work
	// was abandoned.
	Err error
}

// Run calls work for each index from 0 to n-1 and returns the results in this order. A result whose work returned no
// error counts even if its time limit has just passed.
func Run[T any](ctx context.Context, n int, o Options, work func(ctx context.Context, i int) (T, error)) []Result[T] {
	results := make([]Result[T], n)
	var next atomic.Int64
	var places sync.WaitGroup
	for range min(max(1, o.Parallel), n) {
		places.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if ctx.Err() != nil {
					results[i].Err = ErrNotStarted
					continue
				}
				results[i] = one(ctx, o.Timeout, func(ctx context.Context) (T, error) { return work(ctx, i) })
			}
		})
	}
	places.Wait()
	return results
}

// one runs the work for one cluster.
func one[T any](ctx context.Context, timeout time.Duration, work func(context.Context) (T, error)) Result[T] {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	returned := make(chan Result[T], 1) // abandoned work still finds a place for its result
	go func() { returned <- protected(limited, work) }()
	var result Result[T]
	select {
	case result = <-returned:
	case <-limited.Done():
		result = afterEnd(limited, returned)
	}
	if result.Err != nil && ctx.Err() == nil && Ended(limited) {
		result.Err = &TimeoutError{After: timeout}
	}
	return result
}

// Ended reports whether the context has ended, or its deadline has passed: a connection may notice the deadline a moment
// before the context does.
func Ended(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && !time.Now().Before(deadline)
}

// afterEnd waits a little longer for work whose context has ended.
func afterEnd[T any](ended context.Context, returned <-chan Result[T]) Result[T] {
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case result := <-returned:
		return result
	case <-patience.C:
		return Result[T]{Err: ended.Err()}
	}
}

// protected turns a panic into an error.
func protected[T any](ctx context.Context, work func(context.Context) (T, error)) (result Result[T]) {
	defer func() {
		if value := recover(); value != nil {
			result = Result[T]{Err: &PanicError{Value: value, Stack: debug.Stack()}}
		}
	}()
	value, err := work(ctx)
	return Result[T]{Value: value, Err: err}
}
