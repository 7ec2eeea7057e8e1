// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package mention finds where a project names the old version and no compiler checks it: in strings, manifests and
// documents, in values such as SchemeGroupVersion, and in names of Go code. It changes nothing. Of most mentions only a
// person knows whether the objects of today or those of tomorrow are meant; it tells which texts are certain, and what
// they are for the new version.
package mention

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/astutil"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// Reader looks for what names the old version.
type Reader struct {
	*layout.Layout
	telling map[*split.Declaration]bool // whether declarations tell the version, see tellsVersion
	crds    []project.Manifest          // of the old group, see manifestsOfGroup
	texts   map[string]string           // see variables
	all     []*project.Version          // see versions
	// compared are the comparisons by package, see Comparisons.
	compared map[*project.Package]map[*project.File][]Comparison
	assigned map[*project.Package]*assignments // see assignmentsIn
}

// NewReader makes a Reader for a layout.
func NewReader(l *layout.Layout) *Reader {
	return &Reader{Layout: l, telling: map[*split.Declaration]bool{},
		compared: map[*project.Package]map[*project.File][]Comparison{},
		assigned: map[*project.Package]*assignments{}}
}

// Some code of the old version's package says which version it is: SchemeGroupVersion, and what is made of it. Such a
// value means another version once the code around it deals with the new one, and no compiler notices: an index of
// owners that compares an apiVersion finds nothing, an admission server passes over its requests. Objects in clusters
// carry the old version, too, so that neither of the two is right everywhere. Hence each use is a finding, whether it
// stays or changes.

// Use is the finding of a use of such a declaration; none if it means the same in both versions. becomesNew: the use is
// rewritten to the new version's.
func (s *Reader) Use(file *project.File, use ast.Expr, d *split.Declaration,
	becomesNew bool) (found []finding.Finding) {
	if s.InPlace() {
		return nil // both kinds are of one group and version
	}
	from, to := s.Old.Name(), s.Group+"/"+s.Version
	says := s.readUse(file, use)
	switch {
	case says.staying || s.isInConditionOnStaying(file, use):
		return nil
	case s.tellsVersion(d) && !says.group:
	case s.Group != s.Old.Group && s.tellsGroup(d):
		from, to = s.Old.Group, s.Group
	default:
		return nil
	}
	still, meant, other := "still means "+from, from, to
	if becomesNew {
		still, meant, other = "becomes the new version's", to, from
	}
	why := s.consequencesOf(file, use, meant, other)
	if why == "" && becomesNew {
		why = "it does not match objects, ownerReferences and requests that still say " + other + s.advice()
	} else if why == "" {
		why = "it does not match objects, ownerReferences and requests that say " + other + s.advice()
	}
	return []finding.Finding{{Where: s.Project.Place(use.Pos()), AtRunTime: !file.Test,
		Text: fmt.Sprintf("%s %s: %s", s.textOf(file, use), still, why)}}
}

// isInConditionOnStaying reports whether an expression is part of a condition that names kinds that stay, and none that
// moves, or is compared with an owner of such a kind.
func (s *Reader) isInConditionOnStaying(file *project.File, use ast.Expr) bool {
	path, _ := astutil.PathEnclosingInterval(file.Syntax, use.Pos(), use.End())
	return slices.ContainsFunc(path, func(node ast.Node) bool {
		binary, ok := node.(*ast.BinaryExpr)
		reader := codeReader{Reader: s, file: file}
		return ok && (reader.isAboutStaying(binary) || reader.isOfStaying(binary.X) || reader.isOfStaying(binary.Y))
	})
}

func (s *Reader) advice() string {
	if len(s.Successions) > 0 {
		return ". Decide which one is meant"
	}
	return ". Compare the group and the kind alone, or accept both versions"
}

func (s *Reader) textOf(file *project.File, node ast.Node) string {
	return string(file.Source[s.Project.Offset(node.Pos()):s.Project.Offset(node.End())])
}

// UsesInOldPackage looks at the code of the old version's package that stays there and is not about kinds that
// stay, and at comparisons in code that moves.
func (s *Reader) UsesInOldPackage() (found []finding.Finding) {
	for _, d := range s.Graph.Declarations {
		moves := s.DestinationOf(d) == split.New
		if !s.isAboutMoves(d) {
			continue
		}
		for _, part := range d.Parts {
			s.EachUse(part.File, part.Nodes(), func(ident *ast.Ident, used *split.Declaration) {
				if used != d && s.DestinationOf(used) == split.Anchor && !used.AddsToScheme() &&
					(!moves || s.IsCompared(part.File, ident)) && !s.IsSettled(s.Old.Package, part.File, ident) {
					found = append(found, s.Use(part.File, ident, used, moves)...)
				}
			})
		}
	}
	return found
}

