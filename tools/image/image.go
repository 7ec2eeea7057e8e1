// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user runs the binary. It has no name in the image, which has no /etc/passwd, and a pod with runAsNonRoot needs it as
// a number.
const user = "65532:65532"

// Annotations of the index that give the image its name. The first is the one of containerd, which takes it as it is:
// it has to be the full name that a kubelet asks for. The second is the one of the image specification, which podman
// and skopeo read.
const (
	containerdName = "io.containerd.image.name"
	referenceName  = "org.opencontainers.image.ref.name"
)

// newIndex makes the index of an image layout, which holds one index of images for all platforms.
func newIndex(name reference, command string, binaries []binary) (v1.ImageIndex, error) {
	platforms := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range binaries {
		image, err := newImage(name, command, b)
		if err != nil {
			return nil, fmt.Errorf("pack %s for %s: %w", b.path, b.platform, err)
		}
		platforms = mutate.AppendManifests(platforms,
			mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &b.platform}})
	}
	return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add:        platforms,
		Descriptor: v1.Descriptor{Annotations: map[string]string{containerdName: name.full(), referenceName: name.tag}},
	}), nil
}

func newImage(name reference, command string, b binary) (v1.Image, error) {
	content, err := layerTar(command, b.path)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching,
	)
	if err != nil {
		return nil, fmt.Errorf("make layer: %w", err)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer:     layer,
		History:   v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "tools/image"},
		MediaType: types.OCILayer,
	})
	if err != nil {
		return nil, fmt.Errorf("append layer: %w", err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = b.platform.OS, b.platform.Architecture
	file.Created = v1.Time{Time: epoch}
	file.Config = v1.Config{
		User:       user,
		Entrypoint: []string{"/" + command},
		WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":    command,
			"org.opencontainers.image.version":  name.tag,
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source":   "https://github.com/kube-migrator/kube-migrator",
		},
	}
	return mutate.ConfigFile(image, file)
}

// epoch is the time of everything in an image: one that says when it was packed would never be the same twice.
var epoch = time.Unix(0, 0).UTC()

// layerTar returns the content of a layer: the binary, which belongs to root, so that it cannot write itself.
func layerTar(command, path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := writeEntry(w, command, 0o755, content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return layer.Bytes(), nil
}

func writeEntry(w *tar.Writer, name string, mode int64, content []byte) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), ModTime: epoch}
	if err := w.WriteHeader(header); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if _, err := w.Write(content); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
