// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"go/ast"
	"go/constant"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
)

// versionName is what Kubernetes orders as a version.
var versionName = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)

// IsVersion reports whether a name is one of an API version, such as v1beta2.
func IsVersion(name string) bool { return versionName.MatchString(name) }

// MetaPackage is the package of TypeMeta and ObjectMeta.
const MetaPackage = "k8s.io/apimachinery/pkg/apis/meta/v1"

const schemaPackage = "k8s.io/apimachinery/pkg/runtime/schema"

// Version is a package that defines an API version.
type Version struct {
	Group, Version string
	Package        *Package
	Kinds          []Kind
	// Importers are the files outside the package that import it, sorted.
	Importers []string
}

// Name is group/version.
func (v *Version) Name() string { return v.Group + "/" + v.Version }

// Kind finds a kind by its name.
func (v *Version) Kind(name string) (Kind, bool) {
	i := slices.IndexFunc(v.Kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return v.Kinds[i], true
}

// HasAll reports whether a version has all of some kinds.
func (v *Version) HasAll(kinds []string) bool {
	return !slices.ContainsFunc(kinds, func(name string) bool {
		_, ok := v.Kind(name)
		return !ok
	})
}

// Method is a method of a pointer to a type of the version; nil without one.
func (v *Version) Method(typeName, method string) *types.Func {
	declared := v.Package.Types.Scope().Lookup(typeName)
	if declared == nil {
		return nil
	}
	selection := types.NewMethodSet(types.NewPointer(declared.Type())).Lookup(nil, method)
	if selection == nil {
		return nil
	}
	found, _ := selection.Obj().(*types.Func)
	return found
}

// HasMethod reports whether a pointer to a type of the version has a method.
func (v *Version) HasMethod(typeName, method string) bool { return v.Method(typeName, method) != nil }

// Kind is a struct that embeds TypeMeta and ObjectMeta.
type Kind struct {
	Name    string `json:"name"`
	List    string `json:"list,omitempty"` // empty without a list type
	File    string `json:"file"`
	Storage bool   `json:"storage"` // carries the marker +kubebuilder:storageversion
}

// Versions finds the API versions of the project, sorted by group and version.
func (p *Project) Versions() []*Version {
	var versions []*Version
	for _, pkg := range p.Packages {
		group, version, ok := groupVersion(pkg)
		if !ok {
			continue
		}
		v := &Version{Group: group, Version: version, Package: pkg, Kinds: kinds(pkg)}
		if len(v.Kinds) > 0 {
			v.Importers = p.importers(pkg.Path)
			versions = append(versions, v)
		}
	}
	slices.SortFunc(versions, func(a, b *Version) int { return strings.Compare(a.Name(), b.Name()) })
	return versions
}

// Version finds an API version by GROUP/VERSION; nil if there is none.
func (p *Project) Version(name string) *Version {
	for _, v := range p.Versions() {
		if v.Name() == name {
			return v
		}
	}
	return nil
}

// groupVersion reads the first schema.GroupVersion{…} that the package declares; the marker +groupName completes it.
func groupVersion(pkg *Package) (group, version string, ok bool) {
	for _, file := range pkg.Files {
		if file.Test {
			continue
		}
		for _, decl := range file.Syntax.Decls {
			general, isGeneral := decl.(*ast.GenDecl)
			if !isGeneral {
				continue
			}
			ast.Inspect(general, func(node ast.Node) bool {
				literal, isLiteral := node.(*ast.CompositeLit)
				if !isLiteral || ok || !isNamed(file.Info.TypeOf(literal), schemaPackage, "GroupVersion") {
					return !ok
				}
				group, version = field(file, literal, "Group"), field(file, literal, "Version")
				ok = version != ""
				return false
			})
		}
	}
	if marker := groupNameMarker(pkg); ok && group == "" { // it may be a variable, which no type checker evaluates
		group = marker
	}
	return group, version, ok
}

var groupName = regexp.MustCompile(`(?m)^(?://)?\s*\+groupName=(\S+)\s*$`)

// groupNameMarker is what the marker +groupName of a package says; empty where there is none.
func groupNameMarker(pkg *Package) string {
	for _, file := range pkg.Files {
		for _, comments := range file.Syntax.Comments {
			if comments.Pos() > file.Syntax.Name.Pos() {
				break
			}
			for _, comment := range comments.List {
				if found := groupName.FindStringSubmatch(comment.Text); found != nil {
					return found[1]
				}
			}
		}
	}
	return ""
}

func field(file *File, literal *ast.CompositeLit, name string) string {
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		if key, ok := pair.Key.(*ast.Ident); ok && key.Name == name {
			if value := file.Info.Types[pair.Value].Value; value != nil && value.Kind() == constant.String {
				return constant.StringVal(value)
			}
		}
	}
	return ""
}

