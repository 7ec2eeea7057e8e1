// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"errors"
	"fmt"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

const tryInspect = "api-migrator inspect"

// choose finds the hub and the spokes, sorted, and refuses what cannot be converted.
func choose(p *project.Project, request Request) (*project.Version, []*project.Version, error) {
	var versions []*project.Version
	var names, groups []string
	for _, v := range p.Versions() {
		if _, ok := v.Kind(request.Kind); ok {
			versions, names = append(versions, v), append(names, v.Name())
			if !slices.Contains(groups, v.Group) {
				groups = append(groups, v.Group)
			}
		}
	}
	group, _, ok := strings.Cut(request.Hub, "/")
	try := "api-migrator convert scaffold --kind " + request.Kind + " --hub "
	switch {
	case len(versions) == 0:
		return nil, nil, hint.Errorf(tryInspect, "no API version has a kind %s", request.Kind)
	case request.Hub != "" && !ok:
		return nil, nil, hint.Errorf(try+names[0], "%q is not a GROUP/VERSION such as %s", request.Hub, names[0])
	case request.Hub != "" && !slices.Contains(names, request.Hub):
		return nil, nil, hint.Errorf(tryInspect, "there is no %s in %s to be the hub; it is in: %s", request.Kind,
			request.Hub, strings.Join(names, ", "))
	case request.Hub == "" && len(groups) > 1:
		return nil, nil, hint.Errorf(try+names[0], "the groups %s all have a kind %s",
			strings.Join(groups, ", "), request.Kind)
	case request.Hub == "":
		group = groups[0]
	}
	versions = slices.DeleteFunc(versions, func(v *project.Version) bool { return v.Group != group })
	if len(versions) == 1 {
		return nil, nil, hint.Errorf("api-migrator plan --kind "+request.Kind+" --from "+versions[0].Name()+
			" --to "+group+"/VERSION",
			"%s is in one version only, %s: there is nothing to convert to", request.Kind, versions[0].Name())
	}
	hub, err := hubOf(p, versions, request)
	if err != nil {
		return nil, nil, err
	}
	spokes := slices.DeleteFunc(versions, func(v *project.Version) bool { return v == hub })
	for _, spoke := range spokes {
		if ours, theirs := p.Workspace.ModuleOf(spoke.Package.Dir), p.Workspace.ModuleOf(hub.Package.Dir); ours != theirs {
			return nil, nil, hint.Errorf(tryInspect,
				"%s is in the module %s and %s in %s: conversion is written for versions of one module",
				spoke.Name(), ours.Path, hub.Name(), theirs.Path)
		}
	}
	return hub, spokes, checkVersions(hub, spokes, request.Kind)
}

// hubOf is the version that was asked for, or else the one that objects are stored in.
func hubOf(p *project.Project, versions []*project.Version, request Request) (*project.Version, error) {
	wanted := func(v *project.Version) bool { return v.Name() == request.Hub }
	if request.Hub == "" {
		wanted = func(v *project.Version) bool { kind, _ := v.Kind(request.Kind); return kind.Storage }
	}
	if !slices.ContainsFunc(versions, wanted) { // no markers: the manifests know
		manifests, err := p.Manifests()
		if err != nil {
			return nil, err
		}
		wanted = func(v *project.Version) bool {
			return slices.ContainsFunc(manifests, func(m project.Manifest) bool {
				return m.Group == v.Group && m.Kind == request.Kind && m.Storage == v.Version
			})
		}
	}
	var found, names []string
	var hub *project.Version
	for _, v := range versions {
		names = append(names, v.Version)
		if wanted(v) {
			hub, found = v, append(found, v.Version)
		}
	}
	if len(found) != 1 {
		said := "none of the versions " + strings.Join(names, ", ")
		if len(found) > 1 {
			said = "each of the versions " + strings.Join(found, ", ")
		}
		return nil, hint.Errorf("api-migrator convert scaffold --kind "+request.Kind+" --hub "+
			versions[len(versions)-1].Name(),
			"%s says that %s is stored in it: the hub has to be named", said, request.Kind)
	}
	return hub, nil
}

// checkVersions refuses versions whose code stands against the conversion.
func checkVersions(hub *project.Version, spokes []*project.Version, kind string) error {
	if !hub.HasMethod(kind, "DeepCopyObject") {
		return hint.Errorf("make generate", "%s of %s has no DeepCopy methods yet", kind, hub.Name())
	}
	for _, method := range []string{"ConvertTo", "ConvertFrom"} {
		if hub.HasMethod(kind, method) {
			return hint.Errorf(tryHub(spokes, kind),
				"%s of %s has a method %s already: it is a spoke and cannot be the hub", kind, hub.Name(), method)
		}
	}
	for _, spoke := range spokes {
		to, from := spoke.HasMethod(kind, "ConvertTo"), spoke.HasMethod(kind, "ConvertFrom")
		switch {
		case spoke.HasMethod(kind, "Hub"):
			return hint.Errorf("api-migrator convert scaffold --kind "+kind+" --hub "+spoke.Name(),
				"%s of %s is a hub already, and there can be one only", kind, spoke.Name())
		case to != from:
			return hint.Errorf("git grep -n 'func (.*"+kind+") Convert' "+spoke.Package.Dir,
				"%s of %s has one of ConvertTo and ConvertFrom: write the other one, or remove it", kind, spoke.Name())
		case !spoke.HasMethod(kind, "DeepCopyObject"):
			return hint.Errorf("make generate", "%s of %s has no DeepCopy methods yet", kind, spoke.Name())
		case reaches(hub.Package.Types, spoke.Package.Path, map[*types.Package]bool{}):
			return hint.Errorf("api-migrator convert scaffold --kind "+kind+" --hub "+spoke.Name(),
				"%s imports %s, so that code there cannot import the hub: make %s the hub", hub.Package.Path,
				spoke.Package.Path, spoke.Name())
		}
	}
	return nil
}

// tryHub proposes the version that is the hub already, or else one that can be.
func tryHub(versions []*project.Version, kind string) string {
	isHub := func(v *project.Version) bool { return v.HasMethod(kind, "Hub") }
	canBe := func(v *project.Version) bool {
		return !v.HasMethod(kind, "ConvertTo") && !v.HasMethod(kind, "ConvertFrom")
	}
	for _, fits := range []func(*project.Version) bool{isHub, canBe} {
		if at := slices.IndexFunc(versions, fits); at >= 0 {
			return "api-migrator convert scaffold --kind " + kind + " --hub " + versions[at].Name()
		}
	}
	return tryInspect
}

func reaches(from *types.Package, importPath string, seen map[*types.Package]bool) bool {
	if seen[from] {
		return false
	}
	seen[from] = true
	return slices.ContainsFunc(from.Imports(), func(one *types.Package) bool {
		return one.Path() == importPath || reaches(one, importPath, seen)
	})
}

// typeOf is the kind's struct in a version.
func typeOf(version *project.Version, kind string) *types.Named {
	named, _ := version.Package.Types.Scope().Lookup(kind).Type().(*types.Named)
	return named
}

func exists(root, name string) (bool, error) {
	_, err := os.Stat(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("look for file: %w", err)
	}
	return err == nil, nil
}
