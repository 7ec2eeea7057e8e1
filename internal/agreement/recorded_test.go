// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/golden"
	"github.com/kube-migrator/kube-migrator/internal/phrase"
)

// The files are what looks at real clusters have read; `go test -update ./kube-migrator/test/agreement` records them,
// with the tag all.
func TestVerdictsOfRecordedSnapshots(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d recorded snapshots, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var s snapshot.Snapshot
			if err := json.Unmarshal(raw, &s); err != nil {
				t.Fatal(err)
			}
			if again, err := json.Marshal(s); err != nil || string(again)+"\n" != string(raw) {
				t.Errorf("written again it is another text: %v", err)
			}
			golden.Compare(t, strings.TrimSuffix(file, ".json")+".txt", textOf(Judge(&s)))
		})
	}
}

// textOf has a line for each verdict, and one for each server that was not asked and found to write that version.
func textOf(verdicts []Verdict) string {
	var b strings.Builder
	for _, v := range verdicts {
		fmt.Fprintf(&b, "%s: %s, %s", v.Resource, v.Origin, v.Evidence)
		switch {
		case v.Epoch != nil:
			fmt.Fprintf(&b, ", %s in %s", phrase.Count(len(v.Servers), "server", "servers"), v.Version)
		case v.Disagree:
			b.WriteString(", servers disagree")
		}
		if v.Why != "" {
			fmt.Fprintf(&b, " (%s)", v.Why)
		}
		for _, s := range v.Servers {
			if !s.Answered || s.Version != v.Version {
				fmt.Fprintf(&b, "\n  %s writes %q; answered: %v, declared: %v", s.ID, s.Version, s.Answered, s.Declared)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
