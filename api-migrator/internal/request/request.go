// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package request holds what a user asks for, and refuses what cannot be meant for a project.
package request

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// Which version a kind that moved is stored in.
const (
	StorageNew = "new"
	StorageOld = "old"
)

// What becomes of unexported code that is shared.
const (
	UnexportedInternal = "internal" // exported in a package that only the group's packages can import
	UnexportedExport   = "export"   // exported in the shared package
)

// Where code goes that kinds on both sides use.
const (
	SharedPackage   = "shared"    // a package of its own
	SharedNewest    = "newest"    // the new version's package, which the old one imports
	SharedOld       = "old"       // the old version's package, where it is, which the new one imports
	SharedDuplicate = "duplicate" // each version has its own
)

// What becomes of the kinds that move in the old version.
const (
	OldKeep   = "keep"   // they keep their own types
	OldWrap   = "wrap"   // they are structs of their own, of the new version's types
	OldAlias  = "alias"  // they are types defined as the new version's
	OldRemove = "remove" // they leave it
)

// Which importers are moved to the new names.
const (
	ConsumersAll  = "all"
	ConsumersNone = "none"
)

// What becomes of texts that name the old version, in string literals, documents and examples.
const (
	StringsReport  = "report"  // they stay, and are findings
	StringsRewrite = "rewrite" // those that certainly mean kinds that move name the new version
)

// Which schema the new version gets in manifests.
const (
	SchemaCopy     = "copy"     // that of the old version
	SchemaGenerate = "generate" // the one that controller-gen makes of the Go types
)

// Request says what to move where.
type Request struct {
	Kinds []string `yaml:"kinds"`
	From  string   `yaml:"from"` // GROUP/VERSION
	To    string   `yaml:"to"`
	// ToKind is the new name of the one kind that is named. Empty: the kinds keep theirs. With it, To may be From.
	ToKind string `yaml:"toKind,omitempty"`
	// Storage is StorageNew or StorageOld.
	Storage string `yaml:"storage"`
	// Shared says where code goes that kinds on both sides use: SharedPackage, SharedNewest, SharedOld or
	// SharedDuplicate. Empty means SharedPackage.
	Shared string `yaml:"shared"`
	// Old says what becomes of the kinds that move in the old version: OldKeep, OldWrap, OldAlias or OldRemove. Empty
	// means OldKeep.
	Old string `yaml:"old"`
	// Unexported says what becomes of unexported code that is shared: UnexportedInternal or UnexportedExport.
	Unexported string `yaml:"unexported"`
	// Consumers are the files that are moved to the new names: ConsumersAll, ConsumersNone, or patterns of path.Match
	// for folders; a pattern that ends in /... means folders below too.
	Consumers []string `yaml:"consumers"`
	// Assign overrides where declarations go: new, shared or stay, by name.
	Assign map[string]split.Destination `yaml:"assign,omitempty"`
	// WithoutCRDs: the manifests are not in this tree, or are left alone.
	WithoutCRDs bool `yaml:"withoutCRDs,omitempty"`
	// Leave are manifests that are left to the author, by their path from the project's root.
	Leave []string `yaml:"leave,omitempty"`
	// CRDName says how the manifests that get the new version are called: a crd.Naming. Empty means crd.Auto.
	CRDName string `yaml:"crdName"`
	// Schema is SchemaCopy or SchemaGenerate. Empty means SchemaCopy.
	Schema string `yaml:"schema,omitempty"`
	// Strings is StringsReport or StringsRewrite. Empty means StringsReport.
	Strings string `yaml:"strings,omitempty"`
}

// WithDefaults fills in what is empty.
func (r Request) WithDefaults() Request {
	r.Shared, r.Old, r.CRDName = cmp.Or(r.Shared, SharedPackage), cmp.Or(r.Old, OldKeep),
		cmp.Or(r.CRDName, string(crd.Auto))
	return r
}

// Consumes reports whether a file is to be moved to the new names.
func (r Request) Consumes(file string) bool {
	return slices.ContainsFunc(r.Consumers, func(pattern string) bool {
		matched, err := matchesFolder(pattern, path.Dir(file))
		return pattern == ConsumersAll || err == nil && matched
	})
}

// matchesFolder takes patterns as the go command and shells do: with ./ before, or with a slash behind.
func matchesFolder(pattern, folder string) (bool, error) {
	if above, below := strings.CutSuffix(pattern, "/..."); below {
		above = path.Clean(above)
		return above == "." || strings.HasPrefix(folder+"/", above+"/"), nil
	}
	return path.Match(path.Clean(pattern), folder)
}

// checkConsumers refuses patterns that match no importer.
func (r Request) checkConsumers(p *project.Project, old *project.Version) error {
	var folders []string
	for _, pkg := range p.Packages {
		if pkg != old.Package && slices.ContainsFunc(pkg.Files, func(f *project.File) bool {
			return source.Imports(f.Syntax, old.Package.Path)
		}) {
			folders = append(folders, pkg.Dir)
		}
	}
	for _, pattern := range r.Consumers {
		if pattern == ConsumersAll || pattern == ConsumersNone {
			continue
		}
		if _, err := matchesFolder(pattern, ""); err != nil {
			return hint.Errorf("api-migrator plan --consumers all",
				"%q is not a pattern for folders: %v", pattern, err)
		}
		if !slices.ContainsFunc(folders, func(folder string) bool {
			matched, err := matchesFolder(pattern, folder)
			return err == nil && matched
		}) {
			return hint.Errorf(TryInspect, "no folder with an importer of %s matches %q; there are: %s", r.From,
				pattern, strings.Join(slices.Compact(folders), ", "))
		}
	}
	return nil
}

