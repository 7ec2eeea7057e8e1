// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"fmt"
	"go/types"
	"os"
	"path/filepath"
	"slices"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/typeschema"
)

// Unkept compares the Go type of each kind and version with the schema of the version in each manifest. violations are
// about fields that API servers drop in the version and keep in another one of the same CRD: objects lose them when they
// become objects of the version. notes are about fields that no version keeps.
func Unkept(p *project.Project) (violations, notes []string, err error) {
	manifests, err := p.Manifests()
	if err != nil {
		return nil, nil, err
	}
	for _, v := range p.Versions() {
		for _, manifest := range manifests {
			_, isKind := v.Kind(manifest.Kind)
			if !isKind || manifest.Group != v.Group || !slices.Contains(manifest.Versions, v.Version) {
				continue
			}
			content, err := os.ReadFile(filepath.Join(p.Root, filepath.FromSlash(manifest.File)))
			if err != nil {
				return nil, nil, fmt.Errorf("read manifest: %w", err)
			}
			d, err := crd.Find(manifest.File, string(content), manifest.Group, manifest.Kind)
			if err != nil {
				notes = append(notes, fmt.Sprintf("%s: not compared with Go types: %v", manifest.File, err))
				continue
			}
			lost, missing, err := unkept(d, v.Version, v.Package.Types.Scope().Lookup(manifest.Kind).Type())
			if err != nil {
				return nil, nil, err
			}
			for _, fields := range groups(lost) {
				violations = append(violations, fmt.Sprintf("%s: the schema of %s drops fields that Go code writes, and that "+
					"another version keeps: %s", manifest.File, v.Version, described(p, fields)))
			}
			for _, fields := range groups(missing) {
				notes = append(notes, fmt.Sprintf("%s: API servers drop fields that Go code writes, since the schema of %s "+
					"lacks them: %s", manifest.File, v.Version, described(p, fields)))
			}
		}
	}
	return violations, notes, nil
}

// unkept divides the fields that a version drops by whether another version of the CRD keeps them.
func unkept(d *crd.CRD, version string, kind types.Type) (lost, missing []typeschema.Field, err error) {
	drops := func(version string) ([]typeschema.Field, error) {
		schema, err := d.Structural(version)
		if err != nil {
			return nil, err
		}
		return typeschema.Dropped(kind, schema)
	}
	if missing, err = drops(version); err != nil {
		return nil, nil, err
	}
	for _, other := range d.Versions() {
		dropped, err := drops(other)
		if err != nil {
			return nil, nil, err
		}
		kept, both := typeschema.Lost(dropped, missing)
		lost, missing = append(lost, kept...), both
	}
	return lost, missing, nil
}
