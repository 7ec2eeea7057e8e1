// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/internal/golden"
)

func TestRulesForTheOldResourceAreRepeatedForTheNewOne(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/roles/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got := &txtar.Archive{Comment: archive.Comment, Files: archive.Files[:1]}
		successions := []layout.Succession{{Old: crd.Names{Group: "cache.example.com", Plural: "memcacheds"},
			Successor: crd.Names{Group: "storage.example.com", Plural: "memorycaches"}}}
		edited, report := grantInRoles("role.yaml", strings.TrimSuffix(string(archive.Files[0].Data), "\n"), successions)
		again, _ := grantInRoles("role.yaml", edited, successions)
		if again != edited {
			t.Errorf("%s: done twice, it is\n%s", file, again)
		}
		var found []string
		for _, one := range report.Findings {
			found = append(found, one.String()+"\n")
		}
		got.Files = append(got.Files, txtar.File{Name: "after", Data: []byte(strings.TrimSuffix(edited, "\n") + "\n")},
			txtar.File{Name: "findings", Data: []byte(strings.Join(found, ""))})
		golden.Compare(t, file, string(txtar.Format(got)))
	}
}
