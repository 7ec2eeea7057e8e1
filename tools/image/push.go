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

// digestOf returns the digest of the index of all platforms, which is the one entry of an image layout's index.
func digestOf(layout v1.ImageIndex) (v1.Hash, error) {
	manifest, err := layout.IndexManifest()
	if err != nil {
		return v1.Hash{}, fmt.Errorf("read index: %w", err)
	}
	return manifest.Manifests[0].Digest, nil
}

// push pushes the index of all platforms, and returns its digest.
func push(to reference, layout v1.ImageIndex) (v1.Hash, error) {
	digest, err := digestOf(layout)
	if err != nil {
		return v1.Hash{}, err
	}
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
