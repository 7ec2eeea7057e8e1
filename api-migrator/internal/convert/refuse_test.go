// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/typed"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

func TestWhatCannotBeConvertedIsRefused(t *testing.T) {
	t.Parallel()
	dir := fixture.Copy(t, "conversion")
	fixture.Write(t, dir, fixture.Archive(t, "testdata/odd-kinds.txtar"))
	p := typed.Load(t, dir)
	const v1, v2, v1beta2 = "widgets.example.com/v1", "widgets.example.com/v2", "widgets.example.com/v1beta2"
	const scaffold = "api-migrator convert scaffold --kind "
	for name, test := range map[string]struct {
		request Request
		want    string
		try     string // empty: any
	}{
		"an unknown kind": {Request{Kind: "Nothing"}, "no API version has a kind Nothing", ""},
		"a kind of one version": {Request{Kind: "Lonesome"},
			"Lonesome is in one version only, " + v1beta2, ""},
		"a hub that is no version": {Request{Kind: "Widget", Hub: "v2"},
			`"v2" is not a GROUP/VERSION such as ` + v1, scaffold + "Widget --hub " + v1},
		"a hub that is not there": {Request{Kind: "Widget", Hub: "widgets.example.com/v7"}, "it is in: " +
			v1 + ", " + v1beta2 + ", " + v2, ""},
		"a hub without the kind": {Request{Kind: "Gadget", Hub: v1beta2},
			"it is in: " + v1 + ", " + v2, ""},
		"a kind of two groups": {Request{Kind: "Unmarked"},
			"the groups other.example.com, widgets.example.com all have", scaffold +
				"Unmarked --hub other.example.com/v1"},
		"a version without DeepCopy": {Request{Kind: "Bare", Hub: v2}, "has no DeepCopy methods", ""},
		"a hub that is a spoke": {Request{Kind: "Spoken", Hub: v2},
			"it is a spoke and cannot be the hub", tryInspect},
		"a hub that is one of two": {Request{Kind: "Turned", Hub: v2}, "it is a spoke and cannot be the hub",
			scaffold + "Turned --hub " + v1},
		"another hub": {Request{Kind: "Hubbed", Hub: v2}, "Hubbed of " + v1 +
			" is a hub already", ""},
		"half a conversion": {Request{Kind: "Half", Hub: v2},
			"has one of ConvertTo and ConvertFrom", ""},
		"a hub that imports the spoke's code": {Request{Kind: "Widget", Hub: v1beta2}, "make " + v2 + " the hub", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := choose(p, test.request)
			fixture.WantProblem(t, err, test.want)
			if known := (*hint.Error)(nil); test.try != "" && errors.As(err, &known) && known.Try != test.try {
				t.Errorf("Try: %s, want %s", known.Try, test.try)
			}
		})
	}
	p.Packages = p.Packages[:len(p.Packages)-1] // without the other group
	_, _, err := choose(p, Request{Kind: "Unmarked"})
	fixture.WantProblem(t, err, "none of the versions v1, v2 says that Unmarked is stored in it")
}

func TestAModuleThatLacksALibraryIsToldWhichToGet(t *testing.T) {
	t.Parallel()
	fixture.NeedsGo(t)
	dir := t.TempDir()
	fixture.Write(t, dir, map[string]string{"go.mod": "module example.com/m\n\ngo 1.26.0\n"})
	_, err := librariesOf(t, dir)
	fixture.WantProblem(t, err, "need the package "+conversionPackage)
	// If go.mod requires a module and go.sum lacks it, the command names the version of go.mod.
	dir = fixture.Copy(t, "conversion")
	kept := ""
	for line := range strings.Lines(fixture.Read(t, dir, "go.sum")) {
		if !strings.HasPrefix(line, "sigs.k8s.io/randfill v1.0.0 ") {
			kept += line
		}
	}
	fixture.Write(t, dir, map[string]string{"go.sum": kept})
	_, err = librariesOf(t, dir)
	fixture.WantProblem(t, err, randfillPackage)
	if known := (*hint.Error)(nil); errors.As(err, &known) && !strings.Contains(known.Try, "@v") {
		t.Errorf("Try: %s, want a version", known.Try)
	}
}

