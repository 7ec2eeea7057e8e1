// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/internal/inventory"
)

func TestARoleIsExtendedByWhatHasComeAndForgetsWhatIsGone(t *testing.T) {
	rule := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources,
			Verbs: []string{"get", "list", "patch"}}
	}
	named := func(name string) inventory.Resource {
		return inventory.Resource{GroupResource: schema.ParseGroupResource(name)}
	}
	before := []rbacv1.PolicyRule{rule("a.example.com", "gone", "things"), rule("z.example.com", "gone")}
	known := &inventory.Inventory{Resources: []inventory.Resource{named("things.a.example.com"),
		named("others.a.example.com"), named("new.b.example.com")}}
	more := []schema.GroupResource{schema.ParseGroupResource("new.b.example.com"),
		schema.ParseGroupResource("others.a.example.com")}
	if diff := cmp.Diff([]rbacv1.PolicyRule{rule("a.example.com", "others", "things"), rule("b.example.com", "new")},
		extended(before, more, known)); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	known.Failures = []inventory.Failure{{Group: "z.example.com"}}
	want := []rbacv1.PolicyRule{rule("a.example.com", "gone", "others", "things"), rule("b.example.com", "new"),
		rule("z.example.com", "gone")}
	if diff := cmp.Diff(want, extended(before, more, known)); diff != "" {
		t.Errorf("where discovery is incomplete, rules (-want +got):\n%s", diff)
	}
}

func TestNothingIsGrantedWithoutARoleNorOfTheGroupOfAdmission(t *testing.T) {
	policies := schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}
	widgets := schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}
	for name, test := range map[string]struct {
		role    string
		lacking schema.GroupResource
	}{
		"no role":            {"", widgets},
		"admission policies": {"worker-later", policies},
		"the rest of the group": {"worker-later",
			schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "others"}},
	} {
		g := grants{role: test.role} // it has no client: a request would panic
		granted, err := g.extend(t.Context(), map[schema.GroupResource]*access.ForbiddenError{test.lacking: {}},
			&inventory.Inventory{})
		if err != nil || len(granted) > 0 {
			t.Errorf("%s: granted %v, %v", name, granted, err)
		}
	}
}
