// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// StageMark begins a manifest that is no part of the project's own state: one of those in which clusters follow it.
const StageMark = "# Written by api-migrator stages"

// Manifest is a CustomResourceDefinition in a file of the tree, found by its content and not by its name.
type Manifest struct {
	File     string   `json:"file"`
	API      string   `json:"api"` // apiVersion of the manifest
	Name     string   `json:"name"`
	Group    string   `json:"group"`
	Kind     string   `json:"kind"`
	Plural   string   `json:"plural"`
	Scope    string   `json:"scope"`
	Versions []string `json:"versions"`
	Storage  string   `json:"storage"`
	// Series is the folder that holds a manifest of a release and those of other releases; empty for all others.
	Series string `json:"-"`
	// HasStatus reports whether a version has the status subresource.
	HasStatus bool `json:"-"`
}

// CRD is the part of a CustomResourceDefinition that says what it is about, in v1 and v1beta1.
type crd struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Kind   string `json:"kind"`
			Plural string `json:"plural"`
		} `json:"names"`
		Scope        string       `json:"scope"`
		Version      string       `json:"version"`
		Subresources subresources `json:"subresources"` // of all versions, in v1beta1
		Versions     []struct {
			Name         string       `json:"name"`
			Storage      bool         `json:"storage"`
			Subresources subresources `json:"subresources"`
		} `json:"versions"`
	} `json:"spec"`
}

// subresources are those of a version, as far as they matter here.
type subresources struct {
	Status *struct{} `json:"status"`
}

// Manifests finds every CustomResourceDefinition in the tree, sorted by file. Those with StageMark are left out, and
// those of releases.
func (p *Project) Manifests() ([]Manifest, error) {
	found, _, err := p.allManifests()
	return found, err
}

// Released finds the CustomResourceDefinitions in manifests of releases, which stay as they are.
func (p *Project) Released() ([]Manifest, error) {
	_, found, err := p.allManifests()
	return found, err
}

// allManifests reads the tree once: parsing large manifests takes seconds.
func (p *Project) allManifests() (current, released []Manifest, err error) {
	p.manifests.once.Do(func() {
		p.manifests.current, p.manifests.released, p.manifests.err = p.readManifests()
	})
	return slices.Clone(p.manifests.current), slices.Clone(p.manifests.released), p.manifests.err
}

func (p *Project) readManifests() (current, released []Manifest, err error) {
	var found []Manifest
	var files []string
	err = filepath.WalkDir(p.Root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && tree.IsForeign(entry.Name()):
			return filepath.SkipDir
		case !entry.Type().IsRegular() || !tree.IsManifest(name):
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files = append(files, p.relative(name))
		found = append(found, crds(p.relative(name), content)...)
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("look for manifests: %w", err)
	}
	releases := tree.Releases(files)
	for _, one := range found {
		if one.Series = releases[one.File]; one.Series != "" {
			released = append(released, one)
		} else {
			current = append(current, one)
		}
	}
	return current, released, nil
}

// CRDs takes the CustomResourceDefinitions out of a file, also out of lists. What is no YAML (a template) holds none.
func crds(file string, content []byte) []Manifest {
	if bytes.HasPrefix(content, []byte(StageMark)) {
		return nil
	}
	var found []Manifest
	for document := range bytes.SplitSeq(content, []byte("\n---")) {
		if !bytes.Contains(document, []byte(crdKind)) {
			continue
		}
		if object, err := yaml.YAMLToJSON(document); err == nil {
			found = append(found, crdsIn(file, object)...)
		}
	}
	return found
}

const crdKind = "CustomResourceDefinition"

// crdsIn takes them out of one object, in JSON.
func crdsIn(file string, document []byte) []Manifest {
	var object struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if json.Unmarshal(document, &object) != nil {
		return nil
	}
	var found []Manifest
	if strings.HasSuffix(object.Kind, "List") {
		for _, item := range object.Items {
			found = append(found, crdsIn(file, item)...)
		}
		return found
	}
	var crd crd
	if object.Kind != crdKind || json.Unmarshal(document, &crd) != nil ||
		!strings.HasPrefix(crd.APIVersion, "apiextensions.k8s.io/") {
		return nil
	}
	manifest := Manifest{File: file, API: crd.APIVersion, Name: crd.Metadata.Name, Group: crd.Spec.Group,
		Kind: crd.Spec.Names.Kind, Plural: crd.Spec.Names.Plural, Scope: crd.Spec.Scope,
		HasStatus: crd.Spec.Subresources.Status != nil}
	for _, version := range crd.Spec.Versions {
		manifest.HasStatus = manifest.HasStatus || version.Subresources.Status != nil
		manifest.Versions = append(manifest.Versions, version.Name)
		if version.Storage {
			manifest.Storage = version.Name
		}
	}
	if len(crd.Spec.Versions) == 0 && crd.Spec.Version != "" {
		manifest.Versions, manifest.Storage = []string{crd.Spec.Version}, crd.Spec.Version
	}
	return []Manifest{manifest}
}

var generatedHeader = regexp.MustCompile(`(?i)\bdo not edit\b|\bauto-?generated\b|\bgenerated (by|from)\b`)

// SaysGenerated reports whether the comments at the beginning of a manifest say that a program writes it.
func SaysGenerated(text string) bool {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && line != "---" && !strings.HasPrefix(line, "#") {
			return false
		}
		if generatedHeader.MatchString(line) {
			return true
		}
	}
	return false
}