func TestAModuleWhoseRequirementsLackALibraryIsToldWhichToGet(t *testing.T) {
	t.Parallel()
	fixture.NeedsGo(t)
	dir := fixture.Copy(t, "conversion")
	replace(t, dir, "go.mod", "\tsigs.k8s.io/yaml v1.6.0 // indirect\n", "")
	_, err := librariesOf(t, dir)
	fixture.WantProblem(t, err, "do not give sigs.k8s.io/yaml")
	if known := (*hint.Error)(nil); errors.As(err, &known) &&
		known.Try != "go get k8s.io/apimachinery/pkg/api/apitesting/fuzzer@v0.37.2" {
		t.Errorf("Try: %s", known.Try)
	}
}

func TestWhatIsNotVendoredYetIsFoundAllTheSame(t *testing.T) {
	t.Parallel()
	fixture.NeedsGo(t)
	dir := fixture.Copy(t, "conversion")
	fixture.Run(t, dir, "go", "mod", "vendor")
	if _, err := os.Stat(filepath.Join(dir, "vendor", fuzzerPackage)); err == nil {
		t.Fatal("the fixture imports what it should lack")
	}
	if _, err := librariesOf(t, dir); err != nil {
		t.Error(err)
	}
}

func TestWhatToGetIsSaidForTheModuleThatLacksIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fixture.Write(t, dir, map[string]string{
		"go.mod":                 "module example.com/m\n\nreplace example.com/m/api => ./api\n",
		"api/go.mod":             "module example.com/m/api\n",
		"api/vendor/modules.txt": "\n",
	})
	workspace, err := project.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	for folder, want := range map[string][2]string{
		"v1":     {"go get example.com/x", "go test ./v1"},
		"api":    {"go -C api get example.com/x && go -C api mod vendor", "go -C api test ./"},
		"api/v1": {"go -C api get example.com/x && go -C api mod vendor", "go -C api test ./v1"},
	} {
		lacks := library{ImportPath: "example.com/x", Broken: "example.com/x"}
		if got := missing(workspace, folder, lacks); got.Try != want[0] {
			t.Errorf("%s: Try: %s, want %s", folder, got.Try, want[0])
		}
		if got := testCommand(workspace, folder); got != want[1] {
			t.Errorf("%s: %s, want %s", folder, got, want[1])
		}
	}
}

func librariesOf(t *testing.T, dir string) (libraries, error) {
	t.Helper()
	workspace, err := project.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	found, missing, err := findLibraries(t.Context(), workspace, ".")
	if missing != nil && err == nil {
		err = missing
	}
	return found, err
}

func TestNothingIsWrittenOverAndAFailureLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plan := &Plan{root: dir, Files: []File{{Path: "new/deep/a.go", Content: "a"}, {Path: "there.go", Content: "new"}}}
	fixture.Write(t, dir, map[string]string{"there.go": "old"})
	if err := plan.Write(); err == nil {
		t.Error("a file is written over")
	}
	if diff := cmp.Diff(map[string]string{"there.go": "old"}, fixture.Files(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); !os.IsNotExist(err) {
		t.Error("a folder is left")
	}
}

func TestCodeThatExistsStays(t *testing.T) {
	t.Parallel()
	fixture.NeedsGo(t)
	dir := fixture.Copy(t, "conversion")
	fixture.Write(t, dir, map[string]string{"api/v1/widget_conversion.go": "package v1\n"})
	before := fixture.Files(t, dir)
	_, err := Make(t.Context(), dir, Request{Kind: "Widget"})
	fixture.WantProblem(t, err, "api/v1/widget_conversion.go exists")
	if diff := cmp.Diff(before, fixture.Files(t, dir)); diff != "" {
		t.Errorf("something was written:\n%s", diff)
	}
}
