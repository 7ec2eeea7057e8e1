// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command kube-migrator finds what a Kubernetes cluster stores in old API versions, rewrites it, and proves that
// nothing is left.
package main

import (
	"context"
	"os"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli"
)

func main() {
	os.Exit(cli.Run(context.Background(), os.Args, cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
