// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/ledger"
)

// requested is what an asker has sent.
type requested struct {
	client.Client
	created *v1alpha1.StorageVersionMigration
	patch   string
}

func (r *requested) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

func (r *requested) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	r.created = o.(*v1alpha1.StorageVersionMigration)
	return nil
}

func (r *requested) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	data, err := p.Data(o)
	r.patch = string(data)
	return err
}

func TestWhatIsAskedForHasTheDefaultBoundsUnlessItHasItsOwn(t *testing.T) {
	r := inventory.Resource{GroupResource: schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}}
	bounds := v1alpha1.Pace{MaxObjectsPerSecond: 50, MaxInFlight: 4}
	const unchanged = ""
	for name, test := range map[string]struct {
		otherwise v1alpha1.Pace
		before    *v1alpha1.Pace // nil: there is no migration yet
		want      string         // of the patch
	}{
		"a migration that is created": {otherwise: bounds},
		"no bounds by default":        {before: &v1alpha1.Pace{}, want: unchanged},
		"a migration without bounds": {bounds, &v1alpha1.Pace{},
			`{"op":"add","path":"/spec/pace","value":{"maxObjectsPerSecond":50,"maxInFlight":4}}`},
		"a user has bounded requests alone": {bounds, &v1alpha1.Pace{MaxInFlight: 9},
			`{"op":"add","path":"/spec/pace","value":{"maxObjectsPerSecond":50,"maxInFlight":9}}`},
		"a bandwidth by default": {v1alpha1.Pace{MaxBytesPerSecond: 1000}, &v1alpha1.Pace{MaxInFlight: 9},
			`{"op":"add","path":"/spec/pace","value":{"maxInFlight":9,"maxBytesPerSecond":1000}}`},
		"a user has bounded the bandwidth": {v1alpha1.Pace{MaxBytesPerSecond: 1000},
			&v1alpha1.Pace{MaxBytesPerSecond: 5}, unchanged},
		"a user has bounded both": {bounds,
			&v1alpha1.Pace{MaxObjectsPerSecond: 1, MaxInFlight: 9}, unchanged},
		"no default, but a user has bounded": {v1alpha1.Pace{}, &v1alpha1.Pace{MaxInFlight: 9}, unchanged},
	} {
		sent := &requested{}
		a := asker{client: sent, live: sent, create: true, pace: test.otherwise}
		var all []v1alpha1.StorageVersionMigration
		if test.before != nil {
			m := v1alpha1.StorageVersionMigration{}
			m.Labels, m.Spec.Pace = labels(), *test.before
			m.Spec.Resource.Group, m.Spec.Resource.Resource = r.Group, r.Resource
			all = append(all, m)
		}
		if _, err := a.ask(t.Context(), r, all, ledger.Decision{Request: 2, Reason: "because"}, false); err != nil {
			t.Fatal(err)
		}
		switch {
		case test.before == nil && (sent.created == nil || sent.created.Spec.Pace != test.otherwise ||
			sent.created.Spec.IncrementalGeneration != 0):
			t.Errorf("%s: created %+v", name, sent.created)
		case test.before != nil && (!strings.Contains(sent.patch, test.want) ||
			strings.Contains(sent.patch, "pace") != (test.want != unchanged)):
			t.Errorf("%s: sent %s, want %s", name, sent.patch, test.want)
		}
	}
}

// A run that a user requests rewrites everything, and so does the one that takes its place because of a doubt.
func TestWhichRunsLeaveOutWhatIsProven(t *testing.T) {
	r := inventory.Resource{GroupResource: schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}}
	for name, test := range map[string]struct {
		generation, completed, incremental int64
		want                               bool
	}{
		"after a run that succeeded":          {5, 5, 0, true},
		"in place of a run like this one":     {5, 4, 5, true},
		"in place of a run that a user wants": {6, 5, 5, false},
		"in place of the first run":           {1, 0, 0, false},
	} {
		m := v1alpha1.StorageVersionMigration{}
		m.Labels, m.Spec.Generation, m.Spec.IncrementalGeneration = labels(), test.generation, test.incremental
		m.Spec.Resource.Group, m.Spec.Resource.Resource = r.Group, r.Resource
		m.Status.CompletedGeneration = test.completed
		sent := &requested{}
		a := asker{client: sent, live: sent, create: true}
		all := migrations{needed(&m, map[string]string{})}
		if _, err := a.ask(t.Context(), r, all, ledger.Decision{Request: test.generation + 1}, true); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`{"op":"add","path":"/spec/incrementalGeneration","value":%d}`, test.generation+1)
		if strings.Contains(sent.patch, want) != test.want || strings.Contains(sent.patch, "incremental") != test.want {
			t.Errorf("%s: sent %s, incremental: want %t", name, sent.patch, test.want)
		}
	}
}
