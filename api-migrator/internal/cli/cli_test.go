// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/internal/golden"
)

const guide = "../testdata/guide"

// call runs a command line as the user does.
func call(t *testing.T, args ...string) (out, complaint string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Run(t.Context(), append([]string{"api-migrator"}, args...),
		Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr})
	return stdout.String(), stderr.String(), code
}

func TestInspectShowsWhatAProjectHas(t *testing.T) {
	fixture.NeedsGo(t)
	out, complaint, code := call(t, "inspect", guide)
	if code != 0 || complaint != "" {
		t.Fatalf("exit code %d: %s", code, complaint)
	}
	golden.Compare(t, "testdata/inspect.txt", out)
	out, _, code = call(t, "inspect", "-o", "json", guide+"/pkg/apis")
	if code != 0 || !json.Valid([]byte(out)) {
		t.Fatalf("exit code %d: %s", code, out)
	}
	golden.Compare(t, "testdata/inspect.json", out)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(guide)); err != nil {
		t.Fatal(err)
	}
	const excluded = "//go:build windows\n\npackage apis\n"
	fixture.Write(t, dir, map[string]string{"pkg/apis/a.go": excluded, "pkg/apis/b.go": excluded})
	const want = "\nskipped, because of their build constraints:\n  pkg/apis/a.go\n  pkg/apis/b.go\n"
	if out, _, _ = call(t, "inspect", dir); !strings.HasSuffix(out, want) {
		t.Errorf("want at the end %q, got\n%s", want, out)
	}
}
