// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build page

package page

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// axe-core checks pages for people with disabilities. It is used here alone, and is no part of what we release.
const (
	axeVersion   = "4.14.1"
	axeIntegrity = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)

// axe returns the script. npm downloads its package once, into the folder of the testbed's binaries.
func axe(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("KUBE_MIGRATOR_TESTBED")
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		folder = filepath.Join(cache, "kube-migrator", "testbed")
	}
	archive := filepath.Join(folder, "axe-core-"+axeVersion+".tgz")
	raw, err := os.ReadFile(archive)
	if errors.Is(err, fs.ErrNotExist) {
		raw = download(t, filepath.Base(archive))
		if err = os.MkdirAll(folder, 0o755); err == nil {
			err = os.WriteFile(archive, raw, 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha512.Sum512(raw); base64.StdEncoding.EncodeToString(sum[:]) != axeIntegrity {
		t.Fatalf("%s is not the package that is pinned\nTry: rm %s", archive, archive)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if err != nil {
			t.Fatal(err)
		}
		if header.Name == "package/axe.min.js" {
			script, err := io.ReadAll(files)
			if err != nil {
				t.Fatal(err)
			}
			return string(script)
		}
	}
}

// download returns the package from the npm registry.
func download(t *testing.T, name string) []byte {
	t.Helper()
	pack := exec.CommandContext(t.Context(), "npm", "pack", "--ignore-scripts", "axe-core@"+axeVersion)
	pack.Dir = t.TempDir()
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("download axe-core: %v: %s\nTry: apt-get install npm", err, out)
	}
	raw, err := os.ReadFile(filepath.Join(pack.Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// accessible fails the test if the page that is shown violates a rule of axe-core.
func (p *tab) accessible(t *testing.T, script string) {
	t.Helper()
	p.value(t, script+";0", nil)
	var result struct {
		Passes     int
		Violations []string
	}
	p.value(t, `axe.run(document).then(r => ({passes: r.passes.length, violations: r.violations.map(v => v.id + ' (' + v.impact + '): ' +
		v.nodes.slice(0, 2).map(n => n.html + ' ' + n.failureSummary).join('\n'))}))`, &result)
	if result.Passes < 15 {
		t.Errorf("only %d rules were applied", result.Passes)
	}
	if len(result.Violations) > 0 {
		t.Errorf("%d rules are violated:\n%s", len(result.Violations), strings.Join(result.Violations, "\n"))
	}
}
