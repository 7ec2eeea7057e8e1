// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
	"github.com/kube-migrator/kube-migrator/internal/shell"
)

// Conversions reports kinds whose versions cannot be converted after the migration: those of which two versions are the
// hub, those whose CRD has API servers call a webhook for which there is no code, and those that get a CRD of their own
// together with the conversion to a hub of the old one.
func Conversions(l *layout.Layout, before changeset.Set) (changeset.Result, error) {
	s := begin(l, before)
	err := s.checkConversions()
	return s.Result, err
}

func (s *documents) checkConversions() error {
	if s.MovesOnlyImporters() {
		return nil
	}
	for _, one := range s.Successions {
		if to := s.Old.Method(one.Old.Kind, "ConvertTo"); to != nil {
			s.Warn(s.Project.Place(to.Pos()), "%s of %s has ConvertTo and ConvertFrom too, which convert to a hub of %s. No CRD converts "+
				"to another one: without a hub in its own group, controller-runtime reports an error when the kind's webhooks are set "+
				"up, and the manager does not start. Remove both methods there", one.Successor.Kind, s.Request.To, s.Old.Group)
		}
	}
	if len(s.Successions) > 0 {
		return nil
	}
	for _, kind := range s.Request.Kinds {
		hubs, spokes := s.hubs(kind)
		if hub := s.Old.Method(kind, "Hub"); hub != nil && len(hubs) > 1 {
			s.Warn(s.Project.Place(hub.Pos()), "%s is the hub of conversions in %s. controller-runtime "+
				"accepts one hub only: it reports an error when the kind's webhooks are set up, and the manager does not start. "+
				"Remove the method Hub of one version, and write the conversion of that version: %s, with the hub that stays",
				kind, strings.Join(hubs, " and in "), scaffold(kind, "GROUP/VERSION"))
			continue
		}
		if len(hubs)+spokes > 0 || s.Request.WithoutCRDs {
			continue
		}
		webhook, err := s.conversionWebhook(kind)
		if err != nil {
			return err
		}
		if webhook != "" {
			s.Warn(webhook, "API servers call a webhook to convert %s, and no version has the methods that controller-runtime's "+
				"webhook calls (Hub, or ConvertTo and ConvertFrom). Unless another program converts them, requests in a version "+
				"that is not stored fail. Write the conversion: %s. Or set conversion strategy None, which suffices "+
				"as long as all versions have the same fields", kind, scaffold(kind, s.Group+"/"+s.Version))
		}
	}
	return nil
}

func scaffold(kind, hub string) string {
	return fmt.Sprintf("api-migrator convert scaffold --kind %s --hub %s", shell.Quote(kind), hub)
}

// hubs are the versions of a kind that are a hub after the migration, and how many are spokes. The new version has the
// methods of the old one.
func (s *documents) hubs(kind string) (hubs []string, spokes int) {
	count := func(name string, has *project.Version) {
		switch {
		case has.HasMethod(kind, "Hub"):
			hubs = append(hubs, name)
		case has.HasMethod(kind, "ConvertTo"):
			spokes++
		}
	}
	for _, version := range s.Project.Versions() {
		if version.Group != s.Group || version.Version == s.Version ||
			version.Name() == s.Old.Name() && s.Request.Old == request.OldRemove {
			continue
		}
		count(version.Name(), version)
	}
	count(s.Group+"/"+s.Version, s.Old)
	return hubs, spokes
}

// conversionWebhook is the file that has API servers convert a kind by a webhook: a CRD, or a patch of one that a
// kustomization applies. It is empty where none does.
func (s *documents) conversionWebhook(kind string) (string, error) {
	manifests, err := s.Project.Manifests()
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(manifests, func(m project.Manifest) bool { return m.Group == s.Old.Group && m.Kind == kind })
	if i < 0 {
		return "", nil
	}
	folder := tree.Folder(s.Project.Root)
	files, err := folder.Paths()
	if err != nil {
		return "", err
	}
	released := tree.Releases(files)
	for _, file := range files {
		if released[file] != "" || !tree.IsManifest(file) {
			continue
		}
		text, isText, err := folder.Read(file)
		if err != nil {
			return "", err
		}
		if !isText || !strings.Contains(text, "conversion") {
			continue
		}
		whole, calls := callsWebhook(text, manifests[i].Name)
		if !calls {
			continue
		}
		if !whole {
			if calls, err = s.isApplied(file); err != nil {
				return "", err
			}
		}
		if calls {
			return file, nil
		}
	}
	return "", nil
}

// callsWebhook reports whether a document of a file is a CRD, whole or the patch of one, with conversion strategy Webhook.
func callsWebhook(text, name string) (whole, calls bool) {
	for document := range strings.SplitSeq(text, "\n---") {
		var crd struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Spec struct {
				Group      string `json:"group"`
				Conversion struct {
					Strategy string `json:"strategy"`
				} `json:"conversion"`
			} `json:"spec"`
		}
		if yaml.Unmarshal([]byte(document), &crd) == nil && crd.Kind == "CustomResourceDefinition" &&
			crd.Metadata.Name == name && crd.Spec.Conversion.Strategy == "Webhook" {
			return crd.Spec.Group != "", true
		}
	}
	return false, false
}

// isApplied reports whether a kustomization in the folder of a patch, or in one above it, applies the patch.
func (s *documents) isApplied(patch string) (bool, error) {
	for folder := path.Dir(patch); ; folder = path.Dir(folder) {
		for _, base := range kustomizations {
			content, err := tree.ReadIfThere(s.Project.Root, path.Join(folder, base))
			if err != nil {
				return false, err
			}
			var list struct {
				Patches []struct {
					Path string `json:"path"`
				} `json:"patches"`
				Merges []string `json:"patchesStrategicMerge"`
			}
			if yaml.Unmarshal(content, &list) != nil {
				continue
			}
			for _, one := range list.Patches {
				list.Merges = append(list.Merges, one.Path)
			}
			if slices.ContainsFunc(list.Merges, func(name string) bool { return path.Join(folder, name) == patch }) {
				return true, nil
			}
		}
		if folder == "." {
			return false, nil
		}
	}
}
