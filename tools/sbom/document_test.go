// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdxlib"
)

// The test's own binary is one that Go has built, with modules.
func TestTheSBOMListsEveryModuleOfTheBinary(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	first, second := filepath.Join(t.TempDir(), "a.json"), filepath.Join(t.TempDir(), "b.json")
	for _, output := range []string{first, second} {
		if err := run([]string{"--binary", self, "--version", "v1.2.3", "--output", output}); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(second); err != nil || !bytes.Equal(content, again) {
		t.Errorf("two SBOMs of one binary differ (%v)", err)
	}
	document, err := json.Read(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(document); err != nil {
		t.Error(err)
	}
	described, err := spdxlib.GetDescribedPackageIDs(document)
	if err != nil || len(described) != 1 || described[0] != "binary" {
		t.Errorf("it describes %v (%v)", described, err)
	}
	var locators []string
	for _, p := range document.Packages {
		for _, r := range p.PackageExternalReferences {
			locators = append(locators, r.Locator)
		}
	}
	want := []string{"pkg:golang/" + info.Main.Path + "@v1.2.3", "pkg:golang/stdlib@" +
		strings.TrimPrefix(info.GoVersion, "go")}
	for _, m := range info.Deps {
		want = append(want, "pkg:golang/"+m.Path+"@"+m.Version)
	}
	if len(info.Deps) == 0 || len(locators) != len(want) || len(document.Relationships) != len(want) {
		t.Errorf("%d packages and %d relationships for %d modules", len(locators),
			len(document.Relationships), len(want))
	}
	for _, locator := range want {
		if !slices.Contains(locators, locator) {
			t.Errorf("%s is missing", locator)
		}
	}
}

// A scanner looks for the version that users have, which the go command does not know of modules of the workspace.
func TestModulesOfTheWorkspaceHaveTheVersionOfTheBinary(t *testing.T) {
	info := &debug.BuildInfo{Main: debug.Module{Path: "example.com/program"}, GoVersion: "go1.26.0",
		Deps: []*debug.Module{{Path: "example.com/library", Version: "(devel)"}, {Path: "example.com/other", Version: "v3.0.0"}}}
	document, err := describe("program", "v1.2.3", nil, info)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"example.com/library@v1.2.3", "example.com/other@v3.0.0"} {
		if !slices.ContainsFunc(document.Packages, func(p *spdx.Package) bool {
			return p.PackageExternalReferences[0].Locator == "pkg:golang/"+want
		}) {
			t.Errorf("%s is missing", want)
		}
	}
}

func TestMistakesOnTheCommandLineAreTold(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--version v1 --output x":                       "--binary is missing",
		"--binary x --output x":                         "--version is missing",
		"--binary x --version v1":                       "--output is missing",
		"--binary absent --version v1 --output x":       "no such file",
		"--binary " + text + " --version v1 --output x": "is not a Go binary",
	} {
		t.Chdir(t.TempDir())
		if err := run(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", args, err, want)
		}
		if left, _ := os.ReadDir("."); len(left) > 0 {
			t.Errorf("%s: %v is left", args, left)
		}
	}
}
