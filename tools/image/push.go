// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// push pushes the index of all platforms, which is the one entry of an image layout's index, and returns its digest.
func push(to reference, layout v1.ImageIndex) (v1.Hash, error) {
	manifest, err := layout.IndexManifest()
	if err != nil {
		return v1.Hash{}, fmt.Errorf("read index: %w", err)
	}
	digest := manifest.Manifests[0].Digest
	platforms, err := layout.ImageIndex(digest)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("read index of platforms: %w", err)
	}
	tag, err := name.NewTag(to.full())
	if err != nil {
		return v1.Hash{}, err
	}
	if err := remote.WriteIndex(tag, platforms, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return v1.Hash{}, fmt.Errorf("push %s: %w", to, err)
	}
	return digest, nil
}
