// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const release = "v1.37.0"

// packed is an archive with programs that print their names.
func packed(t *testing.T, programs ...string) []byte {
	t.Helper()
	var content bytes.Buffer
	zipped := gzip.NewWriter(&content)
	files := tar.NewWriter(zipped)
	for _, name := range programs {
		script := "#!/bin/sh\necho " + name + "\n"
		header := &tar.Header{Name: "controller-tools/envtest/" + name, Mode: 0o755, Size: int64(len(script))}
		if err := files.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write([]byte(script)); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return content.Bytes()
}

func TestDownload(t *testing.T) {
	whole := packed(t, "kube-apiserver", "etcd", "kubectl", "README")
	another, one := packed(t, "etcd", "kube-apiserver", "kubectl"), packed(t, "etcd")
	notFound := []byte("<html>there is no such archive</html>")
	for name, tt := range map[string]struct {
		archive []byte
		listed  []byte // whose checksum the index has
		release string
		wants   string // what the error says
	}{
		"three programs":             {archive: whole, listed: whole, release: release},
		"another content":            {archive: another, listed: whole, release: release, wants: "its SHA-512 is"},
		"a byte behind the archive":  {archive: append(bytes.Clone(whole), 0), listed: whole, release: release, wants: "its SHA-512 is"},
		"a program is missing":       {archive: one, listed: one, release: release, wants: "it has only etcd"},
		"another release":            {archive: whole, listed: whole, release: "v1.36.0", wants: "does not have envtest-v1.37.0-"},
		"an archive that is not one": {archive: notFound, listed: notFound, release: release, wants: "gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			var server *httptest.Server
			server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/archive" {
					_, _ = w.Write(tt.archive)
					return
				}
				fmt.Fprintf(w, "releases:\n  %s:\n    envtest-%s-%s-%s.tar.gz:\n      hash: %x\n      selfLink: %s/archive\n", tt.release,
					tt.release, runtime.GOOS, runtime.GOARCH, sha512.Sum512(tt.listed), server.URL)
			}))
			defer server.Close()
			dir := t.TempDir()
			err := Download(t.Context(), server.URL+"/index", release, dir)
			left, _ := filepath.Glob(filepath.Join(dir, "*"))
			if tt.wants != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wants) || len(left) > 0 {
					t.Fatalf("the error is %v, want one with %q; left behind: %v", err, tt.wants, left)
				}
				return
			}
			if err != nil || len(left) != len(Programs) {
				t.Fatalf("downloaded %v: %v", left, err)
			}
			for _, program := range Programs {
				if out, err := exec.Command(filepath.Join(dir, program)).Output(); err != nil || string(out) != program+"\n" {
					t.Errorf("%s says %q: %v", program, out, err)
				}
			}
		})
	}
	t.Run("a server that does not have the index", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		defer server.Close()
		if err := Download(t.Context(), server.URL, release, t.TempDir()); err == nil ||
			!strings.Contains(err.Error(), "404 Not Found") {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestAssets(t *testing.T) {
	dir := t.TempDir()
	for name, script := range map[string]string{"kube-apiserver": "echo Kubernetes v1.37.0", "etcd": "echo etcd"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct{ dir, release, program, found, why string }{
		"of the release":                {dir, release, "etcd", filepath.Join(dir, "etcd"), ""},
		"of another release":            {dir, "v1.36.3", "etcd", "", "KUBEBUILDER_ASSETS has kube-apiserver v1.37.0"},
		"without the program":           {dir, release, "kubectl", "", "KUBEBUILDER_ASSETS has no kubectl"},
		"without programs":              {t.TempDir(), release, "etcd", "", "KUBEBUILDER_ASSETS has no kube-apiserver that runs: "},
		"not set":                       {"", release, "etcd", "", ""},
		"a program that no archive has": {dir, release, "kubelet", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(assetsEnv, tt.dir)
			if found, why := Assets(t.Context(), tt.release, tt.program); found != tt.found || !strings.HasPrefix(why, tt.why) ||
				why != "" && tt.why == "" {
				t.Errorf("found %q, %q, want %q, %q", found, why, tt.found, tt.why)
			}
		})
	}
}
