// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command api-migrator moves the APIs of a Go operator to new versions, groups and kinds: the code, and the manifests
// of its CustomResourceDefinitions.
package main

import (
	"context"
	"os"
	"os/signal"

	"golang.org/x/term"

	"github.com/kube-migrator/kube-migrator/internal/apicli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := apicli.Run(ctx, os.Args, apicli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Terminal: term.IsTerminal(int(os.Stdout.Fd()))})
	stop()
	os.Exit(code)
}
