// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"slices"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/fixture"
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

// The project's own test runs before and after, because comparisons with one version compile, too.
func TestAnAdmissionServerTakesRequestsOfBothVersions(t *testing.T) {
	t.Parallel()
	dir := comparing(t)
	test := func() string {
		return fixture.Run(t, dir, "go", "test", "-count=1", "-v", "-vet=off", "./internal/admission")
	}
	if out := test(); !strings.Contains(out, "v1: all true, any true\n") ||
		!strings.Contains(out, "v1beta2: all false, any false\n") {
		t.Errorf("before: %s", out)
	}
	outcome := migrated(t, dir, memcachedRequest)
	out := test()
	for _, want := range []string{"v1: all true, any true\n", "v1beta2: all true, any true\n",
		"v1alpha1: all false, any false\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("after the move, requests and owners lack %q:\n%s", want, out)
		}
	}
	var found []string
	for _, one := range outcome.Plan.Findings {
		if strings.HasPrefix(one.Where, "internal/admission/") || strings.HasPrefix(one.Where, "internal/clients/") {
			found = append(found, strings.TrimPrefix(one.String(), "internal/"))
		}
	}
	slices.Sort(found)
	golden.Compare(t, "testdata/compared-findings.txt", strings.Join(found, "\n")+"\n")
}