// isAboutMoves reports whether a declaration moves, or stays without being a kind that stays.
func (s *Reader) isAboutMoves(d *split.Declaration) bool {
	return s.DestinationOf(d) == split.New ||
		s.DestinationOf(d) == split.Stay && (d.What != "type" || !s.isStaying(d.Name))
}

// isConcerned reports whether a piece of code of the old version's package declares something like that.
func (s *Reader) isConcerned(file *project.File, decl ast.Decl) bool {
	return slices.ContainsFunc(s.OwnersOf(file, decl), func(d *split.Declaration) bool {
		return d != nil && s.isAboutMoves(d)
	})
}

// tellsVersion reports whether the value of a declaration says which version it is of.
func (s *Reader) tellsVersion(d *split.Declaration) bool {
	if known, ok := s.telling[d]; ok {
		return known
	}
	s.telling[d] = false // where it is its own reason
	s.telling[d] = slices.ContainsFunc(d.Names,
		func(name string) bool { return s.objectTells(d, s.Old.Package.Types.Scope().Lookup(name)) })
	return s.telling[d]
}

func (s *Reader) objectTells(d *split.Declaration, object types.Object) bool {
	switch object := object.(type) {
	case *types.Const:
		if object.Val().Kind() != constant.String {
			return false
		}
		value := constant.StringVal(object.Val())
		return value == s.Old.Version || s.versionPattern().MatchString(value)
	case *types.Var:
		return carriesVersion(object.Type()) && s.isMadeOfVersion(d)
	case *types.Func:
		for result := range object.Signature().Results().Variables() {
			if carriesVersion(result.Type()) {
				return s.isMadeOfVersion(d)
			}
		}
	}
	return false
}

// carriesVersion reports whether values of a type can say a version: texts, GroupVersion and its like, TypeMeta,
// OwnerReference.
func carriesVersion(t types.Type) bool {
	if t == nil {
		return false // the code does not compile
	}
	if object := NamedIn(t); object != nil && object.Pkg() != nil &&
		strings.HasPrefix(object.Pkg().Path(), "k8s.io/apimachinery/") {
		return strings.HasPrefix(object.Name(), "GroupVersion") || object.Name() == "TypeMeta" ||
			object.Name() == "OwnerReference"
	}
	const most = 8 // a type can be a list or a map of itself
	for range most {
		switch of := t.Underlying().(type) {
		case *types.Basic:
			return of.Info()&types.IsString != 0
		case interface{ Elem() types.Type }:
			t = of.Elem()
		default:
			return false
		}
	}
	return false
}

// isMadeOfVersion reports whether a declaration names the version, by itself or by others that do. It does not where
// the version is that of a kind that stays: BackupResource = GroupVersion.WithResource("backups").
func (s *Reader) isMadeOfVersion(d *split.Declaration) bool {
	if d.Name == "GroupVersion" || d.Name == "SchemeGroupVersion" { // whose group may be a variable
		return true
	}
	found := false
	for _, part := range d.Parts {
		s.EachUse(part.File, part.Nodes(), func(ident *ast.Ident, used *split.Declaration) {
			found = found || used != d && s.tellsVersion(used) && !s.readUse(part.File, ident).staying
		})
		for _, node := range part.Nodes() {
			ast.Inspect(node, func(node ast.Node) bool {
				switch node := node.(type) {
				case *ast.CompositeLit:
					found = found || s.buildsOld(part.File, node) == buildsIt
				case *ast.BasicLit:
					value, ok := known(part.File, node)
					found = found || ok && s.versionPattern().MatchString(value)
				}
				return !found
			})
		}
	}
	return found
}

// tellsGroup reports whether the value of a declaration says which group it is of.
func (s *Reader) tellsGroup(d *split.Declaration) bool {
	return s.tellsVersion(d) || slices.ContainsFunc(d.Names, func(name string) bool {
		switch object := s.Old.Package.Types.Scope().Lookup(name).(type) {
		case *types.Const:
			return object.Val().Kind() == constant.String && constant.StringVal(object.Val()) == s.Old.Group
		case *types.Func:
			for result := range object.Signature().Results().Variables() {
				if of := NamedIn(result.Type()); of != nil && strings.HasPrefix(of.Name(), "Group") {
					return true
				}
			}
		case *types.Var:
			of := NamedIn(object.Type())
			return of != nil && strings.HasPrefix(of.Name(), "Group") && !s.isOfStaying(d)
		}
		return false
	})
}

