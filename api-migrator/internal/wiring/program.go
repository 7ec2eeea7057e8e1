// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/types"
	"path"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

const runtimePackage = "sigs.k8s.io/controller-runtime"

// setup is the function that registers the webhook.
type setup struct {
	name    string // in code outside of its package: SetupWidgetWebhookWithManager
	pkg     string // its import path
	pkgName string
	version *project.Version // whose kind has the method; nil for a function
}

// addProgram registers the webhook, and has the manager's program do so.
func (w *wiring) addProgram() error {
	set, isCalled := w.registration()
	program := w.program()
	switch {
	case isCalled && program == nil, !isCalled && set != nil && set.name == "":
		return nil
	case isCalled:
		return w.finish(program)
	case program == nil:
		w.Note("", "no program has kubebuilder's marker +kubebuilder:scaffold:builder and makes a manager: call "+
			"ctrl.NewWebhookManagedBy for %s of %s before the manager starts, with every version in its scheme", w.Kind,
			w.Hub.Name())
		return nil
	}
	if set == nil {
		var err error
		if set, err = w.createSetup(program); err != nil || set == nil {
			return err
		}
	}
	if !w.callSetup(program, set) {
		return nil
	}
	return w.finish(program)
}

// registration finds the code that registers the webhook of the kind in any version, and whether something calls it. It
// has no name if only a person can call it, which is a note.
func (w *wiring) registration() (found *setup, isCalled bool) {
	var full string
	w.eachFile(func(pkg *project.Package, file *project.File) {
		for _, decl := range file.Syntax.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok || found != nil || !w.registers(file, function) {
				continue
			}
			object, ok := file.Info.Defs[function.Name].(*types.Func)
			if !ok {
				continue
			}
			full = object.FullName()
			isCalled = pkg.Name == "main"
			found = &setup{pkg: pkg.Path, pkgName: pkg.Name}
			if w.isCallable(object, found) {
				found.name = object.Name()
			}
		}
	})
	if found == nil {
		return nil, false
	}
	w.eachFile(func(_ *project.Package, file *project.File) {
		for _, object := range file.Info.Uses {
			if function, ok := object.(*types.Func); ok && function.FullName() == full {
				isCalled = true
			}
		}
	})
	if !isCalled && found.name == "" {
		w.Note("", "%s registers the webhook of %s, and no program calls it: call it before the manager starts", full, w.Kind)
	}
	return found, isCalled
}

// isCallable reports whether the manager is all that a function needs, besides an object of the kind where it is a
// method.
func (w *wiring) isCallable(function *types.Func, set *setup) bool {
	signature := function.Signature()
	if receiver := signature.Recv(); receiver != nil {
		at := slices.IndexFunc(w.Versions, func(v *project.Version) bool { return v.Package.Path == set.pkg })
		if at < 0 || !w.isKind(receiver.Type()) {
			return false
		}
		set.version = w.Versions[at]
	}
	return function.Exported() && signature.Params().Len() == 1 && !signature.Variadic() && signature.Results().Len() == 1
}

func (w *wiring) eachFile(do func(*project.Package, *project.File)) {
	for _, pkg := range w.project.Packages {
		for _, file := range pkg.Files {
			if !file.Test && !file.Generated {
				do(pkg, file)
			}
		}
	}
}

// registers reports whether a function makes a webhook of the kind with controller-runtime's builder.
func (w *wiring) registers(file *project.File, function *ast.FuncDecl) (found bool) {
	ast.Inspect(function, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || found {
			return !found
		}
		name := called(file, call)
		switch {
		case slices.Contains([]string{"NewWebhookManagedBy", "WebhookManagedBy"}, name) && len(call.Args) == 2:
			found = w.isKind(file.Info.TypeOf(call.Args[1]))
		case name == "For" && len(call.Args) == 1 && isWebhookBuilder(file.Info.TypeOf(call)):
			found = w.isKind(file.Info.TypeOf(call.Args[0]))
		}
		return !found
	})
	return found
}

// called is the name of a function, method or variable of controller-runtime that is called; empty for others.
func called(file *project.File, call *ast.CallExpr) string {
	selector, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	object := file.Info.Uses[selector.Sel]
	if object == nil || object.Pkg() == nil ||
		!strings.HasPrefix(project.Unvendored(object.Pkg().Path())+"/", runtimePackage+"/") {
		return ""
	}
	return object.Name()
}

