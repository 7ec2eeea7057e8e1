// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/hint"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/tree"
)

// TestMain gives the tests a folder of their own for what transactions note, which processes that die share.
func TestMain(m *testing.M) {
	if os.Getenv(dieIn) != "" {
		os.Exit(m.Run())
	}
	os.Exit(withState(m))
}

func withState(m *testing.M) int {
	state, err := os.MkdirTemp("", "api-migrator-state-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(state)          //nolint:errcheck // it is temporary
	os.Setenv("XDG_STATE_HOME", state) //nolint:errcheck // the name is valid
	return m.Run()
}

func run(t *testing.T, dir, name string, args ...string) []byte {
	t.Helper()
	command := exec.Command(name, args...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

// filesOf reads all files but .git.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if entry != nil && entry.Name() == ".git" {
				return filepath.SkipDir
			}
			return err
		}
		content, err := os.ReadFile(name)
		rel, _ := filepath.Rel(dir, name)
		files[filepath.ToSlash(rel)] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		if err := tree.Put(dir, name, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
}

// commit commits all that has changed in a fixture.
func commit(t *testing.T, dir, message string) {
	t.Helper()
	run(t, dir, "git", "add", "-A", ".")
	run(t, dir, "git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", message)
}

// commits lists all commits but the first: subject and files.
func commits(t *testing.T, root string) []string {
	t.Helper()
	var list []string
	for hash := range strings.FieldsSeq(string(run(t, root, "git", "rev-list", "--reverse", "HEAD"))) {
		subject := strings.TrimSpace(string(run(t, root, "git", "show", "-s", "--format=%s", hash)))
		if subject == "before" {
			continue
		}
		files := strings.Join(strings.Fields(string(run(t, root, "git", "show", "--format=", "--name-status",
			"--no-renames", hash))), " ")
		list = append(list, subject+": "+files)
	}
	return list
}

func wantProblem(t *testing.T, err error, text string) {
	t.Helper()
	problem := (*hint.Error)(nil)
	if !errors.As(err, &problem) || !strings.Contains(problem.Error(), text) || problem.Try == "" {
		t.Errorf("got %v, want an error for the user with %q", err, text)
	}
}
