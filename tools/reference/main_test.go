// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// helpful stands for a program with one command.
const helpful = `#!/bin/sh
case "$*" in
--help) printf 'It helps.\n\nAvailable Commands:\n  check    looks\n  help     helps\n\nExit codes:\n  0\n' ;;
"check --help") printf 'It looks.\n\nGlobal Flags:\n      --kubeconfig string   a file\n' ;;
*) echo "what is $*?" >&2; exit 1 ;;
esac
`

func TestEveryCommandHasAPageAndOldPagesGo(t *testing.T) {
	dir := t.TempDir()
	gone, path := filepath.Join(dir, "helpful-gone.md"), filepath.Join(t.TempDir(), "helpful")
	if err := os.WriteFile(gone, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(helpful), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := program(path).write(t.Context(), dir, "helpful"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(gone); !os.IsNotExist(err) {
		t.Errorf("the page of a command that is gone is still there: %v", err)
	}
	for page, want := range map[string]string{
		"helpful.md": "- [check](helpful-check.md)\n",
		"helpful-check.md": "# helpful check\n\n```\nIt looks.\n```\n" +
			"\nThe flags of the connection, such as `--kubeconfig` and `--context`, are those of [helpful](helpful.md).\n",
	} {
		raw, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.HasSuffix(string(raw), want) {
			t.Errorf("%s does not end with %q:\n%s", page, want, raw)
		}
	}
}
