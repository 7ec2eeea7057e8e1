// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/typed"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

func TestRewritingOfStringsIsRecordedShownAndDoneOnce(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "kubebuilder")
	fixture.Write(t, dir, map[string]string{
		"README.md": "    apiVersion: cache.example.com/v1\r\n    kind: Memcached\r\n",
	})
	fixture.Commit(t, dir, "with a document")
	asked := memcachedRequest
	asked.Strings = request.StringsRewrite
	made := planned(t, dir, asked)
	content, err := made.Encode()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := Decode(content)
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := Again(t.Context(), dir, plan)
	if err != nil {
		t.Fatal(err)
	}
	const want = "    apiVersion: cache.example.com/v1beta2\r\n    kind: Memcached\r\n"
	if got := string(outcome.After["README.md"]); got != want {
		t.Errorf("the plan as it is read again makes the document %q, want %q", got, want)
	}
	if _, err := Apply(t.Context(), dir, plan, false); err != nil {
		t.Fatal(err)
	}
	once := fixture.Files(t, dir)
	if once["README.md"] != want {
		t.Errorf("apply makes the document %q, want %q", once["README.md"], want)
	}
	fixture.Commit(t, dir, "applied")
	if changed, err := Apply(t.Context(), dir, plan, false); err != nil || changed {
		t.Errorf("apply again: %v, %v", changed, err)
	}
	if diff := cmp.Diff(once, fixture.Files(t, dir)); diff != "" {
		t.Errorf("apply again (-want +got):\n%s", diff)
	}
}

func TestStringsAreNotRewrittenForAnotherCRD(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "kubebuilder")
	for name, change := range map[string]func(*request.Request){
		"another group": func(r *request.Request) { r.To = "storage.example.com/v1" },
		"another name":  func(r *request.Request) { r.To, r.ToKind = r.From, "MemoryCache" },
	} {
		asked := memcachedRequest
		asked.Strings = request.StringsRewrite
		change(&asked)
		_, err := examine(t.Context(), typed.Load(t, dir), asked)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		fixture.WantProblem(t, err, "strings cannot be rewritten for another CRD")
	}
}
