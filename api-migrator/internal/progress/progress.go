// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package progress tells the user which step of long work has begun, such as loading a project or trying a plan.
//
// It owns how steps travel, in a context, from the work to whatever shows them. It never decides whether or when a step
// is shown, and no outcome depends on it.
package progress

import (
	"context"
	"fmt"
)

type key struct{}

// With returns a context whose Steps are passed to show, in words for the user and on one line. show may be called by
// several goroutines at the same time.
func With(ctx context.Context, show func(step string)) context.Context {
	return context.WithValue(ctx, key{}, show)
}

// Step says which step of the work begins. Without With it does nothing.
func Step(ctx context.Context, format string, arguments ...any) {
	if show, ok := ctx.Value(key{}).(func(string)); ok {
		show(fmt.Sprintf(format, arguments...))
	}
}
