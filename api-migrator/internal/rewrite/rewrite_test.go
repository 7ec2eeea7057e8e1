// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/decided"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/typed"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/mention"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

// rewritten is what becomes of the Go code of a project.
func rewritten(t *testing.T, l *layout.Layout) changeset.Result {
	t.Helper()
	uses, all := mention.NewReader(l), changeset.After(nil)
	created, whole, err := Create(l, uses)
	for _, step := range []func() (changeset.Result, error){
		func() (changeset.Result, error) { return created, err },
		func() (changeset.Result, error) { return Old(l, all.Changes, whole, uses) },
		func() (changeset.Result, error) { return Tests(l, all.Changes) },
		func() (changeset.Result, error) { return Importers(l, all.Changes, uses) },
		func() (changeset.Result, error) { return OtherVersions(l, all.Changes) },
		func() (changeset.Result, error) { return GroupFile(l, all.Changes) },
		func() (changeset.Result, error) { return Markers(l, all.Changes) },
		func() (changeset.Result, error) { return Removal(l, all.Changes) },
	} {
		one, err := step()
		if err != nil {
			t.Fatal(err)
		}
		all.Changes.Add(one.Changes)
		all.Report.Add(one.Report)
	}
	if len(all.Blockers) > 0 {
		t.Fatalf("blockers: %v", all.Blockers)
	}
	return all
}

// checkCompiles type-checks a project with changes. Each package of the migration gets DeepCopy methods without code, in
// the place of those that a generator writes.
func checkCompiles(t *testing.T, files map[string]string, l *layout.Layout, changes changeset.Set) {
	t.Helper()
	after, dir := maps.Clone(files), fixture.Folder(t)
	for name, change := range changes {
		after[name] = string(change.Content)
		if change.Content == nil {
			delete(after, name)
			continue
		}
		if formatted, err := format.Source(change.Content); path.Ext(name) == ".go" && (err != nil ||
			string(formatted) != string(change.Content)) {
			t.Errorf("%s is not formatted: %v\n%s", name, err, change.Content)
		}
	}
	for _, folder := range slices.Compact(l.Dirs()) {
		if text := copies(t, folder, after); text != "" {
			after[path.Join(folder, project.DeepCopyFile)] = text
		}
	}
	fixture.Write(t, dir, after)
	if err := typed.Load(t, dir).Compiles(); err != nil {
		t.Error(err)
	}
}

// copies are DeepCopy methods for the types in a folder; empty if there are none.
func copies(t *testing.T, folder string, files map[string]string) string {
	t.Helper()
	var name, methods string
	for file, content := range files {
		if path.Dir(file) != folder || path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") ||
			path.Base(file) == project.DeepCopyFile {
			continue
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), file, content, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		name = syntax.Name.Name
		ast.Inspect(syntax, func(node ast.Node) bool {
			spec, ok := node.(*ast.TypeSpec)
			if !ok || spec.Assign != 0 {
				return true
			}
			_, isStruct := spec.Type.(*ast.StructType)
			_, isDefined := spec.Type.(*ast.SelectorExpr) // as a type of the new version
			if isStruct || isDefined {
				methods += strings.ReplaceAll("\nfunc (in *T) DeepCopyInto(out *T) {}\nfunc (in *T) DeepCopy() *T { return in }\n"+
					"func (in *T) DeepCopyObject() runtime.Object { return nil }\n", "T", spec.Name.Name)
			}
			return true
		})
	}
	if methods == "" {
		return ""
	}
	return fmt.Sprintf("package %s\n\nimport \"k8s.io/apimachinery/pkg/runtime\"\n%s", name, methods)
}

func TestCodeCompilesWithEveryCombinationOfOptions(t *testing.T) {
	t.Parallel()
	for name, asked := range map[string]request.Request{"guide": decided.Guide(), "kubebuilder": decided.Memcached()} {
		dir := fixture.Repository(t, name)
		files := fixture.Files(t, dir)
		for _, one := range combinations(asked) {
			t.Run(strings.Join([]string{name, one.Shared, one.Old, one.Unexported, one.To, one.ToKind}, ","), func(t *testing.T) {
				t.Parallel()
				l := decided.Layout(t, dir, one)
				checkCompiles(t, files, l, rewritten(t, l).Changes)
			})
		}
	}
}

// combinations are a request with all options that go together: for another version, group or name.
func combinations(asked request.Request) (all []request.Request) {
	version, group, kind := asked, asked, asked
	group.To = "new.example.com/v1"
	kind.To, kind.ToKind = asked.From, "Catalog"
	for _, one := range []request.Request{version, group, kind} {
		for _, one.Shared = range []string{request.SharedPackage, request.SharedNewest, request.SharedDuplicate, request.SharedOld} {
			for _, one.Old = range []string{request.OldKeep, request.OldWrap, request.OldAlias, request.OldRemove} {
				for _, one.Unexported = range []string{request.UnexportedInternal, request.UnexportedExport} {
					switch refers := one.Old == request.OldWrap || one.Old == request.OldAlias; {
					case one.ToKind != "" && one.Old != request.OldKeep: // both kinds stand in one package
					case one.Shared == request.SharedOld && (refers || one.Unexported == request.UnexportedInternal):
						// Each version would import the other one, or the new one what is not exported.
					default:
						all = append(all, one)
					}
				}
			}
		}
	}
	return all
}
