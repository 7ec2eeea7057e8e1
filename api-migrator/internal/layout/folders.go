// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"path"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

// folders are where packages are, relative to the root. What is shared stands next to the old and the new package, or,
// if they are of two groups, next to their folders: where both may import it, even an internal one.
func folders(p *project.Project, old *project.Version, asked request.Request) (map[Home]string, error) {
	group, version, _ := strings.Cut(asked.To, "/")
	created := path.Join(path.Dir(old.Package.Dir), version)
	if group != old.Group {
		folder, err := groupFolder(p, old, group)
		if err != nil {
			return nil, err
		}
		created = path.Join(folder, version)
	}
	if into := p.Version(asked.To); into != nil {
		created = into.Package.Dir
	}
	common := commonFolder(path.Dir(old.Package.Dir), path.Dir(created))
	return map[Home]string{OldPackage: old.Package.Dir, NewPackage: created, SharedPackage: path.Join(common, "shared"),
		InternalPackage: path.Join(common, "internal/shared")}, nil
}

// groupFolder is where the versions of another group are, or would be in the project's layout. A project with one
// group, whose versions are in api, gets a folder for the new one there, as kubebuilder's layout for several groups has
// it.
func groupFolder(p *project.Project, old *project.Version, group string) (string, error) {
	for _, v := range p.Versions() {
		if v.Group == group {
			return path.Dir(v.Package.Dir), nil
		}
	}
	domain, err := project.Domain(p.Workspace, old.Package.Dir)
	if err != nil {
		return "", err
	}
	parent := path.Dir(old.Package.Dir)
	name := GroupLabel(group, domain)
	switch {
	case path.Base(parent) == old.Group:
		name = group
	case strings.HasPrefix(old.Layout(), "pkg/apis/"):
		name = strings.ReplaceAll(name, "-", "") // as operator-sdk names folders
	}
	own := []string{old.Group, GroupLabel(old.Group, domain),
		strings.ReplaceAll(GroupLabel(old.Group, domain), "-", "")}
	if strings.Contains(old.Layout(), "GROUP") || slices.Contains(own, path.Base(parent)) {
		parent = path.Dir(parent)
	}
	return path.Join(parent, name), nil
}

// GroupLabel is the short name of a group: what is before the project's domain, or before the first dot.
func GroupLabel(group, domain string) string {
	if label, ok := strings.CutSuffix(group, "."+domain); ok && domain != "" {
		return label
	}
	label, _, _ := strings.Cut(group, ".")
	return label
}

func commonFolder(a, b string) string {
	for !strings.HasPrefix(b+"/", a+"/") && a != "." {
		a = path.Dir(a)
	}
	return a
}

// FolderName is that of the folder above a version: the group's, in most layouts.
func (l *Layout) FolderName(h Home) string { return path.Base(path.Dir(l.Dir(h))) }

// GroupWord is what comments call the old group: its folder's name, or without such a folder its first label.
func (l *Layout) GroupWord() string {
	if l.Old.Layout() == "api/VERSION" {
		return GroupLabel(l.Old.Group, "")
	}
	return l.FolderName(OldPackage)
}
