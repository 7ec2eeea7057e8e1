// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// Whatever an API server, a file or the user calls things, nothing but printable text, line feeds and tabs reaches
// stdout and stderr.
func FuzzNoCommandWritesWhatATerminalWouldNotJustShow(f *testing.F) {
	f.Add("\x1b]0;title\a\x1b[2J")
	f.Add("\u009b31m\u202edesrever\r")
	f.Add("\xff\x00\b")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		status, err := json.Marshal(map[string]any{
			"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden",
			"code": http.StatusForbidden, "message": "forbidden: " + text,
		})
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			w.Write(status) //nolint:errcheck // the client is gone
		}))
		defer server.Close()
		crd := filepath.Join(dir, "crd.yaml")
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		manifest := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " +
			string(quoted) + "}\n"
		if err := os.WriteFile(crd, []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{"plan"}, {"migrate", "widgets"}, {"migrate", text}, {"audit", "--snapshot=" + crd},
			{"audit", "--snapshot=" + text}, {"check"}, {"check", "-f", crd},
			{"check", "--target-version=" + text}, {"upgrade-crd", "-f", crd}, {"upgrade-crd", "-f", text},
			{"retire", "widgets", "--version=v1"}, {"retire", text, "--version=" + text},
			{"install"}, {"install", "--include=" + text}, {"uninstall"}, {"request", "widgets"},
			{"request", "widgets", "--reason=" + text}, {"pause", text}, {"resume", "--all"},
			{"cancel", text}, {"progress"}, {"progress", text, "-o", text}, {"wait", "widgets"},
			{"version", "-o", text}, {"completion", text}, {text}, {"plan", "--" + text},
		} {
			var out, problems bytes.Buffer
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			Run(ctx, append([]string{"kube-migrator", "--server=" + server.URL}, args...),
				Streams{In: strings.NewReader(text), Out: &out, Err: &problems})
			cancel()
			for stream, written := range map[string]string{"stdout": out.String(), "stderr": problems.String()} {
				bad := func(r rune) bool {
					return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
				}
				if i := strings.IndexFunc(written, bad); i >= 0 || !utf8.ValidString(written) {
					t.Errorf("%q writes to %s what is not printable: %q", args, stream, written)
				}
			}
		}
	})
}
