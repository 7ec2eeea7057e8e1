// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command record runs a command and draws what it prints as an animated SVG, for a page that people read:
//
//	go -C tools build -o ../bin/record ./record
//	bin/record --output docs/demo.svg --title 'A cluster is migrated' bin/demo --binary=bin/kube-migrator
//
// The animation runs once and ends with the last lines. Its pauses follow those of the command, but are short.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("record", flag.ContinueOnError)
	output := flags.String("output", "", "file that the SVG is written to")
	title := flags.String("title", "", "what the recording shows, for those who cannot see it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *output == "":
		return fmt.Errorf("--output is missing, such as --output demo.svg")
	case *title == "":
		return fmt.Errorf("--title is missing, such as --title 'A cluster is migrated'")
	case flags.NArg() == 0:
		return fmt.Errorf("the command is missing, such as make demo")
	}
	lines, err := listen(ctx, flags.Args())
	if err != nil {
		return err
	}
	return os.WriteFile(*output, []byte(draw(*title, lines)), 0o644)
}

// line is a line of the output, and how long after the one before it came.
type line struct {
	text  string
	after time.Duration
}

// temporary is a path of the machine that records, which means nothing to a reader.
var temporary = regexp.MustCompile(regexp.QuoteMeta(os.TempDir()) + `/[^\s'"]+`)

// listen runs the command, shows its output, and returns it.
func listen(ctx context.Context, args []string) ([]line, error) {
	command := exec.CommandContext(ctx, args[0], args[1:]...)
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	command.Stdout, command.Stderr = in, in
	err = command.Start()
	in.Close()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	var lines []line
	last := time.Now()
	for scanner := bufio.NewScanner(out); scanner.Scan(); {
		now := time.Now()
		text := temporary.ReplaceAllString(strings.TrimRight(scanner.Text(), " "), "…")
		lines = append(lines, line{text, now.Sub(last)})
		last = now
		fmt.Println(scanner.Text())
	}
	if err := command.Wait(); err != nil {
		return nil, fmt.Errorf("run %s: %w", strings.Join(args, " "), err)
	}
	return lines, nil
}
