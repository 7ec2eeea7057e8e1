// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestTheExitCodeOfAPlanSaysWhetherThereIsWork(t *testing.T) {
	plan := func(failures int, verdicts ...inventory.Answer) render.Plan {
		p := render.Plan{Failures: make([]render.PlanFailure, failures)}
		for _, v := range verdicts {
			p.Resources = append(p.Resources, render.PlannedResource{Migration: string(v)})
		}
		return p
	}
	for name, test := range map[string]struct {
		plan  render.Plan
		named bool
		want  int
	}{
		"nothing is there":  {plan(0), false, 0},
		"nothing is needed": {plan(0, inventory.NotNeeded), false, 0},
		"something is needed": {plan(0, inventory.NotNeeded,
			inventory.Needed), false, 2},
		"need wins over what is not known": {plan(1, inventory.Undetermined,
			inventory.Needed), true, 2},
		"built-in resources are always unknown":                 {plan(0, inventory.Undetermined), false, 0},
		"a named resource that is unknown":                      {plan(0, inventory.Undetermined), true, 3},
		"a part that could not be looked at":                    {plan(1, inventory.NotNeeded), false, 3},
		"a part that could not be looked at, but was not named": {plan(1, inventory.NotNeeded), true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := planExit(test.plan, test.named); got != test.want {
				t.Errorf("exit code %d, want %d", got, test.want)
			}
		})
	}
}

func TestAPlannedResourceHasADurationOnlyWhereObjectsWouldBeRewritten(t *testing.T) {
	widgets := inventory.Resource{
		GroupResource: schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}, Kind: "Widget",
		Origin:   migrate.Custom,
		Versions: []inventory.Version{{Name: "v2"}}, Endpoint: "v2",
		StorageVersion: schema.GroupVersion{Group: "demo.example.com", Version: "v2"},
		CRD:            &inventory.CRD{StorageVersion: "v2", StoredVersions: []string{"v1", "v2"}},
	}
	clean := widgets
	clean.CRD = &inventory.CRD{StorageVersion: "v2", StoredVersions: []string{"v2"}}
	broken := widgets
	broken.Problem = &inventory.Problem{Reason: inventory.NotServed}
	forbidden := apierrors.NewForbidden(widgets.GroupResource, "", errors.New("no"))
	objects := &inventory.Objects{Count: 500, Estimated: true}
	seconds := 10.0
	type row struct {
		Migration, Why  string
		Problem         string
		Seconds         *float64
		Error           string
		Forbidden, None bool
	}
	for name, test := range map[string]struct {
		resource inventory.Resource
		count    count
		want     row
	}{
		"needed and counted": {widgets, count{objects: objects},
			row{Migration: "yes", Why: "stored versions claim v1 too", Seconds: &seconds}},
		"not needed": {clean, count{objects: objects},
			row{Migration: "no", Why: "stored versions claim v2 only"}},
		"not possible": {broken, count{}, row{Migration: "yes", Why: "stored versions claim v1 too; but cannot: ",
			Problem: "NotServed", None: true}},
		"forbidden": {widgets, count{err: forbidden},
			row{Migration: "yes", Why: "stored versions claim v1 too", Error: forbidden.Error(),
				Forbidden: true, None: true}},
		"not readable, though nothing old is recorded": {clean, count{err: apierrors.NewInternalError(errors.New("no key"))},
			row{Migration: "unknown", Why: "stored versions claim v2 only; cannot list: Internal error occurred: no key",
				Error: "Internal error occurred: no key", None: true}},
		"not listable now": {widgets, count{err: errors.New("webhook\nfailed")},
			row{Migration: "yes", Why: "stored versions claim v1 too; cannot list: webhook failed",
				Error: "webhook\nfailed", None: true}},
	} {
		t.Run(name, func(t *testing.T) {
			p := plannedResource(test.resource, test.count, test.resource.Need(test.count.objects), 50)
			got := row{p.Migration, p.Why, p.Problem, p.DurationSeconds, p.CountError,
				p.CountForbidden, p.Objects == nil}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("planned (-want +got):\n%s", diff)
			}
		})
	}
}
