// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/yuin/goldmark/ast"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// A page with code blocks in the language "sh" is a session: a test runs these blocks one after another, in one folder
// and on one cluster. The comment <!-- exit code 2 --> before a block says how it ends. A block in the language "text"
// that follows is what the commands print; "…" stands for any characters, and a line of nothing else for any lines.
//
// Only the settle time differs from what a reader sees: the session's kube-migrator has one of a second.
func TestPagesDoWhatTheyShow(t *testing.T) {
	var pages int
	for _, d := range documents(t) {
		steps := d.steps(t)
		if len(steps) == 0 {
			continue
		}
		pages++
		t.Run(strings.NewReplacer("/", "_", ".md", "").Replace(d.path), func(t *testing.T) {
			t.Parallel()
			run(t, d.path, steps)
		})
	}
	if pages < 2 {
		t.Errorf("only %d pages show a session", pages)
	}
}

// step is one block of a session.
type step struct {
	line         int
	script, want string
	exit         int
}

func (d document) steps(t *testing.T) []step {
	t.Helper()
	var steps []step
	each(d, func(n *ast.FencedCodeBlock) {
		if string(n.Language(d.source)) != "sh" {
			return
		}
		s := step{line: d.line(n), script: d.block(n)}
		if before, ok := n.PreviousSibling().(*ast.HTMLBlock); ok {
			if _, err := fmt.Sscanf(d.block(before), "<!-- exit code %d -->", &s.exit); err != nil {
				t.Fatalf("%s:%d: the comment before the block: %v", d.path, s.line, err)
			}
		}
		if next, ok := n.NextSibling().(*ast.FencedCodeBlock); ok && string(next.Language(d.source)) == "text" {
			s.want = d.block(next)
		}
		steps = append(steps, s)
	})
	return steps
}

// run runs the steps of a page on a cluster of their own.
func run(t *testing.T, page string, steps []step) {
	t.Helper()
	cluster := testbed.New(t, testbed.Options{Isolated: true})
	kubeconfig, err := cluster.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	folder, programs := t.TempDir(), installed(t)
	for _, s := range steps {
		command := cluster.Command(t.Context(), "bash", "-euc", s.script)
		command.Dir = folder
		command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+folder,
			"PATH="+programs+string(filepath.ListSeparator)+os.Getenv("PATH"))
		out, err := command.CombinedOutput()
		code := 0
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s:%d\n%s%s", page, s.line, s.script, out)
		if code != s.exit {
			t.Fatalf("%s:%d: the exit code is %d, want %d", page, s.line, code, s.exit)
		}
		if s.want != "" && !shows(s.want, string(out)) {
			t.Fatalf("%s:%d: the page shows\n%s\nthe commands print\n%s", page, s.line, s.want, out)
		}
	}
}

// installed is a folder with the programs that pages use.
func installed(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	kubectl, err := testbed.Binary(t.Context(), testbed.Newest, "kubectl", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(kubectl, filepath.Join(folder, "kubectl")); err != nil {
		t.Fatal(err)
	}
	built := filepath.Join(t.TempDir(), "kube-migrator")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", built, "./kube-migrator")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build kube-migrator: %v\n%s", err, out)
	}
	// Only these commands wait until API servers have settled.
	script := "#!/bin/bash\ncase $1 in migrate | retire | upgrade-crd) exec " + built + ` "$@" --settle-time=1s ;; *) exec ` +
		built + ` "$@" ;; esac` + "\n"
	if err := os.WriteFile(filepath.Join(folder, "kube-migrator"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

// progress is what a command says while it waits; how often depends on the machine.
var progress = regexp.MustCompile(`(?m)^(\S+  (waiting|listing|rewriting|verifying) .*|Nothing is written until .*\n.*)\n`)

// shows reports whether the output of commands is what a page shows of it.
func shows(want, out string) bool {
	var pattern strings.Builder
	for line := range strings.Lines(want) {
		if strings.TrimSpace(line) == "…" {
			pattern.WriteString(`(.*\n)*`)
			continue
		}
		parts := strings.Split(strings.TrimRight(line, " \n"), "…")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		pattern.WriteString(strings.Join(parts, `.*`) + ` *\n`)
	}
	return regexp.MustCompile(`^` + pattern.String() + `$`).MatchString(progress.ReplaceAllString(out, ""))
}

func TestWhatAPageShowsIsCompared(t *testing.T) {
	for name, tt := range map[string]struct {
		want, out string
		shown     bool
	}{
		"the same":                       {"a\nb\n", "a\nb\n", true},
		"spaces at the end":              {"a\n", "a  \n", true},
		"another line":                   {"a\nb\n", "a\nc\n", false},
		"a line more":                    {"a\n", "a\nb\n", false},
		"a line less":                    {"a\nb\n", "a\n", false},
		"any characters":                 {"took … s\n", "took 0.1 s\n", true},
		"any lines":                      {"a\n…\nd\n", "a\nb\nc\nd\n", true},
		"no lines":                       {"a\n…\nd\n", "a\nd\n", true},
		"any lines, and another end":     {"a\n…\nd\n", "a\nb\nc\n", false},
		"characters with a meaning":      {"[v1] (yes)\n", "[v1] (yes)\n", true},
		"progress, which comes and goes": {"done\n", "widgets  waiting until 12:00:00: requests\ndone\n", true},
	} {
		if got := shows(tt.want, tt.out); got != tt.shown {
			t.Errorf("%s: %t, want %t", name, got, tt.shown)
		}
	}
}
