// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// wantPlugin checks that kubectl runs the program as a plugin, and completes its arguments.
func wantPlugin(t *testing.T, user *cli) {
	t.Helper()
	plugins := t.TempDir()
	for _, name := range []string{"kubectl-migrator", "kubectl_complete-migrator"} {
		if err := os.Symlink(binary, filepath.Join(plugins, name)); err != nil {
			t.Fatal(err)
		}
	}
	kubectl, err := testbed.Binary(t.Context(), testbed.Newest, "kubectl", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	run := func(args string) string {
		t.Helper()
		return user.shell(0, "PATH="+plugins+":$PATH "+kubectl+" "+args).stdout
	}
	for args, want := range map[string][]string{
		"migrator migrate --help":       {"kubectl migrator migrate [RESOURCE…]", "  kubectl migrator migrate widgets.demo.example.com"},
		"migrator version":              {"kube-migrator "},
		"__complete migrator migr":      {"migrate\t"},
		"__complete migrator migrate w": {"widgets.demo.example.com\n", ":4\n"},
		"__complete migrator retire w":  {"widgets.demo.example.com\n", ":4\n"},
	} {
		out := run(args)
		for _, part := range want {
			if !strings.Contains(out, part) {
				t.Errorf("kubectl %s lacks %q:\n%s", args, part, out)
			}
		}
		if strings.Contains(out, "kube-migrator migrate") {
			t.Errorf("kubectl %s shows another name than that of the plugin:\n%s", args, out)
		}
	}
}
