// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"go/ast"
	"go/types"
	"slices"
	"strconv"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

// program is the file in which kubebuilder makes the manager.
type program struct {
	*project.File
	pkg     *project.Package
	manager string         // the variable
	runtime *types.Package // controller-runtime
	text    string         // as it is going to be
	names   map[string]bool
	added   map[string]string // the names of packages that it is going to import
}

// program finds the manager's; nil if there is none that can be changed.
func (w *wiring) program() *program {
	var found *program
	w.eachFile(func(pkg *project.Package, file *project.File) {
		if pkg.Name != "main" || found != nil || !slices.ContainsFunc(strings.Split(string(file.Source), "\n"),
			marker("builder").MatchString) {
			return
		}
		p := &program{File: file, pkg: pkg, text: string(file.Source), names: map[string]bool{}, added: map[string]string{}}
		for _, name := range pkg.Types.Scope().Names() {
			p.names[name] = true
		}
		for _, spec := range file.Syntax.Imports {
			p.names[file.PackageName(spec)] = true
		}
		for _, one := range pkg.Types.Imports() {
			if project.Unvendored(one.Path()) == runtimePackage {
				p.runtime = one
			}
		}
		ast.Inspect(file.Syntax, func(node ast.Node) bool {
			assign, ok := node.(*ast.AssignStmt)
			if !ok || len(assign.Rhs) != 1 {
				return true
			}
			call, ok := assign.Rhs[0].(*ast.CallExpr)
			if name, isName := assign.Lhs[0].(*ast.Ident); ok && isName && called(file, call) == "NewManager" {
				p.manager = name.Name
			}
			return true
		})
		if p.manager != "" && p.runtime != nil && p.isInScope() {
			found = p
		}
	})
	return found
}

// isInScope reports whether code above the marker can name the manager.
func (p *program) isInScope() bool {
	for _, group := range p.Syntax.Comments {
		for _, comment := range group.List {
			if !marker("builder").MatchString(comment.Text) {
				continue
			}
			scope := p.pkg.Types.Scope().Innermost(comment.Pos())
			if scope == nil {
				return false
			}
			_, object := scope.LookupParent(p.manager, comment.Pos())
			return object != nil
		}
	}
	return false
}

// finish adds the versions that the scheme lacks, and takes the program over.
func (w *wiring) finish(p *program) error {
	w.addVersions(p)
	if p.text == string(p.Source) {
		return nil
	}
	formatted, err := gofmt(p.Path, p.text)
	if err != nil {
		return err
	}
	return w.set(p.Path, formatted)
}

// callSetup adds the call; false if only a person can, which is a note.
func (w *wiring) callSetup(p *program, set *setup) bool {
	alias := "webhook" + set.pkgName
	if set.version != nil {
		alias = w.alias(set.version)
	}
	qualifier, ok := w.imported(p, set.pkg, alias)
	call := qualifier + "." + set.name
	if set.version != nil {
		call = "(&" + qualifier + "." + w.Kind + "{})." + set.name
	}
	if !ok {
		w.Note(p.Path, "has no marker +kubebuilder:scaffold:imports: call %s(%s) of %s before the manager starts", call, p.manager,
			set.pkg)
		return false
	}
	if !p.names["setupLog"] || p.imports("os") == "" {
		w.Note(p.Path, "has no setupLog as kubebuilder writes it: call %s(%s) before the manager starts", call, p.manager)
		return false
	}
	lines := []string{"if err := " + call + "(" + p.manager + "); err != nil {",
		"\tsetupLog.Error(err, \"unable to create webhook\", \"webhook\", " + strconv.Quote(w.Kind) + ")", "\tos.Exit(1)", "}"}
	if w.plugin == 4 || strings.Contains(p.text, "ENABLE_WEBHOOKS") {
		for i := range lines {
			lines[i] = "\t" + lines[i]
		}
		lines = append(append([]string{`if os.Getenv("ENABLE_WEBHOOKS") != "false" {`}, lines...), "}")
	}
	p.text, _ = above(p.text, "builder", lines...)
	return true
}

// imported is how the program calls a package. One that it does not import yet gets a name; false if it cannot.
func (w *wiring) imported(p *program, importPath, name string) (string, bool) {
	if known := p.imports(importPath); known != "" {
		return known, true
	}
	for p.names[name] {
		name = strings.ReplaceAll(w.group(), "-", "") + name
	}
	text, ok := above(p.text, "imports", name+" "+strconv.Quote(importPath))
	if !ok {
		return name, false
	}
	p.text, p.names[name], p.added[importPath] = text, true, name
	return name, true
}

// imports is the name of an imported package; empty if it is not imported.
func (p *program) imports(importPath string) string {
	if name := p.added[importPath]; name != "" {
		return name
	}
	for _, spec := range p.Syntax.Imports {
		if value, err := strconv.Unquote(spec.Path.Value); err == nil && value == importPath {
			return p.PackageName(spec)
		}
	}
	return ""
}

// addVersions adds versions to the scheme that nothing adds to one: without them controller-runtime takes the kind for
// one that is not converted.
func (w *wiring) addVersions(p *program) {
	for _, version := range w.Versions {
		isAdded := false
		w.eachFile(func(pkg *project.Package, file *project.File) {
			for _, object := range file.Info.Uses {
				isAdded = isAdded || pkg.Path != version.Package.Path && object.Pkg() != nil &&
					object.Pkg().Path() == version.Package.Path &&
					slices.Contains([]string{"AddToScheme", "SchemeBuilder", "Install", "AddKnownTypes"}, object.Name())
			}
		})
		if isAdded {
			continue
		}
		must := p.imports("k8s.io/apimachinery/pkg/util/runtime")
		if must == "" || !p.names["scheme"] || version.Package.Types.Scope().Lookup("AddToScheme") == nil {
			w.Note(p.Path, "adds %s to no scheme as kubebuilder does: add it to the manager's", version.Name())
			continue
		}
		before := p.text
		name, isImported := w.imported(p, version.Package.Path, w.alias(version))
		text, ok := above(p.text, "scheme", must+".Must("+name+".AddToScheme(scheme))")
		if !ok || !isImported {
			w.Note(p.Path, "lacks a marker +kubebuilder:scaffold:imports or +kubebuilder:scaffold:scheme: add %s to the scheme",
				version.Name())
			p.text = before // an import that nothing uses does not compile
			delete(p.added, version.Package.Path)
			continue
		}
		p.text = text
	}
}
