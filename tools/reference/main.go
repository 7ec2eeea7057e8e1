// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command reference writes what programs say of themselves, --help of every command, into a folder: one Markdown file
// for each. The flags that all commands of a program have are printed once, on the page of the program. Files of
// commands that are gone are removed. make generate calls it.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// program is the path of a program, whose name is its last element.
type program string

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "no folder and no program named\nTry: make generate")
		os.Exit(1)
	}
	for _, path := range os.Args[2:] {
		if err := program(path).write(context.Background(), os.Args[1], filepath.Base(path)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
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
	command := exec.CommandContext(ctx, string(run), args[1:]...)
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("run %s: %w: %s", strings.Join(args, " "), err, problems.String())
	}
	return string(out), nil
}
