// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command try-project tries api-migrator on a project of others: on a copy of a module that the go command downloads,
// or of a folder. It writes a row of the table in docs/api-migrator.md to standard output, or into the document.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/trial"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := try(ctx, os.Args, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		help := "make try-project MODULE=example.com/module@v1.2.3 KIND=Widget FROM=example.com/v1 TO=example.com/v2"
		if known := (*hint.Error)(nil); errors.As(err, &known) {
			help = known.Try
		}
		fmt.Fprintf(os.Stderr, "error: %v\nTry: %s\n", err, help)
		os.Exit(1)
	}
}

func try(ctx context.Context, args []string, out, log io.Writer) error {
	options, into, keep := trial.Options{Log: log}, "", false
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(log)
	flags.StringVar(&options.Binary, "binary", "api-migrator", "the program api-migrator")
	flags.StringVar(&options.Module, "module", "", "MODULE@VERSION, which the go command downloads")
	flags.StringVar(&options.Dir, "dir", "", "the root folder of a project, instead of a module")
	flags.StringVar(&options.Kinds, "kind", "", "as in api-migrator plan; so are the next two, and all other arguments")
	flags.StringVar(&options.From, "from", "", "GROUP/VERSION")
	flags.StringVar(&options.To, "to", "", "GROUP/VERSION")
	flags.StringVar(&options.ByHand, "by-hand", "", "what a maintainer has left to do, for the last column of the row")
	flags.DurationVar(&options.TestTimeout, "timeout", 5*time.Minute, "bounds the tests of one package")
	flags.StringVar(&into, "into", "", "insert the row into this document instead of printing it")
	flags.BoolVar(&keep, "keep", false, "keep the copy, a git repository with the commits before and after")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if (options.Module == "") == (options.Dir == "") || options.Kinds == "" || options.From == "" {
		return errors.New("name a module or a folder, a kind, and the version that it has")
	}
	options.PlanArgs = flags.Args()
	work, err := os.MkdirTemp("", "try-project-")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if keep {
		fmt.Fprintf(log, "The copy is %s.\n", filepath.Join(work, "project"))
	} else {
		defer os.RemoveAll(work) //nolint:errcheck // it is temporary
	}
	if options.Binary, err = filepath.Abs(options.Binary); err != nil {
		return fmt.Errorf("find api-migrator: %w", err)
	}
	options.Work = work
	row, err := trial.Run(ctx, options)
	if err != nil {
		return err
	}
	if into == "" {
		_, err := fmt.Fprint(out, row)
		return err
	}
	document, err := os.ReadFile(into)
	if err != nil {
		return fmt.Errorf("read document: %w", err)
	}
	content, err := trial.Insert(string(document), row)
	if err != nil {
		return fmt.Errorf("insert into %s: %w", into, err)
	}
	return os.WriteFile(into, []byte(content), 0o644)
}
