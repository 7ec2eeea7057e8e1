// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
)

// unshown tells of a character that a terminal would not just show.
func unshown(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
}

// wantShown runs a command line on a terminal.
func wantShown(t *testing.T, in string, args ...string) (all string) {
	t.Helper()
	var out, problems bytes.Buffer
	Run(t.Context(), append([]string{"api-migrator"}, args...),
		Streams{In: strings.NewReader(in), Out: &out, Err: &problems, Terminal: true})
	for stream, written := range map[string]string{"stdout": out.String(), "stderr": problems.String()} {
		if i := strings.IndexFunc(written, unshown); i >= 0 || !utf8.ValidString(written) {
			t.Errorf("%q writes to %s what is not printable: %q", args, stream, written)
		}
	}
	return out.String() + problems.String()
}

// hostileProject is a folder whose files hold a text wherever they can: names, values, comments, and what a compiler
// complains about.
func hostileProject(t testing.TB, dir, text string) {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	crd := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + string(quoted) +
		"}\nspec:\n  group: " + string(quoted) +
		"\n  names: {kind: " + string(quoted) + ", plural: widgets}\n  versions:\n  - {name: " + string(quoted) +
		", served: true, storage: true, schema: {openAPIV3Schema: {type: " + string(quoted) + "}}}\n"
	for name, content := range map[string]string{
		"go.mod": "module example.com/x\n\ngo 1.26\n",
		"api/v1/types.go": "// " + strings.ReplaceAll(text, "\n", " ") +
			"\n// +groupName=demo.example.com\npackage v1\n\nconst a = " + strconv.Quote(text) +
			"\n\nvar b = " + text + "\n",
		"crd.yaml":                crd,
		"plan.yaml":               "format: " + string(quoted) + "\n",
		"other.yaml":              "format: api-migrator/v1\n" + strings.ReplaceAll(text, "\n", " ") + ": 1\n",
		"config/crd/bases/a.yaml": crd,
	} {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever a repository, a manifest or the user calls things, nothing but printable text, line feeds and tabs reaches a
// terminal.
func FuzzNoCommandWritesWhatATerminalWouldNotJustShow(f *testing.F) {
	fixture.NeedsGo(f)
	f.Add("\x1b]0;title\a\x1b[2J")
	f.Add("\u009b31m\u202edesrever\r")
	f.Add("\xff\x00\b")
	dir := f.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	f.Fuzz(func(t *testing.T, text string) {
		hostileProject(t, dir, text)
		for _, args := range [][]string{
			{"inspect", dir}, {"inspect", text}, {"inspect", "-o", text, dir},
			{"plan", "-C", dir, "--kind", text, "--from", text, "--to", text},
			{"plan", "-C", dir, "--kind", "A", "--from", "demo.example.com/v1", "--to", "demo.example.com/v2"},
			{"plan", "--kind", "A", "--assign", text},
			{"diff", "-C", dir, at("plan.yaml")}, {"diff", "-"}, {"apply", "-C", dir, at("other.yaml")},
			{"apply", text}, {"verify", dir}, {"verify", text},
			{"stages", at("crd.yaml"), "--from", text, "--to", "v2"}, {"stages", text, "--from", "v1", "--to", "v2"},
			{"stages", at("crd.yaml"), "--from", "v1", "--to", text, "-o", "json"},
			{"crd", "check", at("crd.yaml"), at("crd.yaml")}, {"crd", "check", at("crd.yaml"), text},
			{"crd", "upgrade", at("crd.yaml"), "--diff"}, {"crd", "upgrade", text},
			{"convert", "-C", dir, "--kind", text}, {"convert", "-C", dir, "--kind", "A", "--from", text},
			{"crd", text}, {text}, {"plan", "--" + text}, {"help", text},
		} {
			wantShown(t, text, args...)
		}
	})
}

func TestAPatchIsTextOnATerminalAndByteForByteElsewhere(t *testing.T) {
	dir := t.TempDir()
	manifest, err := os.ReadFile(filepath.Join(manifests, "upgrade", "guide.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const oldName = "deploy/crds/operators_v1_catalogsourceconfig_crd.yaml"
	if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(oldName)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, oldName), manifest, 0o644); err != nil {
		t.Fatal(err)
	}
	makefile := "install:\n\tkubectl apply -f deploy/crds/operators_v1_catalogsourceconfig_crd.yaml # \u200d\x1b[2J\n"
	if err := os.WriteFile(filepath.Join(dir, "Makefile"), []byte(makefile), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"crd", "upgrade", "--diff", "--to-version", "v2", "--dir", dir, filepath.Join(dir, oldName)}
	shown := wantShown(t, "", args...)
	piped, complaint, _ := call(t, args...)
	if !strings.Contains(shown, `\u001b[2J`) || !strings.Contains(piped, "\u200d\x1b[2J") {
		t.Errorf("the terminal gets %q, a pipe %q (%s)", shown, piped, complaint)
	}
}
