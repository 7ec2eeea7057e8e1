// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/typed"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// refused expects that a request for the guide's project is refused before anything is edited, and returns the reason.
func refused(t *testing.T, asked request.Request) error {
	t.Helper()
	p := typed.Load(t, filepath.Join("..", "testdata", "guide"))
	asked = asked.WithDefaults()
	old, err := asked.Check(p)
	if err == nil {
		_, _, err = Decide(p, old, asked)
	}
	if err == nil {
		t.Errorf("the request is taken: %+v", asked)
	}
	return err
}

func TestRequestsThatCannotBeMeantAreRefused(t *testing.T) {
	t.Parallel()
	with := func(change func(*request.Request)) request.Request {
		asked := guideRequest()
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

func TestAnotherGroupOrNameThatCannotBeMeantIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*request.Request)
		want   string
	}{
		"a kind that exists": {func(r *request.Request) { r.To, r.ToKind = r.From, "OperatorGroup" },
			"operators.example.com/v1 has a kind OperatorGroup already"},
		"its own name": {func(r *request.Request) { r.To, r.ToKind = r.From, "CatalogSourceConfig" },
			"is the kind's name already"},
		"no name of a kind": {func(r *request.Request) { r.ToKind = "catalog-source" }, "is not the name of a kind"},
		"one name for two kinds": {func(r *request.Request) {
			r.Kinds,
				r.ToKind = []string{"CatalogSourceConfig", "OperatorGroup"}, "Both"
		}, "--to-kind is the new name of one kind, and 2 are named"},
		"no group":                 {func(r *request.Request) { r.To = "New_Group/v1" }, "is not a group"},
		"a group without a domain": {func(r *request.Request) { r.To = "operators/v1" }, "is not a group"},
		"storage in the old version": {func(r *request.Request) {
			r.To, r.Storage = "new.example.com/v1",
				request.StorageOld
		},
			"--storage old does not go with it"},
		"the same version and no name": {func(r *request.Request) { r.To = r.From }, "exists already"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := guideRequest()
			asked.Kinds = slices.Clone(asked.Kinds)
			test.change(&asked)
			fixture.WantProblem(t, refused(t, asked), test.want)
		})
	}
}

func TestRemovalWithoutASuccessorIsRefused(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*request.Request){
		"importers cannot keep the old names":           func(r *request.Request) { r.Consumers = []string{request.ConsumersNone} },
		"the old version cannot be the storage version": func(r *request.Request) { r.Storage = request.StorageOld },
	} {
		asked := guideRequest()
		asked.Old = request.OldRemove
		change(&asked)
		fixture.WantProblem(t, refused(t, asked), want)
	}
}
