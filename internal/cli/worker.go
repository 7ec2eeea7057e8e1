// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/internal/worker"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// workerFlags are the flags of worker.
type workerFlags struct {
	options worker.Options
	uid     string
}

// newWorkerCommand is what the pods of the controller's Jobs run; people have no use for it.
func newWorkerCommand(env *environment) *cobra.Command {
	f := &workerFlags{}
	command := &cobra.Command{
		Use:    "worker",
		Short:  "Carry out one run of a StorageVersionMigration; the controller starts this",
		Args:   noArguments,
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
	flags.StringVar(&f.options.Migration, "migration", "", "Name of the StorageVersionMigration")
	flags.StringVar(&f.uid, "uid", "", "Its UID")
	numberVar(flags, &f.options.Generation, "generation", 0, within[int64]{unit: "runs"}, "Its spec.generation")
	numberVar(flags, &f.options.Attempt, "attempt", 0, within[int64]{unit: "attempts"}, "Which attempt of the generation this is")
	flags.StringVar(&f.options.Namespace, "namespace", "", "Namespace of the ConfigMap")
	flags.StringVar(&f.options.ConfigMap, "configmap", "", "Name of the ConfigMap for checkpoint and report")
	evidenceVar(flags, &f.options.MinEvidence)
	delayVar(flags, &f.options.SettleTime, settleTime, migrate.DefaultSettleTime, settleTimeUsage)
	addShutdownDelay(flags, &f.options.ShutdownDelay)
	return command
}

// check refuses what cannot be meant before anything is sent.
func (f *workerFlags) check(command *cobra.Command) error {
	for _, flag := range []string{"migration", "uid", "generation", "attempt", "namespace", "configmap"} {
		if !command.Flags().Changed(flag) {
			return missing(command, flag)
		}
	}
	completeShutdownDelay(command, f.options.SettleTime, &f.options.ShutdownDelay)
	f.options.UID = types.UID(f.uid)
	return nil
}

// work carries out the run. A run that is nobody's any more is done; one that was stopped is not, so that the Job
// starts another pod.
func (env *environment) work(ctx context.Context, gentle <-chan struct{}, f *workerFlags) error {
	options := f.options
	var err error
	if options.Config, err = env.config(); err != nil {
		return err
	}
	options.Stop, options.Logger = gentle, slog.New(slog.NewTextHandler(env.Err, nil))
	err = worker.Run(ctx, options)
	switch {
	case err == nil, errors.Is(err, worker.ErrOutdated):
		return nil
	case errors.Is(err, worker.ErrStopped):
		return exitCode(exitError) // the log says it
	}
	return hinted(err, "kubectl get storageversionmigrations.migration.k8s.io "+quoted(options.Migration)+" -o yaml")
}
