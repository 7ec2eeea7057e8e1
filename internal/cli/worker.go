// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/internal/shell"
	"github.com/kube-migrator/kube-migrator/internal/worker"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// workerFlags are the flags of worker.
type workerFlags struct {
	options worker.ServeOptions
}

// newWorkerCommand returns the command that the pods of the controller's Jobs run. Users do not need it.
func newWorkerCommand(env *environment) *cobra.Command {
	f := &workerFlags{}
	command := &cobra.Command{
		Use:    "worker",
		Short:  "Carry out runs of StorageVersionMigrations, one after another; the controller starts this",
		Args:   arg.None,
		Hidden: true,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := f.check(command); err != nil {
				return err
			}
			return env.interruptible(command.Context(), func(ctx context.Context, gentle <-chan struct{}) error {
				return env.work(ctx, gentle, f)
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&f.options.Namespace, "namespace", "", "Namespace of the ConfigMaps")
	flags.StringVar(&f.options.Roster, "roster", "",
		"Name of the ConfigMap in which the controller writes which run comes next")
	arg.Evidence(flags, &f.options.MinEvidence)
	arg.Delay(flags, &f.options.SettleTime, arg.SettleTime, migrate.DefaultSettleTime, arg.SettleTimeUsage)
	arg.ShutdownDelay(flags, &f.options.ShutdownDelay)
	return command
}

// check returns an error for flags that contradict one another. It sends no request.
func (f *workerFlags) check(command *cobra.Command) error {
	for _, flag := range []string{"namespace", "roster"} {
		if !command.Flags().Changed(flag) {
			return arg.Missing(command, flag)
		}
	}
	arg.CompleteShutdownDelay(command, f.options.SettleTime, &f.options.ShutdownDelay)
	return nil
}

// work carries out runs until there are no more. Any other end is an error, so that the Job starts another pod: a
// worker may complete the Job only after it has announced that it accepts no further run.
func (env *environment) work(ctx context.Context, gentle <-chan struct{}, f *workerFlags) error {
	options := f.options
	var err error
	if options.Config, err = env.config(); err != nil {
		return err
	}
	options.Stop, options.Logger = gentle, slog.New(slog.NewTextHandler(env.Err, nil))
	err = worker.Serve(ctx, options)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, worker.ErrStopped):
		return exit.Code(exit.Error) // the log contains the error
	}
	return exit.Try(err, "kubectl get configmaps --namespace="+shell.Quote(options.Namespace)+" "+
		shell.Quote(options.Roster)+" -o yaml")
}
