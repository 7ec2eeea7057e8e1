// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func TestImageHoldsOneBinaryPerPlatformAndRunsItWithoutRoot(t *testing.T) {
	index := unpack(t, pack(t, "kube-migrator:v1.2.3", "linux/amd64", "linux/arm64"))
	if err := validate.Index(index); err != nil {
		t.Fatalf("the index is not valid: %v", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	annotations := manifest.Manifests[0].Annotations
	if got := annotations["io.containerd.image.name"]; got != "docker.io/library/kube-migrator:v1.2.3" {
		t.Errorf("containerd names the image %q", got)
	}
	if got := annotations["org.opencontainers.image.ref.name"]; got != "v1.2.3" {
		t.Errorf("the reference is %q", got)
	}
	platforms, err := index.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := platforms.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range inner.Manifests {
		names = append(names, m.Platform.String())
		image, err := platforms.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, image, m.Platform)
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(names, want) {
		t.Errorf("platforms %v, want %v", names, want)
	}
}

func checkImage(t *testing.T, image v1.Image, platform *v1.Platform) {
	t.Helper()
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if file.OS != platform.OS || file.Architecture != platform.Architecture {
		t.Errorf("the configuration of %s says %s/%s", platform, file.OS, file.Architecture)
	}
	if file.Config.User != "65532:65532" || !slices.Equal(file.Config.Entrypoint, []string{"/kube-migrator"}) {
		t.Errorf("%s runs %v as %q", platform, file.Config.Entrypoint, file.Config.User)
	}
	if got := file.Config.Labels["org.opencontainers.image.version"]; got != "v1.2.3" {
		t.Errorf("the version of %s is %q", platform, got)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%s has %d layers (%v)", platform, len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	entries := tar.NewReader(content)
	header, err := entries.Next()
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(entries)
	if err != nil {
		t.Fatal(err)
	}
	if header.Name != "kube-migrator" || header.Mode != 0o755 || header.Uid != 0 || string(body) != platform.String() {
		t.Errorf("%s holds %s, mode %o of user %d: %q", platform, header.Name, header.Mode, header.Uid, body)
	}
	if _, err := entries.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("%s holds more than its binary (%v)", platform, err)
	}
}

func TestSameBinariesMakeTheSameBytes(t *testing.T) {
	first := read(t, pack(t, "kube-migrator:v1", "linux/amd64", "linux/arm64"))
	time.Sleep(1100 * time.Millisecond) // times in a tar are whole seconds
	second := read(t, pack(t, "kube-migrator:v1", "linux/amd64", "linux/arm64"))
	if !bytes.Equal(first, second) {
		t.Error("two images of the same binaries differ")
	}
	if bytes.Equal(first, read(t, pack(t, "kube-migrator:v2", "linux/amd64", "linux/arm64"))) {
		t.Error("the image does not hold its name")
	}
}

func TestNamesAreWrittenInFull(t *testing.T) {
	for name, want := range map[string]string{
		"kube-migrator:v1":                      "docker.io/library/kube-migrator:v1",
		"example/kube-migrator:v1":              "docker.io/example/kube-migrator:v1",
		"registry.example.com:5000/a/b:v1":      "registry.example.com:5000/a/b:v1",
		"localhost:5000/kube-migrator:v1-dirty": "localhost:5000/kube-migrator:v1-dirty",
		"localhost/kube-migrator:v1":            "localhost/kube-migrator:v1",
	} {
		got, err := parseReference(name)
		if err != nil || got.full() != want || got.String() != name {
			t.Errorf("%s: %s, in full %s (%v), want %s", name, got, got.full(), err, want)
		}
	}
}

func TestMistakesOnTheCommandLineAreTold(t *testing.T) {
	for args, want := range map[string]string{
		"--output x linux/amd64=x":                              "--name is missing",
		"--name kube-migrator:v1 linux/amd64=x":                 "--output is missing",
		"--name kube-migrator:v1 --output x":                    "the binary is missing",
		"--name kube-migrator --output x linux/amd64=x":         "not a name with a tag",
		"--name kube-migrator:v1 --output x amd64=x":            "not a platform and its binary",
		"--name kube-migrator:v1 --output x linux/amd64":        "not a platform and its binary",
		"--name kube-migrator:v1 --output x linux/amd64=absent": "no such file",
	} {
		t.Run(args, func(t *testing.T) {
			t.Chdir(t.TempDir())
			err := run(strings.Fields(args))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one with %q", err, want)
			}
			if left, _ := os.ReadDir("."); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
}

// pack makes an image of binaries that hold the name of their platform, and returns its path.
func pack(t *testing.T, name string, platforms ...string) string {
	t.Helper()
	dir := t.TempDir()
	output := filepath.Join(dir, "image.tar")
	args := []string{"--name", name, "--output", output}
	for _, platform := range platforms {
		path := filepath.Join(dir, strings.ReplaceAll(platform, "/", "-"))
		if err := os.WriteFile(path, []byte(platform), 0o755); err != nil {
			t.Fatal(err)
		}
		args = append(args, platform+"="+path)
	}
	if err := run(args); err != nil {
		t.Fatal(err)
	}
	return output
}

// unpack returns the index of an image layout in a tar.
func unpack(t *testing.T, path string) v1.ImageIndex {
	t.Helper()
	dir := t.TempDir()
	entries := tar.NewReader(bytes.NewReader(read(t, path)))
	for {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(entries)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, header.Name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
