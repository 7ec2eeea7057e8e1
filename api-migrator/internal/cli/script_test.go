// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
)

// TestMain makes this test binary the command api-migrator in scripts.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"api-migrator": func() {
		os.Exit(Run(context.Background(), os.Args, Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
	}})
}

// TestScripts runs the scripts in testdata/script, each a case with its files
// (https://pkg.go.dev/github.com/rogpeppe/go-internal/testscript). Besides the usual commands they have those of
// commands. A new case is a new file; go test -update writes what cmp compares.
func TestScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, "script")
}

// runScripts runs those in a folder of testdata.
func runScripts(t *testing.T, folder string) {
	t.Helper()
	fixture.NeedsGo(t)
	projects, err := filepath.Abs("../testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", folder),
		Cmds:                scriptCommands(projects),
		RequireExplicitExec: true,
		UpdateScripts:       flag.Lookup("update").Value.String() == "true",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", os.Getenv("HOME")) // the go command has its caches there
			env.Setenv("CRDS", filepath.Join(projects, "..", "crd", "testdata"))
			env.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(env.WorkDir))
			return nil
		},
	})
}

// scriptCommands are those that scripts have of us.
func scriptCommands(projects string) map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		// project NAME [DIR] copies a fixture to DIR, or to a folder of its name.
		"project": func(ts *testscript.TestScript, _ bool, args []string) {
			dir := args[len(args)-1]
			ts.Check(os.CopyFS(ts.MkAbs(dir), os.DirFS(filepath.Join(projects, args[0]))))
		},
		// replace FILE OLD NEW [OLD NEW]... replaces every OLD; the first is there.
		"replace": func(ts *testscript.TestScript, _ bool, args []string) {
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], `\n`, "\n")
				args[i] = strings.ReplaceAll(args[i], `\t`, "\t")
			}
			text := ts.ReadFile(args[0])
			if !strings.Contains(text, args[1]) {
				ts.Fatalf("%s has no %q", args[0], args[1])
			}
			text = strings.NewReplacer(args[1:]...).Replace(text)
			ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o644))
		},
		// exits CODE COMMAND... runs a command and compares its exit code.
		"exits": func(ts *testscript.TestScript, _ bool, args []string) {
			code := 0
			exit := (*exec.ExitError)(nil)
			if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
				code = exit.ExitCode()
			} else {
				ts.Check(err)
			}
			if want, err := strconv.Atoi(args[0]); err != nil || code != want {
				ts.Fatalf("exit code %d, want %s", code, args[0])
			}
		},
		// refused TEXT COMMAND... runs a command that must exit with 1, write nothing to stdout, and two lines to
		// stderr: an error with the text, and what to try.
		"refused": func(ts *testscript.TestScript, _ bool, args []string) {
			exit := (*exec.ExitError)(nil)
			err := ts.Exec("api-migrator", args[1:]...)
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				ts.Fatalf("%v, want exit code 1", err)
			}
			lines := slices.Collect(strings.Lines(ts.ReadFile("stderr")))
			if out := ts.ReadFile("stdout"); out != "" || len(lines) != 2 || !strings.HasPrefix(lines[0], "error: ") ||
				!strings.Contains(lines[0], args[0]) || !strings.HasPrefix(lines[1], "Try: ") {
				ts.Fatalf("stdout %q, stderr %q; want nothing, and two lines with %q", out, lines, args[0])
			}
		},
	}
}