// TryInspect is the command that shows what a project has.
const TryInspect = "api-migrator inspect"

// Check finds the version that a request is about, and refuses what cannot be meant.
func (r Request) Check(p *project.Project) (*project.Version, error) {
	versions := p.Versions()
	names := make([]string, 0, len(versions))
	for _, v := range versions {
		names = append(names, v.Name())
	}
	at := slices.Index(names, r.From)
	_, version, ok := strings.Cut(r.To, "/")
	switch {
	case at < 0:
		return nil, hint.Errorf(TryInspect, "no package of %s defines the API version %s; there are: %s", p.Module, r.From,
			cmp.Or(strings.Join(names, ", "), "none"))
	case !ok || !project.IsVersion(version):
		return nil, hint.Errorf("api-migrator plan --to "+versions[at].Group+"/v2",
			"%q is not a GROUP/VERSION such as %s/v2", r.To, versions[at].Group)
	case r.To == r.From && r.ToKind == "":
		return nil, hint.Errorf(TryInspect, "the kinds are in %s, which exists already: --to is another version", r.To)
	case len(r.Kinds) == 0:
		return nil, hint.Errorf(TryInspect, "no kind is named")
	case r.Old == OldRemove && slices.Contains(r.Consumers, ConsumersNone):
		return nil, hint.Errorf("api-migrator plan --old alias",
			"importers cannot keep the old names when their code is removed")
	case r.Old == OldRemove && r.Storage == StorageOld:
		return nil, hint.Errorf("api-migrator plan --old wrap --storage old",
			"the old version cannot be the storage version when its code is removed: nothing would carry the marker")
	}
	if r.Schema == SchemaGenerate && r.WithoutCRDs {
		return nil, hint.Errorf("api-migrator plan --schema generate", "without manifests there is no schema to generate")
	}
	if r.Strings == StringsRewrite && (r.ToKind != "" || !strings.HasPrefix(r.To, versions[at].Group+"/")) {
		return nil, hint.Errorf("api-migrator plan --strings report",
			"strings cannot be rewritten for another CRD: the old one stays, and only you know which of the two they mean")
	}
	old := versions[at]
	for _, kind := range r.Kinds {
		if _, ok := old.Kind(kind); !ok {
			return nil, hint.Errorf(TryInspect, "%s has no kind %s; it has: %s", r.From, kind,
				strings.Join(kindNames(old.Kinds), ", "))
		}
	}
	if at := slices.Index(names, r.To); at >= 0 {
		if err := r.checkExisting(versions[at]); err != nil {
			return nil, err
		}
	}
	if err := r.checkSuccession(versions); err != nil {
		return nil, err
	}
	if err := r.checkConsumers(p, old); err != nil {
		return nil, err
	}
	manifests, err := p.Manifests()
	if err != nil {
		return nil, err
	}
	if err := r.checkLeave(p, old, manifests); err != nil || r.WithoutCRDs {
		return old, err
	}
	return old, r.checkManifests(p, old, manifests)
}

// checkExisting refuses what cannot be meant for a new version that exists: kinds of which it has some, and a move of
// nothing but importers that changes other code, or no importer.
func (r Request) checkExisting(into *project.Version) error {
	has := slices.DeleteFunc(slices.Clone(r.Kinds), func(name string) bool { return !into.HasAll([]string{name}) })
	again := "api-migrator plan --kind " + strings.Join(has, ",") + " --from " + r.From + " --to " + r.To
	switch {
	case r.ToKind != "" || len(has) == 0:
		return nil
	case len(has) < len(r.Kinds):
		return hint.Errorf(again, "%s has %s already, and not the other kinds: plan the importers of the one and the move of "+
			"the others one after the other", r.To, strings.Join(has, ", "))
	case r.Old != OldKeep || len(r.Assign) > 0:
		return hint.Errorf(again, "%s has %s already, so that the importers alone are left to be moved: --old and --assign do "+
			"not go with that", r.To, strings.Join(has, ", "))
	case slices.Contains(r.Consumers, ConsumersNone):
		return hint.Errorf(again, "%s has %s already, so that the importers alone are left to be moved, and --consumers none "+
			"leaves them", r.To, strings.Join(has, ", "))
	}
	return nil
}

// checkLeave refuses files that nothing would change.
func (r Request) checkLeave(p *project.Project, old *project.Version, manifests []project.Manifest) error {
	for _, file := range r.Leave {
		if slices.ContainsFunc(manifests, func(m project.Manifest) bool {
			return m.File == file && m.Group == old.Group && slices.Contains(r.Kinds, m.Kind)
		}) {
			continue
		}
		content, err := tree.ReadIfThere(p.Root, file)
		if err != nil {
			return err
		}
		if !strings.Contains(string(content), "apiGroups") && !strings.Contains(string(content), "clientConfig") {
			return hint.Errorf(TryInspect, "%s, which --leave names, has no CustomResourceDefinition of %s in group %s, and no rules "+
				"of webhooks, admission policies or roles", file, strings.Join(r.Kinds, ", "), old.Group)
		}
	}
	return nil
}

func (r Request) checkManifests(p *project.Project, old *project.Version, manifests []project.Manifest) error {
	for _, kind := range r.Kinds {
		if !slices.ContainsFunc(manifests, func(m project.Manifest) bool {
			return m.Group == old.Group &&
				m.Kind == kind
		}) {
			return hint.Errorf("api-migrator plan --without-crds …",
				"no manifest of a CustomResourceDefinition for %s in group %s is in %s", kind, old.Group, p.Root)
		}
	}
	return nil
}

func kindNames(kinds []project.Kind) []string {
	names := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		names = append(names, kind.Name)
	}
	return names
}