// isOfStaying reports whether a declaration uses the group and version for kinds that stay alone, as
// GroupVersion.WithResource("backups") does.
func (s *Reader) isOfStaying(d *split.Declaration) bool {
	stays, others := false, false
	for _, part := range d.Parts {
		s.EachUse(part.File, part.Nodes(), func(ident *ast.Ident, used *split.Declaration) {
			if s.DestinationOf(used) == split.Anchor && used != d {
				isStaying := s.readUse(part.File, ident).staying
				stays, others = stays || isStaying, others || !isStaying
			}
		})
	}
	return stays && !others
}

// saying is what the code around a use takes of it.
type saying struct {
	group   bool // the group alone
	staying bool // what it says is about a kind that stays
}

// readUse looks at what follows a use: SchemeGroupVersion.Group, .WithKind("Backup") and so on, and at the literal that
// it stands in.
func (s *Reader) readUse(file *project.File, use ast.Expr) saying {
	var says saying
	path, _ := astutil.PathEnclosingInterval(file.Syntax, use.Pos(), use.End())
	var inner ast.Node = use
	chained := true // the path is still within v1.SchemeGroupVersion.X(…).Y
	for _, node := range path {
		if node == inner {
			continue
		}
		switch node := node.(type) {
		case *ast.SelectorExpr:
			chained = chained && node.X == inner
			says.group = says.group || chained && slices.Contains([]string{"Group", "GroupKind",
				"GroupResource"}, node.Sel.Name)
		case *ast.CallExpr:
			chained = chained && node.Fun == inner
			if method, ok := node.Fun.(*ast.SelectorExpr); ok && chained && len(node.Args) == 1 {
				name, _ := known(file, node.Args[0])
				says.staying = says.staying || s.isStaying(name) && strings.HasSuffix(method.Sel.Name, "Kind") ||
					method.Sel.Name == "WithResource" && s.staysAsResource(name)
			}
		case *ast.CompositeLit:
			values, _ := s.fieldsOf(file, node)
			says.staying = says.staying || s.isStaying(values["Kind"]) || s.staysAsResource(values["Resource"])
			return says
		case ast.Stmt, ast.Decl, *ast.FuncLit:
			return says
		case *ast.ParenExpr, *ast.UnaryExpr, *ast.StarExpr, *ast.KeyValueExpr:
		default:
			chained = false
		}
		inner = node
	}
	return says
}

// isStaying reports whether a name is that of a kind that stays, or of its list.
func (s *Reader) isStaying(name string) bool {
	return name != "" && !s.Moves(name) && slices.ContainsFunc(s.Old.Kinds,
		func(k project.Kind) bool { return name == k.Name || name == k.List })
}

// staysAsResource reports whether a name is the plural of kinds that stay alone.
func (s *Reader) staysAsResource(name string) bool {
	stays := false
	for _, manifest := range s.manifestsOfGroup() {
		if manifest.Plural == name {
			if s.Moves(manifest.Kind) {
				return false
			}
			stays = true
		}
	}
	return stays
}

// movesAsResource reports whether a name is the plural of a kind that moves, by its CRD or, where there is none, by the
// usual rule.
func (s *Reader) movesAsResource(name string) bool {
	usual := slices.ContainsFunc(s.Request.Kinds,
		func(kind string) bool { return strings.HasPrefix(name, strings.ToLower(kind)) })
	return usual || slices.ContainsFunc(s.manifestsOfGroup(),
		func(m project.Manifest) bool { return m.Plural == name && s.Moves(m.Kind) })
}

// versions are all that the project has.
func (s *Reader) versions() []*project.Version {
	if s.all == nil {
		s.all = s.Project.Versions()
	}
	return s.all
}

// manifestsOfGroup are the CRDs of the old group in the tree; none where they cannot be read, which other steps report.
func (s *Reader) manifestsOfGroup() []project.Manifest {
	if s.crds == nil {
		all, _ := s.Project.Manifests()
		s.crds = slices.DeleteFunc(append([]project.Manifest{}, all...),
			func(m project.Manifest) bool { return m.Group != s.Old.Group })
	}
	return s.crds
}
