// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"go/ast"
	"go/types"
	"path"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

// server is code that answers admission requests about a kind that moves. controller-runtime's decoder accepts objects
// of one version only: that of the Go type that it fills.
type server struct {
	kind          string
	at            layout.Home // the package of that Go type afterwards: the old version's or the new one's
	before, after string      // the path that it serves
}

// served is what is known of the servers.
type served struct {
	servers []server
	// unclear are the places of code that serves a path that cannot be told, or a kind.
	unclear []string
	// idle names functions of the old version's package that set up webhooks, and that nothing calls, by their place.
	idle map[string]string
}

// at are the servers that serve a path before the move.
func (s *served) at(path string) []server {
	var found []server
	for _, one := range s.servers {
		if one.before == path {
			found = append(found, one)
		}
	}
	return found
}

// homeOf is the package that all servers of a kind use; false if there are none, or they differ.
func (s *served) homeOf(kind string) (home layout.Home, isOne bool) {
	for _, one := range s.servers {
		if one.kind != kind {
			continue
		}
		if isOne && one.at != home {
			return home, false
		}
		home, isOne = one.at, true
	}
	return home, isOne
}

// pathsAfter are the paths at which a kind is served in the new version.
func (s *served) pathsAfter(kind string) []string {
	var found []string
	for _, one := range s.servers {
		if one.kind == kind && one.at == layout.NewPackage {
			found = append(found, one.after)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// reader reads the servers from the code.
type reader struct {
	*layout.Layout
	served
	decoders map[string][]server // handlers that decode by themselves, by the name of their type
	linked   map[string]bool     // those that are registered for a path that is known
	places   map[string]string   // of decoders
}

// readServers finds the code that serves webhooks of kinds that move.
func readServers(l *layout.Layout) *served {
	r := &reader{
		Layout: l, served: served{idle: map[string]string{}},
		decoders: map[string][]server{}, linked: map[string]bool{}, places: map[string]string{},
	}
	for _, read := range []func(*project.File, ast.Decl){r.readDecoders, r.readBuilders, r.readRegistered} {
		r.eachDecl(read)
	}
	for handler, place := range r.places {
		if !r.linked[handler] {
			r.unclear = append(r.unclear, place)
		}
	}
	slices.Sort(r.unclear)
	r.unclear = slices.Compact(r.unclear)
	return &r.served
}

func (r *reader) eachDecl(do func(*project.File, ast.Decl)) {
	for _, pkg := range r.Project.Packages {
		for _, file := range pkg.Files {
			if file.Test || file.Generated {
				continue
			}
			for _, decl := range file.Syntax.Decls {
				do(file, decl)
			}
		}
	}
}

// builder is a chain of calls such as ctrl.NewWebhookManagedBy(mgr).For(&v1.Memcached{}).Complete().
type builder struct {
	call   *ast.CallExpr
	object ast.Expr
	paths  map[string]string // of its own, by verb
}

// verbs are how controller-runtime's paths begin.
var verbs = []string{"mutate", "validate"}

// customPaths are the methods of a builder that give it a path of its own, with the verbs that it serves there.
var customPaths = map[string][]string{"WithDefaulterCustomPath": {"mutate"}, "WithValidatorCustomPath": {"validate"},
	"WithCustomPath": verbs}

func (r *reader) readBuilders(file *project.File, decl ast.Decl) {
	var all []*builder
	of := func(call *ast.CallExpr) *builder {
		for _, one := range all {
			if one.call.Pos() == call.Pos() || len(all) == 1 {
				return one // of the same chain, or of the only one
			}
		}
		return &builder{paths: map[string]string{}}
	}
	eachCall(file, decl, func(call *ast.CallExpr, name string) {
		if strings.HasSuffix(name, "WebhookManagedBy") {
			one := &builder{call: call, paths: map[string]string{}}
			if len(call.Args) > 1 {
				one.object = call.Args[1]
			}
			all = append(all, one)
		}
	})
	eachCall(file, decl, func(call *ast.CallExpr, name string) {
		switch {
		case len(all) == 0 || len(call.Args) != 1 || !isOfBuilder(file, call):
		case name == "For":
			of(call).object = call.Args[0]
		case customPaths[name] != nil:
			path, isKnown := textOf(file, call.Args[0])
			if !isKnown {
				r.unclear = append(r.unclear, r.Project.Place(call.Pos()))
			}
			for _, verb := range customPaths[name] {
				of(call).paths[verb] = path
			}
		}
	})
	for _, one := range all {
		r.addBuilder(file, decl, one)
	}
}

// isOfBuilder reports whether a call is that of a method of a builder of webhooks; that of controllers has alike ones.
func isOfBuilder(file *project.File, call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of := named(file.Info.TypeOf(method.X))
	return of != nil && of.Name() == "WebhookBuilder"
}

func (r *reader) addBuilder(file *project.File, decl ast.Decl, one *builder) {
	kind, isKnown := r.kindOf(file, one.object)
	if !isKnown {
		r.unclear = append(r.unclear, r.Project.Place(one.call.Pos()))
	}
	if kind == "" {
		return
	}
	for _, at := range r.homesOf(file, decl, map[string]bool{}) {
		for _, verb := range verbs {
			s := server{kind: kind, at: at, before: r.path(verb, kind, layout.OldPackage), after: r.path(verb, kind, at)}
			if path, ok := one.paths[verb]; ok {
				s.before, s.after = path, path
			}
			r.servers = append(r.servers, s)
		}
	}
}

// path is the one that controller-runtime derives for a kind.
func (r *reader) path(verb, kind string, at layout.Home) string {
	group, version := r.Old.Group, r.Old.Version
	if at == layout.NewPackage {
		group, version = r.Group, r.Version
		if r.Renaming != nil {
			kind = r.Renaming.To
		}
	}
	return "/" + verb + "-" + strings.ReplaceAll(group, ".", "-") + "-" + version + "-" + strings.ToLower(kind)
}

// readDecoders finds handlers that decode an object of a kind that moves by controller-runtime's decoder.
func (r *reader) readDecoders(file *project.File, decl ast.Decl) {
	method, ok := decl.(*ast.FuncDecl)
	if !ok || method.Recv == nil {
		return
	}
	handler := named(file.Info.TypeOf(method.Recv.List[0].Type))
	eachCall(file, decl, func(call *ast.CallExpr, name string) {
		if (name != "Decode" && name != "DecodeRaw") || len(call.Args) != 2 || handler == nil {
			return
		}
		if kind, _ := r.kindOf(file, call.Args[1]); kind != "" {
			key := types.TypeString(handler.Type(), nil)
			if r.isOld(file) { // whose handler is registered depends on the callers
				r.unclear = append(r.unclear, r.Project.Place(call.Pos()))
			}
			r.places[key] = r.Project.Place(call.Pos())
			r.decoders[key] = append(r.decoders[key], server{kind: kind, at: r.homeIn(file)})
		}
	})
}

// homeIn is the package in which code of a file outside the old version's package finds a kind that moves.
func (r *reader) homeIn(file *project.File) layout.Home {
	if r.isOld(file) || !r.Consumes(file) {
		return layout.OldPackage
	}
	return layout.NewPackage
}

func (r *reader) isOld(file *project.File) bool {
	return path.Dir(file.Path) == r.Dir(layout.OldPackage)
}

// homesOf are the packages whose kind a declaration serves. A function of the old version's package serves that of its
// callers: the new version has such a function, too, and callers are moved to it.
func (r *reader) homesOf(file *project.File, decl ast.Decl, seen map[string]bool) []layout.Home {
	if !r.isOld(file) {
		return []layout.Home{r.homeIn(file)}
	}
	function, ok := decl.(*ast.FuncDecl)
	if !ok {
		return nil
	}
	object, ok := file.Info.Defs[function.Name].(*types.Func)
	if !ok || seen[object.FullName()] {
		return nil
	}
	seen[object.FullName()] = true
	found := map[layout.Home]bool{}
	called := false
	r.eachDecl(func(in *project.File, around ast.Decl) {
		ast.Inspect(around, func(node ast.Node) bool {
			ident, ok := node.(*ast.Ident)
			if !ok {
				return true
			}
			used, ok := in.Info.Uses[ident].(*types.Func)
			switch {
			case !ok || used.Name() != object.Name():
			case used.Signature().Recv() != nil && types.IsInterface(used.Signature().Recv().Type()):
				called = true
				r.unclear = append(r.unclear, r.Project.Place(ident.Pos()))
			case used.FullName() != object.FullName():
			case r.isOld(in):
				called = true
				for _, home := range r.homesOf(in, around, seen) {
					found[home] = true
				}
			default:
				called = true
				found[r.homeOfCall(in, object)] = true
			}
			return true
		})
	})
	switch {
	case called:
	case r.Request.Old == request.OldRemove:
		r.idle[r.Project.Place(function.Name.Pos())] = function.Name.Name
		found[layout.NewPackage] = true
	default:
		r.idle[r.Project.Place(function.Name.Pos())] = function.Name.Name
		found[layout.OldPackage] = true
	}
	var homes []layout.Home
	for _, home := range []layout.Home{layout.OldPackage, layout.NewPackage} {
		if found[home] {
			homes = append(homes, home)
		}
	}
	return homes
}

// homeOfCall is the package whose function a call in an importer means afterwards. Methods go with their kind.
func (r *reader) homeOfCall(file *project.File, function *types.Func) layout.Home {
	d := r.Graph.Owner(function)
	if d != nil && r.HomeOf(d, layout.Importer) != layout.NewPackage {
		return layout.OldPackage
	}
	return r.homeIn(file)
}
