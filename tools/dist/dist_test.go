// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const image = "registry.example.com/kube-migrator:v1.2.3@sha256:0123"

// made packs two platforms in a folder of its own, out of files that were written at a time.
func made(t *testing.T, version string, at time.Time) string {
	t.Helper()
	programs, output := t.TempDir(), t.TempDir()
	for name, content := range map[string]string{
		"linux/kube-migrator": "for Linux", "linux/api-migrator": "for authors", "windows/kube-migrator.exe": "for Windows",
	} {
		path := filepath.Join(programs, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o755),
			os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := run([]string{"--version", version, "--image", image, "--root", "../..", "--output", output, "--url",
		"https://example.com/download/", "linux/amd64=" + filepath.Join(programs, "linux"),
		"windows/amd64=" + filepath.Join(programs, "windows")}); err != nil {
		t.Fatal(err)
	}
	return output
}

// unpack returns the files of an archive, each with its mode.
func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	uncompressed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(uncompressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = header.FileInfo().Mode().String() + " " + string(content)
	}
}

func TestAnArchiveHasTheProgramsAndTheLicence(t *testing.T) {
	files := unpack(t, filepath.Join(made(t, "v1.2.3", time.Now()), "kube-migrator-linux-amd64.tar.gz"))
	if files["kube-migrator"] != "-rwxr-xr-x for Linux" || files["api-migrator"] != "-rwxr-xr-x for authors" ||
		!strings.HasPrefix(files["LICENSE"], "-rw-r--r-- ") || len(files) != 3 {
		t.Errorf("got %v", files)
	}
}

func TestTheManifestOfKrewHasTheArchivesAsTheyAre(t *testing.T) {
	output := made(t, "v1.2.3", time.Now())
	manifest, err := os.ReadFile(filepath.Join(output, "migrator.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(output, "kube-migrator-windows-amd64.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	for _, want := range []string{"  version: v1.2.3\n", "        os: windows\n        arch: amd64\n",
		"    uri: https://example.com/download/kube-migrator-windows-amd64.tar.gz\n    sha256: " +
			hex.EncodeToString(sum[:]) + "\n    bin: kube-migrator.exe\n"} {
		if !strings.Contains(string(manifest), want) {
			t.Errorf("the manifest lacks %q:\n%s", want, manifest)
		}
	}
}

func TestTheChartInstallsTheImageOfTheRelease(t *testing.T) {
	files := unpack(t, filepath.Join(made(t, "v1.2.3", time.Now()), "kube-migrator-1.2.3.tgz"))
	if chart := files["kube-migrator/Chart.yaml"]; !strings.Contains(chart, "\nversion: 1.2.3\nappVersion: 1.2.3\n") {
		t.Errorf("Chart.yaml: %s", chart)
	}
	if values := files["kube-migrator/values.yaml"]; !strings.Contains(values, "\nimage: "+image+"\n") {
		t.Errorf("values.yaml: %s", values)
	}
	if _, ok := files["kube-migrator/templates/crds.yaml"]; !ok {
		t.Error("the chart has no CRDs")
	}
}

func TestTheSameFilesMakeTheSameBytes(t *testing.T) {
	one, other := made(t, "v1.2.3", time.Now()), made(t, "v1.2.3", time.Now().Add(-time.Hour))
	names, err := os.ReadDir(one)
	if err != nil || len(names) != 4 {
		t.Fatalf("%v: %v", names, err)
	}
	for _, entry := range names {
		a, err := os.ReadFile(filepath.Join(one, entry.Name()))
		b, err2 := os.ReadFile(filepath.Join(other, entry.Name()))
		if err := errors.Join(err, err2); err != nil || string(a) != string(b) {
			t.Errorf("%s differs: %v", entry.Name(), err)
		}
	}
}

func TestVersionsAreSemantic(t *testing.T) {
	for text, want := range map[string]string{
		"v1.2.3": "v1.2.3", "v1.2.3-rc.1": "v1.2.3-rc.1", "v1.2.3-4-gabc": "v1.2.3-4-gabc",
		"0395b62": "v0.0.0-g0395b62", "unknown": "v0.0.0-gunknown", "v1.2": "v0.0.0-gv1-2",
	} {
		if got := semantic(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
