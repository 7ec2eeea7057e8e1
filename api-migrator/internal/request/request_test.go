// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"slices"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
)

func parsed(t *testing.T, name, text string) *project.File {
	t.Helper()
	file, _, err := source.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &project.File{Path: name, Source: []byte(text), Syntax: file}
}

func TestPatternsOfConsumersAreTakenAsTheGoCommandDoes(t *testing.T) {
	t.Parallel()
	p, old := &project.Project{}, &project.Version{Package: &project.Package{Path: "example.com/x/api/v1"}}
	for _, dir := range []string{"cmd", "pkg/controller", "pkg/controller/deep"} {
		file := parsed(t, dir+"/a.go", "package a\n\nimport _ \"example.com/x/api/v1\"\n")
		p.Packages = append(p.Packages, &project.Package{Dir: dir, Files: []*project.File{file}})
	}
	p.Packages = append(p.Packages, &project.Package{Dir: "other",
		Files: []*project.File{parsed(t, "other/a.go", "package other\n")}})
	for pattern, want := range map[string]string{
		ConsumersAll: "cmd pkg/controller pkg/controller/deep other", ConsumersNone: "",
		"./...":                "cmd pkg/controller pkg/controller/deep other",
		"pkg/controller/...":   "pkg/controller pkg/controller/deep",
		"./pkg/controller/...": "pkg/controller pkg/controller/deep",
		"pkg/controller/":      "pkg/controller", "./cmd": "cmd", "pkg/*": "pkg/controller",
		"other": "no folder with an importer", "controller/...": "no folder with an importer",
		"pkg/[": "is not a pattern",
	} {
		asked := Request{Consumers: []string{pattern}}
		if err := asked.checkConsumers(p, old); err != nil {
			fixture.WantProblem(t, err, want)
			continue
		}
		var got []string
		for _, pkg := range p.Packages {
			if asked.Consumes(pkg.Files[0].Path) {
				got = append(got, pkg.Dir)
			}
		}
		if !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s means %q, want %q", pattern, got, want)
		}
	}
}
