// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install"
)

// uninstallCommand is the command uninstall and its flags.
type uninstallCommand struct {
	setup
	purge   bool
	dryRun  string
	timeout time.Duration
	output  render.Format
}

func newUninstallCommand(env *environment) *cobra.Command {
	c := &uninstallCommand{setup: setup{environment: env}}
	c.command = &cobra.Command{
		Use:   "uninstall",
		Short: "Stop all writing at once, and remove the controller from the cluster",
		Long: `Stop all writing at once, and remove the controller of kube-migrator from the cluster, whichever namespace it is in.

uninstall first removes the permissions of the controller and the workers: from then on, whatever still runs can write
nothing. It then removes the Deployment, Jobs, checkpoints, ServiceAccounts, roles, the flags that install remembers and the
rest, and waits until all pods have ended.

The state stays: the CRDs with all StorageVersionMigrations and StorageStates, and the namespace, which owns those that the
controller created. Unfinished migrations start over after another install. --purge removes the state as well, and waits
until it is gone. uninstall never removes a namespace that existed before install.

It is safe to run uninstall again. Exit codes: 0 done, or nothing to remove; 1 error; 130 interrupted.`,
		Example: `  kube-migrator uninstall
  kube-migrator uninstall --purge --dry-run=client`,
		Args: arg.None,
		RunE: func(command *cobra.Command, _ []string) error {
			return c.interruptible(command.Context(), func(ctx context.Context, gentle <-chan struct{}) error {
				ctx, stop := untilInterrupted(ctx, gentle)
				defer stop()
				return c.run(ctx)
			})
		},
	}
	flags := c.command.Flags()
	flags.BoolVar(&c.purge, "purge", false,
		"Remove the state as well: the CRDs with all their objects, and the namespace")
	dryRunVar(flags, &c.dryRun, "show what would be removed",
		"let the API server check it and remove nothing")
	arg.Duration(flags, &c.timeout, "timeout", defaultInstallTimeout, time.Nanosecond,
		"How long to wait for each object")
	arg.Output(flags, &c.output, render.Text, render.JSON, render.YAML)
	return c.command
}

func (c *uninstallCommand) run(ctx context.Context) error {
	q, err := c.connect()
	if err != nil {
		return err
	}
	shown := render.NewChanges(c.Out, c.output, c.dryRun)
	removal := &install.Removal{
		Client: q.REST, Mode: mode(c.dryRun), Purge: c.purge, Timeout: c.timeout, Progress: c.waiting,
		Report: shown.Add,
	}
	err = removal.Run(ctx)
	if failure := shown.End(err); failure != nil {
		return failure
	}
	if err != nil {
		return c.explained(ctx, "", err)
	}
	if shown.Len() == 0 {
		fmt.Fprintln(c.Err, "There is nothing to remove.")
	}
	if c.purge {
		return nil
	}
	left, err := removal.State(ctx)
	if err != nil {
		return c.explained(ctx, "", err)
	}
	if len(left) > 0 {
		fmt.Fprintf(c.Err, "The state stays: %s. To remove it as well:\n  %s --purge\n",
			strings.Join(left, ", "), c.command.CommandPath())
	}
	return nil
}
