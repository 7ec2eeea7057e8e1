// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command demo shows on a real control plane what kube-migrator is for: a cluster whose objects are stored in old
// versions is upgraded, migrated, and audited before and after.
//
// It owns the story and the sentence at its end. It never says that something was proven that it has not read: the
// sentence is built from two audits of etcd, snapshots of the objects and what kubectl lists (evidence.judge).
//
// It holds that
//   - every command it shows is run exactly as shown, and its output is shown as it came, but for lines that are said
//     to be left out;
//   - when it ends, however it ends, nothing that it started is running and nothing that it wrote is left;
//   - the exit code is 0 only if everything was proven: 1 if not, or after an error; 130 after an interrupt.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func main() { os.Exit(run()) }

func run() int {
	// With SIGPIPE, a reader that goes away (`make demo | head`) ends the demo in an orderly way, too.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM,
		syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	var s size
	binary := flag.String("binary", "bin/kube-migrator", "the kube-migrator to show")
	flag.IntVar(&s.widgets, "widgets", 3000, "how many custom objects the cluster has")
	flag.IntVar(&s.policies, "policies", 24, "how many MutatingAdmissionPolicies it has")
	flag.DurationVar(&s.settleTime, "settle-time", 3*time.Second,
		"what kube-migrator is told to wait until it concludes anything")
	flag.Parse()
	err := show(ctx, *binary, s)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "\nInterrupted. Everything that the demo had started is stopped, and its folder is "+
			"removed.")
		return 130
	case errors.Is(err, errNotProven):
		return 1
	case err != nil:
		fmt.Fprintf(os.Stderr, "\nThe demo failed: %v\n", err)
		return 1
	}
	return 0
}

// show starts the control plane, tells the story and removes everything again.
func show(ctx context.Context, binary string, s size) error {
	fmt.Println(`A Kubernetes cluster with objects in old versions is upgraded, migrated, and audited before and after.
Everything is real and stays on this machine: etcd and kube-apiserver on loopback addresses, data in a temporary folder.
It takes about a minute; Ctrl-C ends it at any time and leaves nothing behind.`)
	t, err := newTerminal(ctx, os.Stdout, os.Stderr, binary)
	if err != nil {
		return err
	}
	t.chapter("A cluster with a past")
	t.say("etcd and kube-apiserver " + string(testbed.Newest) +
		" start. The API server is told to write nothing that release 1.34 could not read\n" +
		"(" + heldBack + "), as an administrator does who wants to be able to go back.")
	cluster, err := testbed.Start(ctx, testbed.Options{Servers: []testbed.ServerOptions{{Flags: []string{heldBack}}}})
	if err != nil {
		return err
	}
	defer cluster.Stop()
	if err := t.enter(cluster); err != nil {
		return err
	}
	story := &story{terminal: t, cluster: cluster, size: s}
	return story.tell(ctx)
}
