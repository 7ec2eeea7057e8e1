// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"

	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install"
)

// uninstallFlags are the flags of uninstall.
type uninstallFlags struct {
	purge   bool
	dryRun  string
	timeout time.Duration
	output  render.Format
}

func newUninstallCommand(env *environment) *cobra.Command {
	f := &uninstallFlags{}
	command := &cobra.Command{
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
			return env.interruptible(command.Context(), func(ctx context.Context, gentle <-chan struct{}) error {
				ctx, stop := untilInterrupted(ctx, gentle)
				defer stop()
				return env.uninstall(ctx, command, f)
			})
		},
	}
	command.Flags().BoolVar(&f.purge, "purge", false,
		"Remove the state as well: the CRDs with all their objects, and the namespace")
	dryRunVar(command.Flags(), &f.dryRun, "show what would be removed",
		"let the API server check it and remove nothing")
	arg.Duration(command.Flags(), &f.timeout, "timeout", defaultInstallTimeout, time.Nanosecond,
		"How long to wait for each object")
	arg.Output(command.Flags(), &f.output, render.Text, render.JSON, render.YAML)
	return command
}

func (env *environment) uninstall(ctx context.Context, command *cobra.Command, f *uninstallFlags) error {
	config, err := env.config()
	if err != nil {
		return err
	}
	client, err := apiserver.NewClient(config)
	if err != nil {
		return err
	}
	shown := render.NewChanges(env.Out, f.output, f.dryRun)
	removal := &install.Removal{
		Client: client, Mode: mode(f.dryRun), Purge: f.purge, Timeout: f.timeout, Progress: env.waiting,
		Report: shown.Add,
	}
	err = removal.Run(ctx)
	if failure := shown.End(err); failure != nil {
		return failure
	}
	if err != nil {
		return env.explainInstall(ctx, command, "", err)
	}
	if shown.Len() == 0 {
		fmt.Fprintln(env.Err, "There is nothing to remove.")
	}
	if f.purge {
		return nil
	}
	left, err := removal.State(ctx)
	if err != nil {
		return env.explainInstall(ctx, command, "", err)
	}
	if len(left) > 0 {
		fmt.Fprintf(env.Err, "The state stays: %s. To remove it as well:\n  %s --purge\n",
			strings.Join(left, ", "), command.CommandPath())
	}
	return nil
}
