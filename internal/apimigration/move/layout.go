// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"path"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
)

// folders are where packages are, relative to the root. What is shared stands beside the old and the new package, or,
// if they are of two groups, beside their folders: where both may import it, even an internal one.
func (r Request) folders(p *project.Project, old *project.Version) (map[home]string, error) {
	group, version, _ := strings.Cut(r.To, "/")
	created := path.Join(path.Dir(old.Package.Dir), version)
	if group != old.Group {
		folder, err := groupFolder(p, old, group)
		if err != nil {
			return nil, err
		}
		created = path.Join(folder, version)
	}
	common := commonFolder(path.Dir(old.Package.Dir), path.Dir(created))
	return map[home]string{homeOld: old.Package.Dir, homeNew: created, homeShared: path.Join(common, "shared"),
		homeInternal: path.Join(common, "internal/shared")}, nil
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
	domain, err := projectDomain(p.Workspace, old.Package.Dir)
	if err != nil {
		return "", err
	}
	parent := path.Dir(old.Package.Dir)
	name := groupLabel(group, domain)
	switch {
	case path.Base(parent) == old.Group:
		name = group
	case strings.HasPrefix(old.Layout(), "pkg/apis/"):
		name = strings.ReplaceAll(name, "-", "") // as operator-sdk names folders
	}
	own := []string{old.Group, groupLabel(old.Group, domain),
		strings.ReplaceAll(groupLabel(old.Group, domain), "-", "")}
	if strings.Contains(old.Layout(), "GROUP") || slices.Contains(own, path.Base(parent)) {
		parent = path.Dir(parent)
	}
	return path.Join(parent, name), nil
}

// groupLabel is the short name of a group: what is before the project's domain, or before the first dot.
func groupLabel(group, domain string) string {
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
