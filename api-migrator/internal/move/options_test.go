// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
)

const storageMarker = "// +kubebuilder:storageversion"

// options is a combination of three options of a request.
type options struct{ shared, old, unexported string }

func (o options) String() string { return strings.Join([]string{o.shared, o.old, o.unexported}, ",") }

func (o options) of(asked request.Request) request.Request {
	asked.Shared, asked.Old, asked.Unexported = o.shared, o.old, o.unexported
	return asked
}

// Each value of each option is among these, and each pair of --shared newest and duplicate with --old that differs from
// the default in both. Those that are not compiled here are in make test-all; with the tag long, all combinations are.
func TestCombinationsOfOptionsGiveCodeThatCompilesAndLosesNothing(t *testing.T) {
	t.Parallel()
	guide, kubebuilder := fixture.Repository(t, "guide"), fixture.Repository(t, "kubebuilder")
	for _, test := range []struct {
		dir   string
		asked request.Request
	}{
		{guide, options{request.SharedNewest, request.OldKeep, request.UnexportedInternal}.of(guideRequest)},
		{guide, options{request.SharedNewest, request.OldRemove, request.UnexportedExport}.of(guideRequest)},
		{guide, options{request.SharedDuplicate, request.OldAlias, request.UnexportedExport}.of(guideRequest)},
		{guide, options{request.SharedOld, request.OldRemove, request.UnexportedExport}.of(guideRequest)},
		{kubebuilder, options{request.SharedNewest, request.OldWrap, request.UnexportedInternal}.of(memcachedRequest)},
		{kubebuilder, options{request.SharedPackage, request.OldRemove,
			request.UnexportedInternal}.of(memcachedRequest)},
	} {
		t.Run(test.asked.Shared+","+test.asked.Old, func(t *testing.T) {
			t.Parallel()
			if test.asked.Shared == request.SharedNewest && test.asked.Old != request.OldKeep {
				checkMade(t, test.dir, test.asked)
				return
			}
			checkOutcome(t, test.dir, test.asked)
		})
	}
}

// checkOutcome plans a request and asserts what must hold of every plan.
func checkOutcome(t *testing.T, dir string, asked request.Request) *Outcome {
	t.Helper()
	return checked(t, dir, asked, outcomeOf(t, dir, asked))
}

// checkMade is checkOutcome for a request whose outcome is always compiled.
func checkMade(t *testing.T, dir string, asked request.Request) *Outcome {
	t.Helper()
	return checked(t, dir, asked, made(t, dir, asked))
}

func checked(t *testing.T, dir string, asked request.Request, outcome *Outcome) *Outcome {
	t.Helper()
	before := fixture.Files(t, dir)
	for _, blocker := range outcome.Plan.Blockers {
		t.Errorf("blocked: %s: %s", blocker.Where, blocker.Text)
	}
	after := outcome.files(before)
	have := comments(t, after)
	for comment, n := range comments(t, before) {
		if have[comment] < n {
			t.Errorf("%d of %d comments are left: %s", have[comment], n, comment)
		}
	}
	for name, content := range outcome.After {
		if path.Ext(name) == ".go" && content != nil {
			checkFile(t, name, content)
		}
	}
	checkVersions(t, asked, after)
	return outcome
}

// files returns the tree after an outcome, from the tree before.
func (o *Outcome) files(before map[string]string) map[string]string {
	after := maps.Clone(before)
	for name, content := range o.After {
		if after[name] = string(content); content == nil {
			delete(after, name)
		}
	}
	return after
}

func checkFile(t *testing.T, name string, content []byte) {
	t.Helper()
	if formatted, err := format.Source(content); err != nil || !bytes.Equal(formatted, content) {
		t.Errorf("%s is not formatted: %v\n%s", name, err, content)
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if ast.IsGenerated(file) && path.Base(name) != project.DeepCopyFile && !source.NamesTypesAlone(content) {
		t.Errorf("%s is generated and was edited", name)
	}
}

// checkVersions asserts that one version of each kind is marked as the storage version, and that the new version does
// not need the old one, but for code that both use and that stays there.
func checkVersions(t *testing.T, asked request.Request, after map[string]string) {
	t.Helper()
	marked := map[string][]string{}
	for name, content := range after {
		if path.Ext(name) != ".go" {
			continue
		}
		for _, kind := range markedIn(t, name, content) {
			marked[kind] = append(marked[kind], name)
		}
		for _, importPath := range importsIn(t, name, content) {
			if path.Base(path.Dir(name)) == path.Base(asked.To) && path.Base(importPath) == path.Base(asked.From) &&
				!strings.Contains(importPath, "apimachinery") && asked.Shared != request.SharedOld {
				t.Errorf("%s imports %s", name, importPath)
			}
		}
	}
	for _, kind := range asked.Kinds {
		if len(marked[kind]) != 1 {
			t.Errorf("%s is marked as stored in %q, want one place", kind, marked[kind])
		}
	}
}

// markedIn returns the types whose comments have the marker of the storage version.
func markedIn(t *testing.T, name, content string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	previous := file.Name.End()
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		for _, group := range file.Comments {
			if ok && general.Tok == token.TYPE && previous < group.Pos() && group.Pos() < general.TokPos &&
				strings.Contains(content[group.Pos()-1:group.End()-1]+"\n", storageMarker+"\n") {
				found = append(found, general.Specs[0].(*ast.TypeSpec).Name.Name)
			}
		}
		previous = decl.End()
	}
	return found
}

func importsIn(t *testing.T, name, content string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, spec := range file.Imports {
		found = append(found, strings.Trim(spec.Path.Value, `"`))
	}
	return found
}
