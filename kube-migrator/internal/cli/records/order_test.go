// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// An aggregated API server may have an etcd of its own, and a snapshot may be older than an installation.
func TestRecordsHaveAnOrderOnlyInAnEtcdThatHoldsSuchRecords(t *testing.T) {
	widgets := schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}
	objects := []upgrade.Held{{Objects: 1}}
	state := schema.GroupResource{Group: "migration.k8s.io", Resource: "storagestates"}
	crd := schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	for name, test := range map[string]struct {
		held               map[schema.GroupResource][]upgrade.Held
		wantState, wantCRD string
	}{
		"no etcd was read":         {nil, "7", "5"},
		"an etcd with both":        {map[schema.GroupResource][]upgrade.Held{state: objects, crd: objects}, "7", "5"},
		"one without StorageState": {map[schema.GroupResource][]upgrade.Held{crd: objects}, "", "5"},
		"one without CRDs":         {map[schema.GroupResource][]upgrade.Held{state: objects}, "7", ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := Known{Held: test.held, States: map[schema.GroupResource]*v1alpha1.StorageState{
				widgets: {ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}}}}
			f := k.Of(inventory.Resource{GroupResource: widgets, CRD: &inventory.CRD{ResourceVersion: "5"}})
			if f.StateVersion != test.wantState || f.CRD.ResourceVersion != test.wantCRD {
				t.Errorf("StorageState %q, CRD %q, want %q, %q", f.StateVersion, f.CRD.ResourceVersion,
					test.wantState, test.wantCRD)
			}
		})
	}
}
