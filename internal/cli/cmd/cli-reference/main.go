// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command cli-reference writes what both programs say of themselves, --help of every command, into a folder: one
// Markdown file for each. The flags that all commands of a program have are printed once, on the page of the program.
// Files of commands that are gone are removed.
package main

//go:generate go run . ../../../../docs/cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/apicli"
	"github.com/kube-migrator/kube-migrator/internal/cli"
)

// program runs a command line, whose first element is the program's name.
type program func(ctx context.Context, args []string, out, problems *bytes.Buffer) (code int)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "no folder named\nTry: go generate ./internal/cli/...")
		os.Exit(1)
	}
	if err := write(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write replaces the Markdown files of both programs in a folder.
func write(ctx context.Context, dir string) error {
	programs := map[string]program{
		"kube-migrator": func(ctx context.Context, args []string, out, problems *bytes.Buffer) int {
			return cli.Run(ctx, args, cli.Streams{In: strings.NewReader(""), Out: out, Err: problems})
		},
		"api-migrator": func(ctx context.Context, args []string, out, problems *bytes.Buffer) int {
			return apicli.Run(ctx, args, apicli.Streams{In: strings.NewReader(""), Out: out, Err: problems})
		},
	}
	for name, run := range programs {
		if err := run.write(ctx, dir, name); err != nil {
			return err
		}
	}
	return nil
}

// write replaces the Markdown files of one program in a folder.
func (run program) write(ctx context.Context, dir, name string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	old, err := filepath.Glob(filepath.Join(dir, name+"*.md"))
	if err != nil {
		return fmt.Errorf("find old files: %w", err)
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove old file: %w", err)
		}
	}
	return run.writeCommand(ctx, dir, []string{name})
}

// writeCommand writes a command's file and those of the commands below it.
func (run program) writeCommand(ctx context.Context, dir string, command []string) error {
	help, err := run.output(ctx, append(slices.Clip(command), "--help"))
	if err != nil {
		return err
	}
	var page strings.Builder
	own, _, inherits := strings.Cut(help, "\nGlobal Flags:\n")
	fmt.Fprintf(&page, "# %s\n\n```\n%s\n```\n", strings.Join(command, " "), strings.TrimRight(own, "\n"))
	if inherits {
		fmt.Fprintf(&page, "\nThe flags of the connection, such as `--kubeconfig` and `--context`, are those of [%s](%s.md).\n",
			command[0], command[0])
	}
	names := below(help)
	for i, name := range names {
		if i == 0 {
			page.WriteString("\n")
		}
		fmt.Fprintf(&page, "- [%s](%s.md)\n", name, strings.Join(append(slices.Clip(command), name), "-"))
	}
	path := filepath.Join(dir, strings.Join(command, "-")+".md")
	if err := os.WriteFile(path, []byte(page.String()), 0o644); err != nil {
		return fmt.Errorf("write reference: %w", err)
	}
	for _, name := range names {
		if err := run.writeCommand(ctx, dir, append(slices.Clip(command), name)); err != nil {
			return err
		}
	}
	return nil
}

// below returns the commands that a help text lists under "Available Commands:".
func below(help string) []string {
	_, list, found := strings.Cut(help, "Available Commands:\n")
	if !found {
		return nil
	}
	list, _, _ = strings.Cut(list, "\n\n")
	var names []string
	for line := range strings.Lines(list) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "help" {
			names = append(names, fields[0])
		}
	}
	return names
}

// output runs a command line and returns what it prints.
func (run program) output(ctx context.Context, args []string) (string, error) {
	var out, problems bytes.Buffer
	if code := run(ctx, args, &out, &problems); code != 0 {
		return "", fmt.Errorf("run %s: exit code %d: %s", strings.Join(args, " "), code, problems.String())
	}
	return out.String(), nil
}
