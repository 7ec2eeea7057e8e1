// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package move

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/internal/golden"
)

// comparing is a kubebuilder project with the code of testdata/compared.txtar, and the libraries next to it.
func comparing(t *testing.T) string {
	t.Helper()
	dir, libraries := fixture.Repository(t, "kubebuilder"), fixture.Folder(t)
	for name, content := range fixture.Archive(t, "testdata/compared.txtar") {
		in := libraries
		if below, ok := strings.CutPrefix(name, "project/"); ok {
			in, name = dir, below
		}
		fixture.Write(t, in, map[string]string{name: content})
	}
	fixture.Append(t, dir, "go.mod", "\nrequire (\n\tk8s.io/api v0.37.2\n\tk8s.io/client-go v0.37.2\n)\n\nreplace (\n\t"+
		"k8s.io/api => "+libraries+"/api\n\tk8s.io/client-go => "+libraries+"/client-go\n)\n")
	fixture.Commit(t, dir, "with an admission server")
	return dir
}

// The project's own test runs before and after, because comparisons with one version compile, too. It prints what each
// comparison says of a request or an owner.
func TestAnAdmissionServerTakesRequestsOfBothVersions(t *testing.T) {
	t.Parallel()
	// says is what the fixture's test prints: whether each of its comparisons is true, but for some.
	says := func(most bool, others ...int) string {
		var all []bool
		for i := range 15 {
			all = append(all, most != slices.Contains(others, i))
		}
		return fmt.Sprint(all)
	}
	const asWritten, newVersion, third, newGroup = "[cache.example.com v1]: ", "[cache.example.com v1beta2]: ",
		"[cache.example.com v1alpha1]: ", "[storage.example.com v1]: "
	const versionAlone = 8 // the comparison that names no group
	before := map[string]string{asWritten: says(true), newVersion: says(false), third: says(false),
		newGroup: says(false, versionAlone)}
	for name, test := range map[string]struct {
		to, golden string
		want       map[string]string
	}{
		"another version": {to: memcachedRequest.To, golden: "compared-findings.txt", want: map[string]string{
			asWritten: says(true), newVersion: says(true), third: says(false), newGroup: says(false, versionAlone),
		}},
		// Where code compares the group and the version one by one, a person has to look: its string has a finding.
		"another group": {to: "storage.example.com/v1", golden: "compared-findings-group.txt", want: map[string]string{
			asWritten: says(true), newVersion: says(false), third: says(false), newGroup: says(true, 6, 14),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := comparing(t)
			run := func() string {
				return fixture.Run(t, dir, "go", "test", "-count=1", "-v", "-vet=off", "./internal/admission")
			}
			wantLines(t, "before the move", run(), before)
			asked := memcachedRequest
			asked.To = test.to
			outcome := migrated(t, dir, asked)
			wantLines(t, "after the move", run(), test.want)
			var found []string
			for _, one := range outcome.Plan.Findings {
				if strings.HasPrefix(one.Where, "internal/admission/") || strings.HasPrefix(one.Where, "internal/clients/") {
					found = append(found, strings.TrimPrefix(one.String(), "internal/"))
				}
			}
			slices.Sort(found)
			golden.Compare(t, "testdata/"+test.golden, strings.Join(found, "\n")+"\n")
		})
	}
}

// wantLines asserts that a test has printed lines, by how they begin.
func wantLines(t *testing.T, when, out string, want map[string]string) {
	t.Helper()
	for begins, rest := range want {
		if !strings.Contains(out, begins+rest+"\n") {
			t.Errorf("%s: want %s%s:\n%s", when, begins, rest, out)
		}
	}
}