func isWebhookBuilder(t types.Type) bool {
	name := nameOf(t)
	return name != nil && name.Name() == "WebhookBuilder"
}

func (w *wiring) isKind(t types.Type) bool {
	name := nameOf(t)
	return name != nil && name.Name() == w.Kind && name.Pkg() != nil &&
		slices.ContainsFunc(w.Versions, func(v *project.Version) bool { return v.Package.Path == name.Pkg().Path() })
}

// nameOf is the name of a type, or of what it points to; nil without one.
func nameOf(t types.Type) *types.TypeName {
	if t == nil {
		return nil
	}
	t = types.Unalias(t)
	if pointer, ok := t.(*types.Pointer); ok {
		t = types.Unalias(pointer.Elem())
	}
	if named, ok := t.(*types.Named); ok {
		return named.Obj()
	}
	return nil
}

// createSetup adds the file that registers the webhook of the hub: next to the types, or, since go/v4, in internal.
func (w *wiring) createSetup(program *program) (*setup, error) {
	parameters := 0
	if function := program.runtime.Scope().Lookup("NewWebhookManagedBy"); function != nil {
		if signature, ok := function.Type().(*types.Signature); ok {
			parameters = signature.Params().Len()
		}
	}
	if parameters == 0 {
		w.Note("", "%s has no function NewWebhookManagedBy: register the conversion webhook of %s as that release does",
			runtimePackage, w.Kind)
		return nil, nil
	}
	builder := func(object string) string {
		if parameters == 2 {
			return "ctrl.NewWebhookManagedBy(mgr, " + object + ").\n\t\tComplete()"
		}
		return "ctrl.NewWebhookManagedBy(mgr).\n\t\tFor(" + object + ").\n\t\tComplete()"
	}
	file := strings.ToLower(w.Kind) + "_webhook.go"
	const comment = "// %s registers the webhook that converts between the versions of %s.\n"
	made := &setup{name: "SetupWebhookWithManager", pkg: w.Hub.Package.Path, pkgName: w.Hub.Package.Name, version: w.Hub}
	name := path.Join(w.Hub.Package.Dir, file)
	text := w.Header + "package " + made.pkgName + "\n\nimport ctrl \"" + runtimePackage + "\"\n\n" +
		fmt.Sprintf(comment, made.name, w.Kind) + "func (r *" + w.Kind + ") " + made.name +
		"(mgr ctrl.Manager) error {\n\treturn " + builder("r") + "\n}\n"
	if w.plugin == 4 && !w.hasOldWebhooks() {
		folder := w.Hub.Version
		if w.multiGroup {
			folder = w.group() + "/" + folder
		}
		dir := path.Join(w.dir, "internal", "webhook", folder)
		made = &setup{name: "Setup" + w.Kind + "WebhookWithManager", pkg: w.project.Workspace.ImportPath(dir),
			pkgName: w.Hub.Version}
		name = path.Join(dir, file)
		alias := w.alias(w.Hub)
		text = w.Header + "package " + made.pkgName + "\n\nimport (\n\tctrl \"" + runtimePackage + "\"\n\n\t" + alias + " \"" +
			w.Hub.Package.Path + "\"\n)\n\n" + fmt.Sprintf(comment, made.name, w.Kind) + "func " + made.name +
			"(mgr ctrl.Manager) error {\n\treturn " + builder("&"+alias+"."+w.Kind+"{}") + "\n}\n"
	}
	if tree.Folder(w.project.Root).Exists(name) {
		w.Note(name, "exists, and does not register a webhook of %s: call ctrl.NewWebhookManagedBy for it there", w.Kind)
		return nil, nil
	}
	return made, w.set(name, text)
}

// hasOldWebhooks reports whether webhooks are next to the types, where kubebuilder wrote them before it had a package
// for them.
func (w *wiring) hasOldWebhooks() bool {
	return slices.ContainsFunc(w.Hub.Package.Files, func(f *project.File) bool {
		return strings.HasSuffix(f.Path, "_webhook.go")
	})
}

// alias is how kubebuilder imports a version's package.
func (w *wiring) alias(version *project.Version) string {
	return strings.NewReplacer("-", "", ".", "", "_", "").Replace(w.group()) + version.Version
}

// gofmt formats a program whose lines have been added as text.
func gofmt(name, text string) (string, error) {
	formatted, err := format.Source([]byte(text))
	if err != nil {
		return "", fmt.Errorf("format %s: %w", name, err)
	}
	return string(formatted), nil
}
