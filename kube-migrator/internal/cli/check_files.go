// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/manifest"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/crdlife"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// manifestEndings are the endings of the files in a folder that are read.
var manifestEndings = []string{".yaml", ".yml", ".json"}

// readManifests reads the CustomResourceDefinitions in files and folders, and ignores other objects.
func (c *checkCommand) readManifests() ([]*crdlife.CRD, error) {
	crds, others, err := readCRDs(c.command, c.In, c.files)
	if err != nil {
		return nil, err
	}
	if len(crds) == 0 {
		fmt.Fprintf(c.Err, "There is no CustomResourceDefinition to judge (other objects: %d).\n", others)
	}
	manifests := make([]*crdlife.CRD, len(crds))
	for i, object := range crds {
		if manifests[i], err = crdlife.Parse(object.From, object.JSON); err != nil {
			return nil, exit.Usage(c.command, fmt.Errorf("%s: %w", object.From, err))
		}
	}
	return manifests, nil
}

// readCRDs reads the CustomResourceDefinitions in files and folders, and counts the other objects; in is standard input.
// It is an error if there is no object at all, because then something else has failed, for example the first command of
// a pipe.
func readCRDs(command *cobra.Command, in io.Reader,
	paths []string) (crds []manifest.Object, others int, err error) {
	for _, path := range paths {
		files, err := filesOf(path)
		if err != nil {
			return nil, 0, exit.Usage(command, fmt.Errorf("read manifests: %w", err))
		}
		for _, file := range files {
			objects, err := readObjects(in, file)
			if err != nil {
				return nil, 0, exit.Usage(command, err)
			}
			for _, object := range objects {
				if group, _, _ := strings.Cut(object.APIVersion, "/"); object.Kind == "CustomResourceDefinition" &&
					group == "apiextensions.k8s.io" {
					crds = append(crds, object)
				} else {
					others++
				}
			}
		}
	}
	if len(crds)+others == 0 {
		return nil, 0, exit.Usage(command, fmt.Errorf("there is no object in %s", strings.Join(shown(paths), ", ")))
	}
	return crds, others, nil
}

// shown returns paths for users.
func shown(paths []string) []string {
	names := slices.Clone(paths)
	for i, path := range names {
		if path == "-" {
			names[i] = crdlife.StandardInput
		}
	}
	return names
}

// filesOf returns the file itself, or the files in a folder and the folders below it whose endings are those of
// manifests.
func filesOf(path string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	var files []string
	err = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && slices.Contains(manifestEndings, filepath.Ext(name)) {
			files = append(files, name)
		}
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s has no file that ends in %s", path, strings.Join(manifestEndings, ", "))
	}
	return files, err
}

// readObjects returns the objects of a file, or of standard input.
func readObjects(in io.Reader, file string) ([]manifest.Object, error) {
	name, read := file, func() ([]byte, error) { return os.ReadFile(file) }
	if file == "-" {
		name, read = crdlife.StandardInput, func() ([]byte, error) { return io.ReadAll(in) }
	}
	data, err := read()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return manifest.Objects(name, data)
}

// judgeManifests compares each CRD with the live one.
func (g *gathering) judgeManifests(ctx context.Context) (upgrade.Report, error) {
	var findings []upgrade.Finding
	var understated []upgrade.Understatement
	find := finder(g.Client, func() error { return nil })
	for _, m := range g.manifests {
		life, err := crdlife.Gather(ctx, g.REST, m, find)
		if err != nil {
			return upgrade.Report{}, g.Explain("look at "+m.Name(), err)
		}
		if life.Live != nil {
			life.Live.Metadata.ResourceVersion = g.CRDVersion(life.Live.Metadata.ResourceVersion)
		}
		resource := m.Resource()
		f := upgrade.Facts{
			Resource: resource, Kind: m.Spec.Names.Kind, Held: g.Held[resource],
			Migrations: records.Matches(g.Migrations, func(m *v1alpha1.StorageVersionMigration) bool {
				return records.ResourceOf(m) == resource
			}),
		}
		if state := g.States[resource]; state != nil {
			g.Record(&f, state)
		}
		if at := g.index(resource); at >= 0 {
			f = g.Of(g.Inventory.Resources[at])
		}
		finding := g.question.JudgeCRD(m, life, f)
		if finding.Verdict == upgrade.Safe {
			// the plan would accept it; a user who may not write CRDs cannot ask the API server
			err := crdlife.Try(ctx, g.REST, m, life.Live)
			try := g.question.Program + " upgrade-crd --dry-run -f " + m.File()
			switch status := apierrors.APIStatus(nil); {
			case err == nil, apierrors.IsConflict(err), mayNotWrite(err):
			case !errors.As(err, &status), apierrors.IsServiceUnavailable(err), apierrors.IsTooManyRequests(err),
				apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
				finding = finding.Unasked(exit.OneLine(err).Error(), try)
			default:
				finding = finding.Refused(exit.OneLine(err).Error(), try)
			}
		}
		findings = append(findings, finding)
		understated = append(understated, g.question.Understated(f)...)
	}
	return g.question.Conclude(findings, understated, upgrade.Scope{}), nil
}

// mayNotWrite reports whether the user may not write CRDs, and so cannot ask the API server what it would refuse.
func mayNotWrite(err error) bool {
	return apierrors.IsForbidden(err) && (strings.Contains(err.Error(), "cannot update resource") ||
		strings.Contains(err.Error(), "cannot create resource"))
}
