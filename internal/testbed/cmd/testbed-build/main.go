// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command testbed-build builds binaries of the pinned Kubernetes releases into the cache that tests and the demo run
// them from:
//
//	go run ./internal/testbed/cmd/testbed-build v1.37.0/etcd v1.37.0/kube-apiserver
//
// It prints the path of each on standard output.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "no binary named\nTry: go run ./internal/testbed/cmd/testbed-build v1.37.0/etcd "+
			"v1.37.0/kube-apiserver")
		os.Exit(1)
	}
	for _, arg := range os.Args[1:] {
		release, name, _ := strings.Cut(arg, "/")
		path, err := testbed.Binary(ctx, testbed.Release(release), name, os.Stderr)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(path)
	}
}
