// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

func TestAPlanThatGitKnowsIsNoUncommittedChange(t *testing.T) {
	t.Parallel()
	for name, apply := range map[string]func(t *testing.T, dir string, plan *Plan) (bool, error){
		"at once": func(t *testing.T, dir string, plan *Plan) (bool, error) { return Apply(t.Context(), dir, plan, false) },
		"in commits": func(t *testing.T, dir string, plan *Plan) (bool, error) {
			return ApplyInCommits(t.Context(), dir, plan)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := fixture.Repository(t, "kubebuilder")
			fixture.Write(t, dir, map[string]string{"plan.yaml": "# of an earlier version\n"})
			fixture.Commit(t, dir, "with a plan")
			fixture.Run(t, dir, "git", "config", "user.name", "An Author")
			fixture.Run(t, dir, "git", "config", "user.email", "author@example.com")
			plan := planned(t, dir, memcachedRequest)
			document, err := plan.Encode()
			if err != nil {
				t.Fatal(err)
			}
			fixture.Write(t, dir, map[string]string{"plan.yaml": string(document) + "# changed by hand\n"})
			_, err = apply(t, dir, plan)
			fixture.WantProblem(t, err, "uncommitted changes: plan.yaml")
			fixture.Write(t, dir, map[string]string{"plan.yaml": string(document)})
			if done, err := apply(t, dir, plan); err != nil || !done {
				t.Errorf("%v, %v", done, err)
			}
		})
	}
}

func TestATreeThatIsNotThePlansIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "guide")
	plan := guideOutcome(t).Plan
	const group = "pkg/apis/operators/v1/operatorgroup.go"
	for name, test := range map[string]struct {
		change func(t *testing.T, plan *Plan)
		dirty  bool
		want   string
	}{
		"uncommitted changes": {
			change: func(t *testing.T, _ *Plan) { fixture.Append(t, dir, group, "\n// Changed.\n") },
			want:   "uncommitted changes: pkg/apis/operators/v1/operatorgroup.go",
		},
		"code that has changed since": {
			change: func(t *testing.T, _ *Plan) { fixture.Append(t, dir, group, "\n// Changed.\n") },
			dirty:  true,
			want:   "has changed since the plan was made",
		},
		"a manifest that has changed since": {
			change: func(t *testing.T, _ *Plan) { fixture.Append(t, dir, guideManifest, "# changed\n") },
			dirty:  true,
			want:   "or a manifest has changed since the plan was made",
		},
		"a plan that was edited": {
			change: func(_ *testing.T, plan *Plan) { plan.Declarations[0].To = "stay" },
			want:   "not what its request gives",
		},
	} {
		t.Run(name, func(t *testing.T) {
			fixture.Run(t, dir, "git", "checkout", "-q", ".")
			edited := *plan
			edited.Declarations = slices.Clone(plan.Declarations)
			test.change(t, &edited)
			before := fixture.Files(t, dir)
			_, err := Apply(t.Context(), dir, &edited, test.dirty)
			fixture.WantProblem(t, err, test.want)
			if diff := cmp.Diff(before, fixture.Files(t, dir)); diff != "" {
				t.Errorf("a refused plan changed the tree:\n%s", diff)
			}
		})
	}
}

// refused expects that a request for the guide's project is refused before anything is edited, and returns the reason.
func refused(t *testing.T, asked request.Request) error {
	t.Helper()
	from, err := check(guideProject(t), asked)
	if err == nil {
		_, _, err = decide(from)
	}
	if err == nil {
		t.Errorf("the request is taken: %+v", asked)
	}
	return err
}

func TestRequestsThatCannotBeMeantAreRefused(t *testing.T) {
	t.Parallel()
	with := func(change func(*request.Request)) request.Request {
		asked := guideRequest
		asked.Kinds = slices.Clone(asked.Kinds)
		change(&asked)
		return asked
	}
	for name, test := range map[string]struct {
		asked request.Request
		want  string
	}{
		"unknown version": {with(func(r *request.Request) { r.From = "operators.example.com/v7" }),
			"defines the API version operators.example.com/v7; there are: operators.example.com/v1"},
		"unknown kind": {with(func(r *request.Request) { r.Kinds[0] = "Catalog" }),
			"has no kind Catalog; it has: CatalogSourceConfig, OperatorGroup"},
		"version exists": {with(func(r *request.Request) { r.To = r.From }), "exists already"},
		"no version": {with(func(r *request.Request) { r.To = "operators.example.com/two" }),
			"is not a GROUP/VERSION"},
		"unknown declaration": {
			with(func(r *request.Request) { r.Assign = map[string]split.Destination{"Nothing": split.Stay} }),
			"no declaration is named Nothing",
		},
		"assignment of an anchor": {
			with(func(r *request.Request) { r.Assign = map[string]split.Destination{"SchemeBuilder": split.Shared} }),
			"cannot be assigned",
		},
	} {
		t.Run(name, func(t *testing.T) {
			fixture.WantProblem(t, refused(t, test.asked), test.want)
		})
	}
}

func TestAKindThatIsGeneratedIsRefused(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "kubebuilder")
	const name = "api/v1/memcached_types.go"
	fixture.Write(t, dir, map[string]string{name: "// Code generated by a test. DO NOT EDIT.\n\n" + fixture.Files(t, dir)[name]})
	_, err := Make(t.Context(), dir, memcachedRequest)
	fixture.WantProblem(t, err, "Memcached is declared in "+name+", which is generated")
}
