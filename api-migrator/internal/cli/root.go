// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of api-migrator: one file per command, each of which reads flags and files, calls
// the packages that decide, and shows or writes what they return.
//
// It owns exit codes, the two lines of an error, and what goes to stdout (data) and stderr (everything else). It never
// decides anything about an API, nor where a declaration goes. A project's Go code is written through move.Apply and
// convert.Plan only; plans, stages and upgraded manifests it writes itself.
package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/internal/printable"
)

// Streams is where a command reads and writes.
type Streams struct {
	In  io.Reader
	Out io.Writer // data
	Err io.Writer // everything else
	// Terminal says that Out is a terminal. Patches and plans, which other programs read, are written there as text,
	// and elsewhere byte for byte.
	Terminal bool
	// Progress is how often, at most, a line on Err says what long work is at; zero is never.
	Progress time.Duration

	patches io.Writer
}

// printed are streams that write text and nothing else: a repository, a manifest or an error may hold escape sequences
// (package printable).
func (s Streams) printed() Streams {
	raw := s.Out
	s.Out, s.Err = printable.NewWriter(s.Out), &shared{out: printable.NewWriter(s.Err)}
	if s.patches = raw; s.Terminal {
		s.patches = s.Out
	}
	return s
}

// Run runs the command line args, whose first element is the program's own name, and returns the exit code.
func Run(ctx context.Context, args []string, streams Streams) int {
	streams = streams.printed()
	root := newRoot(streams)
	root.SetArgs(args[1:])
	ctx, stop := watched(ctx, streams.Err, streams.Progress)
	command, err := root.ExecuteContextC(ctx)
	stop()
	return finish(streams, command, err)
}

func newRoot(streams Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "api-migrator",
		Short: "Move the APIs of a Go operator to new versions",
		Long: `api-migrator moves kinds of a Go operator to a new API version.

  inspect  show versions, kinds, importers and CustomResourceDefinitions
  plan     decide where every declaration goes, and which files change
  diff     show the plan as a patch, and write nothing
  apply    carry the plan out
  verify   check that versions and manifests agree
  stages   plan in which releases clusters follow, and what must hold before each next one
  crd      upgrade and check manifests of CustomResourceDefinitions
  convert  write the conversion between the versions of a kind

Exit codes: 0 done, 1 error, 2 the plan has blockers, or the answer is no.`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	root.SetFlagErrorFunc(usageError)
	root.AddCommand(
		newInspectCommand(streams), newPlanCommand(streams), newDiffCommand(streams), newApplyCommand(streams),
		newVerifyCommand(streams),
		newStagesCommand(streams), newCRDCommand(streams), newConvertCommand(streams),
	)
	return root
}
