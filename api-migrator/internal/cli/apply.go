// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/move"
)

func newDiffCommand(streams Streams) *cobra.Command {
	dir := "."
	command := &cobra.Command{
		Use:   "diff PLAN",
		Short: "Show a plan as a patch; nothing is written",
		Long: "Show what apply would do, as a patch that git apply accepts. diff writes nothing into the project. PLAN " +
			"may be - for standard input.",
		Args: onePlan,
		RunE: func(command *cobra.Command, args []string) error {
			plan, err := readPlan(command, args[0], streams)
			if err != nil {
				return err
			}
			if done, err := move.Applied(dir, plan); err != nil || done {
				if done {
					fmt.Fprintln(streams.Err, "The plan has been applied already; there is nothing to show.")
				}
				return err
			}
			outcome, err := move.Again(command.Context(), dir, plan)
			if err != nil {
				return err
			}
			patch, err := outcome.Patch(command.Context())
			if err != nil {
				return err
			}
			_, err = streams.patches.Write(patch)
			return err
		},
	}
	command.Flags().StringVarP(&dir, "dir", "C", dir, "a folder of the project")
	return command
}

func newApplyCommand(streams Streams) *cobra.Command {
	dir, allowDirty, commits := ".", false, false
	command := &cobra.Command{
		Use:   "apply PLAN",
		Short: "Carry a plan out",
		Long: `Carry a plan out: all of it, or, after an error, nothing, unless --commit-per-step is set. apply refuses a tree whose Go code
or manifests have changed since the plan was made, and a tree with uncommitted changes unless --allow-dirty is set. Applying
a plan again changes nothing. PLAN may be - for standard input. If objects have to be copied to another
CustomResourceDefinition, apply shows the steps.

With --commit-per-step each step becomes a git commit whose code compiles: shared code, the new version, the old version,
importers, manifests, the rest. git determines the author. After an error the commits that were made stay.

If apply is killed, apply the same plan again: it finishes the work, unless one of the files has changed meanwhile. Until
then the folder .api-migrator holds the remaining work.`,
		Args: onePlan,
		RunE: func(command *cobra.Command, args []string) error {
			plan, err := readPlan(command, args[0], streams)
			if err != nil {
				return err
			}
			if commits && allowDirty {
				return usageError(command, errors.New("--commit-per-step and --allow-dirty cannot be used together"))
			}
			var done bool
			if commits {
				done, err = move.ApplyInCommits(command.Context(), dir, plan)
			} else {
				done, err = move.Apply(command.Context(), dir, plan, allowDirty)
			}
			if err != nil {
				return err
			}
			if !done {
				fmt.Fprintln(streams.Err, "The plan has been applied already; nothing is left to do.")
				return nil
			}
			fmt.Fprintf(streams.Err, "%d files written, changed or removed.\n", len(plan.Edits))
			for _, next := range plan.Commands {
				fmt.Fprintf(streams.Err, "Next: %s\n", next)
			}
			if plan.Copy != nil {
				fmt.Fprint(streams.Err, plan.Copy.Text())
			}
			return nil
		},
	}
	command.Flags().StringVarP(&dir, "dir", "C", dir, "a folder of the project")
	command.Flags().BoolVar(&allowDirty, "allow-dirty", false,
		"apply although there are uncommitted changes, or no git repository")
	command.Flags().BoolVar(&commits, "commit-per-step", false, "commit each step of the migration")
	return command
}

func onePlan(command *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError(command, errors.New("name one plan"))
	}
	return nil
}

func readPlan(command *cobra.Command, name string, streams Streams) (*move.Plan, error) {
	var content []byte
	var err error
	if name == "-" {
		content, err = io.ReadAll(streams.In)
	} else {
		content, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, usageError(command, fmt.Errorf("read plan: %w", err))
	}
	if len(bytes.TrimSpace(content)) == 0 {
		return nil, hinted(errors.New("the plan is empty"), "api-migrator plan --out plan.yaml …")
	}
	plan, err := move.Decode(content)
	if err != nil {
		return nil, usageError(command, err)
	}
	return plan, nil
}
