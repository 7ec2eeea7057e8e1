// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log"
	"net/http/httptest"
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

func TestARegistryThatRefusesIsNamed(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	image := strings.TrimPrefix(server.URL, "http://") + "/kube-migrator:v1"
	reference, err := parseReference(image)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := push(reference, unpack(t, pack(t, image, "linux/amd64"))); err == nil || !strings.Contains(err.Error(), "push "+image) {
		t.Errorf("error %v", err)
	}
}
