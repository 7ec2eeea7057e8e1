// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestWeigh(t *testing.T) {
	observed := migrate.Epoch{Hash: "h", Servers: []string{"a"}, CRDUID: "u", CRDGeneration: 3,
		Evidence: migrate.Observed}
	but := func(change func(*migrate.Epoch)) migrate.Epoch {
		e := observed
		change(&e)
		return e
	}
	sampled := but(func(e *migrate.Epoch) { e.Evidence = migrate.Sampled })
	for name, test := range map[string]struct {
		run, now migrate.Epoch
		unlisted bool // the inventory does not list the CRD
		look     error
		want     comparison
		problem  string
	}{
		"the same epoch lasts": {run: observed, now: observed, want: epochLasts},
		"another process ends it": {run: observed,
			now: but(func(e *migrate.Epoch) { e.Servers = []string{"b"} }), want: epochOver},
		"servers that disagree end it": {run: observed,
			look: fmt.Errorf("look: %w", migrate.ErrDisagreement), want: epochOver},
		"a resource that is not served ends it": {run: observed,
			look: fmt.Errorf("look: %w", agreement.ErrNotServed), want: epochOver},
		"a look that failed says nothing": {run: observed, look: errors.New("no answer"),
			want: comparisonFailed, problem: "no answer"},
		"a run with weak evidence proves nothing, whatever is seen now": {run: sampled, now: observed, want: epochOver},
		"weak evidence at the end says nothing": {run: observed, now: sampled,
			want: comparisonFailed, problem: "Sampled"},
		"a CRD that the inventory does not list cannot be pruned": {run: observed, now: observed, unlisted: true,
			want: comparisonFailed, problem: "CustomResourceDefinition"},
	} {
		t.Run(name, func(t *testing.T) {
			resource := inventory.Resource{CRD: &inventory.CRD{}}
			if test.unlisted {
				resource.CRD = nil
			}
			got, why, err := weigh(&worker.Report{Epoch: test.run}, resource, test.now, test.look, migrate.Observed)
			if got != test.want || (got == epochOver) != (why != "") || (got == comparisonFailed) != (err != nil) {
				t.Errorf("verdict %v, %q, %v; want %v", got, why, err, test.want)
			}
			if err != nil && !strings.Contains(err.Error(), test.problem) {
				t.Errorf("the error %v does not say %q", err, test.problem)
			}
		})
	}
}

// An inventory without CRDs makes every resource look as if it had none.
func TestTheJudgeDoesNotRelyOnHalfAnInventory(t *testing.T) {
	c := testbed.New(t, testbed.Options{})
	if err := c.InstallWidgets(t.Context(), testbed.Widgets{}); err != nil {
		t.Fatal(err)
	}
	proxy := testbed.NewProxy(t, c)
	client, err := apiserver.NewClient(proxy.Config())
	if err != nil {
		t.Fatal(err)
	}
	j := &judge{client: client}
	widgets := &v1alpha1.StorageVersionMigration{}
	widgets.Spec.Resource = v1alpha1.GroupVersionResource{Group: testbed.WidgetGroup, Resource: "widgets"}
	for _, unread := range []string{"customresourcedefinitions", "apiservices"} {
		proxy.SetRules(testbed.Rule{
			Fault: testbed.InternalError(), Match: func(r *http.Request) bool {
				return strings.HasSuffix(r.URL.Path,
					"/"+unread)
			},
		})
		if r, err := j.find(t.Context(), widgets); err == nil {
			t.Errorf("%s could not be read, and the judge relies on %+v", unread, r)
		}
	}
	proxy.SetRules()
	if r, err := j.find(t.Context(), widgets); err != nil || r.CRD == nil {
		t.Errorf("found %+v, %v", r, err)
	}
}
