// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/gobuffalo/flect"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/crd"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/hint"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/source"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/tree"
)

// succession is a kind that gets a definition of its own, because its group or its name is another: a cluster converts
// between the versions of one definition only.
type succession struct {
	old, successor crd.Names
	namespaced     bool
	// status: the type has a status subresource.
	status    bool
	manifests []project.Manifest // of the old definition
	created   []string           // files of the new one
}

var (
	groupName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$`)
	kindName  = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)
)

// Succeeds reports whether the request ends in another definition.
func (r Request) Succeeds() bool {
	from, _, _ := strings.Cut(r.From, "/")
	to, _, _ := strings.Cut(r.To, "/")
	return from != to || r.ToKind != ""
}

// checkSuccession refuses another group or name of a kind that cannot be meant.
func (r Request) checkSuccession(versions []*project.Version) error {
	if !r.Succeeds() {
		return nil
	}
	group, _, _ := strings.Cut(r.To, "/")
	kinds := r.Kinds
	switch {
	case !groupName.MatchString(group):
		return hint.Errorf("api-migrator plan --to GROUP/VERSION",
			"%q is no group: a group is a domain in lower case, such as cache.example.com", group)
	case r.ToKind != "" && len(r.Kinds) != 1:
		return hint.Errorf("api-migrator plan --kind KIND --to-kind NEWKIND",
			"--to-kind is the new name of one kind, and %d are named: %s", len(r.Kinds), strings.Join(r.Kinds, ", "))
	case r.ToKind != "" && !kindName.MatchString(r.ToKind):
		return hint.Errorf("api-migrator plan --to-kind NewKind",
			"%q is no name of a kind: letters and digits, beginning with an upper-case letter", r.ToKind)
	case r.To == r.From && r.Old != OldKeep:
		return hint.Errorf("api-migrator plan --old keep",
			"with another name in the same version both kinds stand in one package, and the old one stays as it is: "+
				"--old %s does not go with it", r.Old)
	case r.ToKind == r.Kinds[0]:
		return hint.Errorf("api-migrator plan --to-kind NEWKIND", "%s is the kind's name already", r.ToKind)
	case r.Storage == StorageOld:
		return hint.Errorf("api-migrator plan --storage new",
			"another group or kind has a definition of its own, which stores its only version: --storage old does "+
				"not go with it")
	case r.ToKind != "":
		kinds = []string{r.ToKind}
	}
	for _, v := range versions {
		for _, kind := range kinds {
			if _, ok := v.Kind(kind); ok && v.Group == group {
				return hint.Errorf(tryInspect, "%s has a kind %s already", v.Name(), kind)
			}
		}
	}
	return nil
}

// nameSuccessors says what the cluster calls the kinds before and after.
func (s *surgery) nameSuccessors() error {
	if !s.request.Succeeds() {
		return nil
	}
	manifests, err := s.project.Manifests()
	if err != nil {
		return err
	}
	for _, name := range s.request.Kinds {
		kind, _ := s.old.Kind(name)
		one := succession{namespaced: true, status: s.hasStatus(name)}
		one.old = crd.Names{Group: s.old.Group, Kind: name, List: kind.List,
			Plural: flect.Pluralize(strings.ToLower(name)), Singular: strings.ToLower(name)}
		for _, m := range manifests {
			if m.Group == s.old.Group && m.Kind == name {
				one.manifests = append(one.manifests, m)
				one.old.Plural, one.namespaced = m.Plural, m.Scope != "Cluster"
			}
		}
		one.successor = one.old
		one.successor.Group = s.group
		if to := s.request.ToKind; to != "" {
			one.successor = crd.Names{Group: s.group, Kind: to, List: to + "List",
				Plural: flect.Pluralize(strings.ToLower(to)), Singular: strings.ToLower(to)}
		}
		s.successors = append(s.successors, one)
	}
	return nil
}

// hasStatus reports whether the marker of the status subresource stands above a kind.
func (s *surgery) hasStatus(kind string) bool {
	for _, d := range s.graph.Declarations {
		if d.Name == kind {
			at := source.SpanOf(s.project.Fset, d.File().Syntax, d.Parts[0].Decl)
			return strings.Contains(string(d.File().Source[at.From:at.To]), "+kubebuilder:subresource:status")
		}
	}
	return false
}

// createDefinitions writes the manifest of each new definition beside that of the old one, which keeps every byte.
func (s *surgery) createDefinitions(ctx context.Context) error {
	for i := range s.successors {
		one := &s.successors[i]
		for _, manifest := range one.manifests {
			if err := s.createDefinition(ctx, one, manifest); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *surgery) createDefinition(ctx context.Context, one *succession, manifest project.Manifest) error {
	content, err := tree.ReadIfThere(s.project.Root, manifest.File)
	if err != nil {
		return err
	}
	outcome, err := crd.Succeed(ctx, manifest.File, string(content), crd.Succession{
		Group: s.old.Group, Kind: one.old.Kind, Version: s.old.Version, To: one.successor, ToVersion: s.version,
	})
	if refused := (*crd.RefusedError)(nil); errors.As(err, &refused) {
		for _, problem := range refused.Problems {
			s.blocker(manifest.File, "the API server would not take the new definition: %s", problem)
		}
		return nil
	}
	if err != nil {
		s.blocker(manifest.File, "%v", err)
		return nil
	}
	naming := crd.Naming(s.request.CRDName)
	if naming != crd.Canonical && strings.HasSuffix(manifest.File, "_crd.yaml") {
		naming = crd.SDK // as the old one is called
	} else if naming != crd.SDK {
		naming = crd.Canonical
	}
	name := naming.Name(manifest.File, outcome)
	existing, err := tree.ReadIfThere(s.project.Root, name)
	if err != nil {
		return err
	}
	if existing != nil || s.files[name] != nil {
		s.blocker(manifest.File, "the new definition would be %s, which is there already", name)
		return nil
	}
	for _, note := range outcome.Notes {
		s.finding(manifest.File, "%s", note)
	}
	one.created = append(one.created, name)
	s.files[name] = &change{content: []byte(outcome.Text), why: "the definition of " + one.successor.Kind + " in " +
		s.group + ", after " + manifest.File}
	return s.listDefinition(manifest.File, name)
}

// createGroupFile repeats group.go, which operator-sdk puts into a group's folder so that there is a package.
func (s *surgery) createGroupFile() error {
	name := path.Join(path.Dir(s.dirs[homeNew]), "group.go")
	content, err := tree.ReadIfThere(s.project.Root, path.Join(path.Dir(s.dirs[homeOld]), "group.go"))
	if err != nil || content == nil || s.group == s.old.Group {
		return err
	}
	file, _, err := source.Parse(content)
	existing, readErr := tree.ReadIfThere(s.project.Root, name)
	if err != nil || readErr != nil || existing != nil || len(file.Decls) > 0 {
		return readErr
	}
	text := source.Word(s.folderName(homeOld)).ReplaceAllString(string(content), source.Identifier(s.folderName(homeNew)))
	s.files[name] = &change{content: []byte(text), why: "the package of the group's folder, after that of the old one"}
	return nil
}

// listDefinition adds a new manifest to the kustomizations that list the old one.
func (s *surgery) listDefinition(old, created string) error {
	for folder := path.Dir(old); ; folder = path.Dir(folder) {
		for _, base := range []string{"kustomization.yaml", "kustomization.yml"} {
			name := path.Join(folder, base)
			content, err := tree.ReadIfThere(s.project.Root, name)
			if err != nil {
				return err
			}
			if known := s.files[name]; known != nil {
				content = known.content
			}
			if text, ok := listBeside(string(content), folder, old, created); ok {
				s.files[name] = &change{content: []byte(text), why: "lists the new definition"}
			}
		}
		if folder == "." {
			return nil
		}
	}
}

// listBeside repeats the line of a kustomization that lists a file, for one of the same folder.
func listBeside(content, folder, old, created string) (string, bool) {
	lines := strings.SplitAfter(content, "\n")
	i := slices.IndexFunc(lines, func(line string) bool {
		line, _, _ = strings.Cut(line, " #")
		item, ok := strings.CutPrefix(strings.TrimSpace(line), "- ")
		return ok && path.Join(folder, strings.Trim(strings.TrimSpace(item), `"'`)) == old
	})
	if i < 0 {
		return "", false
	}
	line := strings.Replace(lines[i], path.Base(old), path.Base(created), 1)
	if !strings.HasSuffix(line, "\n") { // the last one
		lines[i] += "\n"
	}
	return strings.Join(slices.Insert(lines, i+1, line), ""), true
}
