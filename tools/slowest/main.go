// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command slowest lists, for each package, how long its tests took and which three of them took longest. It reads the
// output of go test -json from the file that its argument names.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// The list leaves out packages and tests that took less than a second.
const (
	listed   = 3
	shortest = 1.0
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "error: slowest takes one file, the output of go test -json")
		os.Exit(1)
	}
	file, err := os.Open(os.Args[1])
	if err == nil {
		err = list(os.Stdout, file)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// event is a line of go test -json that says how something ended. A package that ended has no Test.
type event struct {
	Action, Package, Test string
	Elapsed               float64 // seconds
}

// list writes a line for each package, the slowest first.
func list(w io.Writer, events io.Reader) error {
	var packages []event
	tests := map[string][]event{}
	scanner := bufio.NewScanner(events)
	scanner.Buffer(nil, 1<<26) // output of a test comes in lines, too
	for scanner.Scan() {
		var e event
		if err := json.Unmarshal(scanner.Bytes(), &e); err != nil {
			return fmt.Errorf("read %q: %w", scanner.Text(), err)
		}
		switch ended := e.Action == "pass" || e.Action == "fail"; {
		case !ended || e.Elapsed < shortest || strings.Contains(e.Test, "/"):
		case e.Test == "":
			packages = append(packages, e)
		default:
			tests[e.Package] = append(tests[e.Package], e)
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("read the events of the tests: %w", err)
	}
	slowestFirst(packages)
	for _, p := range packages {
		slow := tests[p.Package]
		slowestFirst(slow)
		var named []string
		for _, t := range slow[:min(listed, len(slow))] {
			named = append(named, fmt.Sprintf("%s %.0f s", t.Test, t.Elapsed))
		}
		line := fmt.Sprintf("%5.0f s  %s  %s", p.Elapsed, p.Package, strings.Join(named, ", "))
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}

func slowestFirst(events []event) {
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
}
