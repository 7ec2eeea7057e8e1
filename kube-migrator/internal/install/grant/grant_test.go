// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// resource returns a resource that is listed and patched at the first version.
func resource(name string, origin migrate.Origin, versions ...string) inventory.Resource {
	r := inventory.Resource{GroupResource: schema.ParseGroupResource(name), Origin: origin, Endpoint: versions[0]}
	for _, v := range versions {
		r.Versions = append(r.Versions, inventory.Version{Name: v})
	}
	return r
}

func custom(name, storage string, versions ...string) inventory.Resource {
	r := resource(name, migrate.Custom, versions...)
	r.CRD = &inventory.CRD{StorageVersion: storage}
	return r
}

func rule(group string, resources, versions []string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, ResourceNames: versions,
		Verbs: []string{"rewrite"}}
}

type names = []string

func TestACustomResourceMayBeRewrittenAtOneVersionAndABuiltInOneAtAll(t *testing.T) {
	broken := custom("broken.demo.example.com", "v1", "v1")
	broken.Problem = &inventory.Problem{Reason: inventory.NotServed}
	got := Of([]inventory.Resource{
		resource("secrets", migrate.BuiltIn, "v1"),
		resource("pods", migrate.BuiltIn, "v1"),
		resource("horizontalpodautoscalers.autoscaling", migrate.BuiltIn, "v2", "v1"),
		resource("gears.aggregated.example.com", migrate.Aggregated, "v2", "v1"),
		custom("widgets.demo.example.com", "v2", "v2", "v1"),
		custom("gadgets.demo.example.com", "v2", "v1", "v2"), // discovery shows the former storage version
		custom("axles.demo.example.com", "v2", "v1beta1", "v1"),
		resource("unread.demo.example.com", "", "v2", "v1"), // built-in or custom
		resource("validatingadmissionpolicies.admissionregistration.k8s.io", migrate.BuiltIn, "v1"),
		resource("validatingwebhookconfigurations.admissionregistration.k8s.io", migrate.BuiltIn, "v1"),
		broken,
	}).Rules()
	want := []rbacv1.PolicyRule{
		rule("", names{"pods", "secrets"}, names{"v1"}),
		rule("admissionregistration.k8s.io", names{"validatingwebhookconfigurations"}, names{"v1"}),
		rule("aggregated.example.com", names{"gears"}, names{"v1", "v2"}),
		rule("autoscaling", names{"horizontalpodautoscalers"}, names{"v1", "v2"}),
		rule("demo.example.com", names{"axles"}, names{"v1beta1"}),
		rule("demo.example.com", names{"gadgets", "unread", "widgets"}, names{"v2"}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, Read(got).Rules()); diff != "" {
		t.Errorf("rules that were read and written again (-want +got):\n%s", diff)
	}
}

func TestTheGrantsFollowTheStorageVersionAndForgetWhatIsGone(t *testing.T) {
	former := []rbacv1.PolicyRule{
		rule("demo.example.com", names{"gone", "widgets"}, names{"v1"}),
		rule("other.example.com", names{"excluded", "hidden"}, names{"v1", "v2"}),
	}
	excludes := func(all []string) bool { return slices.Contains(all, "excluded.other.example.com") }
	known := &inventory.Inventory{Resources: []inventory.Resource{
		custom("widgets.demo.example.com", "v2", "v2", "v1"), custom("excluded.other.example.com", "v1", "v1"),
	}}
	want := []rbacv1.PolicyRule{rule("demo.example.com", names{"widgets"}, names{"v2"})}
	if diff := cmp.Diff(want, Next(former, known, excludes)); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	known.Failures = []inventory.Failure{{Group: "other.example.com"}}
	want = []rbacv1.PolicyRule{
		rule("demo.example.com", names{"gone"}, names{"v1"}), want[0],
		rule("other.example.com", names{"hidden"}, names{"v1", "v2"}),
	}
	if diff := cmp.Diff(want, Next(former, known, excludes)); diff != "" {
		t.Errorf("where discovery is incomplete, rules (-want +got):\n%s", diff)
	}
}
