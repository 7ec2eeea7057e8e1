// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// reference is the name of an image: repository and tag.
type reference struct {
	repository, tag string
	// registry and path are the repository in full.
	registry, path string
}

// parseReference reads a name with a tag. Without one, a cluster would never take the image from the node.
func parseReference(s string) (reference, error) {
	tag, err := name.NewTag(s, name.WithDefaultTag(""))
	if err != nil || tag.TagStr() == "" {
		return reference{}, fmt.Errorf("%q is not a name with a tag, such as kube-migrator:v1.0.0", s)
	}
	registry := tag.RegistryStr()
	if registry == name.DefaultRegistry {
		registry = "docker.io" // what everybody but the registry's own protocol calls it
	}
	return reference{repository: strings.TrimSuffix(s, ":"+tag.TagStr()), tag: tag.TagStr(), registry: registry,
		path: tag.RepositoryStr()}, nil
}

// String returns the name as it was given.
func (r reference) String() string { return r.repository + ":" + r.tag }

// base returns the last part of the repository.
func (r reference) base() string { return path.Base(r.path) }

// full returns the name that a kubelet makes of a short one: docker.io/library/kube-migrator:v1 of kube-migrator:v1.
func (r reference) full() string { return r.registry + "/" + r.path + ":" + r.tag }
