// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

func TestGroupVersionsAreAllThatServeTheSameObjects(t *testing.T) {
	events := inventory.Resource{
		GroupResource: schema.GroupResource{Resource: "events"},
		Versions:      []inventory.Version{{Name: "v1"}, {Name: "v1beta1"}},
		Aliases: []schema.GroupVersionResource{
			{Group: "events.k8s.io", Version: "v1", Resource: "events"}, {Version: "v1", Resource: "events"},
			{Group: "events.k8s.io", Version: "v1beta1", Resource: "events"},
		},
	}
	want := []v1alpha1.GroupVersion{{Version: "v1"}, {Version: "v1beta1"}, {Group: "events.k8s.io", Version: "v1"},
		{Group: "events.k8s.io", Version: "v1beta1"}}
	if diff := cmp.Diff(want, GroupVersions(events)); diff != "" {
		t.Errorf("of events (-want +got):\n%s", diff)
	}
	many := inventory.Resource{}
	for i := range 100 {
		many.Versions = append(many.Versions, inventory.Version{Name: fmt.Sprint("v", i)})
	}
	if got := GroupVersions(many); len(got) != mostGroupVersions || got[0].Version != "v0" {
		t.Errorf("%d of many, the first %v", len(got), got[0])
	}
	if got := GroupVersions(inventory.Resource{}); len(got) != 0 {
		t.Errorf("of what is not served: %v", got)
	}
}