func isNamed(t types.Type, pkg, name string) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Name() == name && named.Obj().Pkg() != nil && Unvendored(named.Obj().Pkg().Path()) == pkg
}

// Unvendored is the path by which code imports a package that a tree below GOPATH has in its folder vendor.
func Unvendored(importPath string) string {
	if i := strings.LastIndex(importPath, "/vendor/"); i >= 0 {
		return importPath[i+len("/vendor/"):]
	}
	return importPath
}

var storageMarker = regexp.MustCompile(`(?m)^//\s*\+kubebuilder:storageversion\s*$`)

func kinds(pkg *Package) []Kind {
	var found []Kind
	lists := map[string]string{} // element → list
	for _, file := range pkg.Files {
		if file.Test {
			continue
		}
		for _, decl := range file.Syntax.Decls {
			general, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range general.Specs {
				declared, ok := spec.(*ast.TypeSpec)
				if !ok || declared.Assign.IsValid() {
					continue
				}
				declaredAs := file.Info.TypeOf(declared.Name)
				if declaredAs == nil {
					continue // in code that does not compile
				}
				structure, ok := declaredAs.Underlying().(*types.Struct)
				if !ok {
					continue
				}
				switch {
				case embeds(structure, "TypeMeta") && embeds(structure, "ObjectMeta"):
					found = append(found, Kind{Name: declared.Name.Name, File: file.Path,
						Storage: hasStorageMarker(file, general, spec)})
				case embeds(structure, "TypeMeta") && embeds(structure, "ListMeta"):
					if element := elementOf(structure); element != "" {
						lists[element] = declared.Name.Name
					}
				}
			}
		}
	}
	for i := range found {
		found[i].List = lists[found[i].Name]
	}
	slices.SortFunc(found, func(a, b Kind) int { return strings.Compare(a.Name, b.Name) })
	return found
}

func embeds(structure *types.Struct, name string) bool {
	for field := range structure.Fields() {
		if field.Embedded() && isNamed(field.Type(), MetaPackage, name) {
			return true
		}
	}
	return false
}

// elementOf names the kind that a list type has Items of.
func elementOf(structure *types.Struct) string {
	for field := range structure.Fields() {
		if field.Name() != "Items" {
			continue
		}
		if slice, ok := field.Type().Underlying().(*types.Slice); ok {
			element := slice.Elem()
			if pointer, ok := element.(*types.Pointer); ok {
				element = pointer.Elem()
			}
			if named, ok := types.Unalias(element).(*types.Named); ok {
				return named.Obj().Name()
			}
		}
	}
	return ""
}

// hasStorageMarker looks into the comments above a type.
func hasStorageMarker(file *File, decl *ast.GenDecl, spec ast.Spec) bool {
	from, to := source.AboveType(file.Syntax, decl, spec)
	for _, group := range file.Syntax.Comments {
		if group.Pos() > from && group.End() < to {
			for _, line := range group.List {
				if storageMarker.MatchString(line.Text) {
					return true
				}
			}
		}
	}
	return false
}

func (p *Project) importers(of string) []string {
	var files []string
	for _, pkg := range p.Packages {
		for _, file := range pkg.Files {
			for _, spec := range file.Syntax.Imports {
				if strings.Trim(spec.Path.Value, "\"`") == of {
					files = append(files, file.Path)
				}
			}
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// Layout names the convention that a version's folder follows.
func (v *Version) Layout() string {
	parts := strings.Split(v.Package.Dir, "/")
	n := len(parts)
	switch {
	case n >= 4 && parts[n-4] == "pkg" && parts[n-3] == "apis":
		return "pkg/apis/GROUP/VERSION"
	case n >= 3 && (parts[n-3] == "api" || parts[n-3] == "apis"):
		return parts[n-3] + "/GROUP/VERSION"
	case n >= 2 && path.Base(path.Dir(v.Package.Dir)) == "api":
		return "api/VERSION"
	default:
		return "other"
	}
}
