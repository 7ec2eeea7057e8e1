// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func TestARegistryGetsTheImageThatTheFileHolds(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	image := strings.TrimPrefix(server.URL, "http://") + "/project/kube-migrator:v1.2.3"
	file := unpack(t, pack(t, image, "linux/amd64", "linux/arm64"))
	written, err := file.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	reference, err := parseReference(image)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := push(reference, file)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(image)
	if err != nil {
		t.Fatal(err)
	}
	pushed, err := remote.Get(tag)
	if err != nil {
		t.Fatal(err)
	}
	if want := written.Manifests[0].Digest; digest != want || pushed.Digest != want {
		t.Errorf("the file holds %s, the registry %s, and %s was reported", want, pushed.Digest, digest)
	}
}

// The command of a release names its image by this digest before the image is pushed.
func TestTheDigestIsNotedThatARegistryWillHave(t *testing.T) {
	dir := t.TempDir()
	binary, tar, noted := filepath.Join(dir, "binary"), filepath.Join(dir, "image.tar"), filepath.Join(dir, "digest")
	if err := os.WriteFile(binary, []byte("binary"), 0o755); err != nil {
		t.Fatal(err)
	}
	const image = "registry.example.com/kube-migrator:v1"
	if err := run([]string{"--name", image, "--output", tar, "--digest", noted, "linux/amd64=" + binary}); err != nil {
		t.Fatal(err)
	}
	written, err := unpack(t, tar).IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(read(t, noted)), written.Manifests[0].Digest.String()+"\n"; got != want {
		t.Errorf("noted %q, want %q", got, want)
	}
}

func TestARegistryThatRefusesIsNamed(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	image := strings.TrimPrefix(server.URL, "http://") + "/kube-migrator:v1"
	reference, err := parseReference(image)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := push(reference, unpack(t, pack(t, image, "linux/amd64"))); err == nil ||
		!strings.Contains(err.Error(), "push "+image) {
		t.Errorf("error %v", err)
	}
}
