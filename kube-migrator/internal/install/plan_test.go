// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/golden"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
)

var widgets = schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}

func planOf(t *testing.T, o Options, resources ...schema.GroupResource) []*unstructured.Unstructured {
	t.Helper()
	o.Image = "registry.example.com/kube-migrator:v1.0.0"
	o = o.Complete()
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	plan, err := Plan(o, resources, nil)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// rulesOf returns the rules of a role, or of a cluster role if namespace is empty.
func rulesOf(t *testing.T, plan []*unstructured.Unstructured, namespace, name string) []rbacv1.PolicyRule {
	t.Helper()
	for _, o := range plan {
		if strings.HasSuffix(o.GetKind(), "Role") && o.GetName() == name && o.GetNamespace() == namespace {
			var role rbacv1.Role
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
				t.Fatal(err)
			}
			return role.Rules
		}
	}
	t.Fatalf("no role %s in %q", name, namespace)
	return nil
}

func TestTheManifestsAreThoseOfTheGoldenFile(t *testing.T) {
	plan := planOf(t, Options{Exclude: []string{"events"}, Guard: true}, schema.GroupResource{Resource: "secrets"},
		widgets, schema.GroupResource{Resource: "configmaps"})
	// The CRDs are files already.
	plan = slices.DeleteFunc(
		plan, func(o *unstructured.Unstructured) bool { return o.GetKind() == "CustomResourceDefinition" },
	)
	got, err := YAML(plan)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/manifests.yaml", string(got))
}

func TestNoRuleHasAWildcardWhereResourcesAreIncludedAndNoneRaisesItself(t *testing.T) {
	for _, options := range []Options{{Exclude: []string{"secrets"}}, {Include: []string{"widgets.*"}}} {
		for _, o := range planOf(t, options, widgets) {
			if !strings.HasSuffix(o.GetKind(), "Role") {
				continue
			}
			for _, r := range rulesOf(t, []*unstructured.Unstructured{o}, o.GetNamespace(), o.GetName()) {
				for _, word := range slices.Concat(r.Verbs, r.APIGroups, r.Resources,
					r.ResourceNames, r.NonResourceURLs) {
					if strings.Contains(word, "*") || word == "escalate" || word == "bind" || word == "impersonate" {
						t.Errorf("%s %s grants %q: %+v", o.GetKind(), o.GetName(), word, r)
					}
				}
				if r.Verbs[0] == "get" && len(r.NonResourceURLs) == 1 && len(r.APIGroups)+len(r.Resources) == 0 {
					continue // /metrics
				}
				if len(r.APIGroups) != 1 || len(r.Resources) == 0 || len(r.Verbs) == 0 {
					t.Errorf("%s %s has a rule that is not for one group: %+v", o.GetKind(), o.GetName(), r)
				}
			}
		}
	}
}

func TestAWorkerMayGetListAndPatchWhatIsIncludedAndNothingElse(t *testing.T) {
	plan := planOf(t, Options{Exclude: []string{"events"}}, widgets, schema.GroupResource{Resource: "secrets"},
		schema.GroupResource{Group: "demo.example.com", Resource: "gadgets"})
	got := rulesOf(t, plan, "", WorkerAccount)
	want := append([]rbacv1.PolicyRule{
		rule("", on("secrets"), "get", "list", "patch"),
		rule("demo.example.com", on("gadgets", "widgets"), "get", "list", "patch"),
	}, workerRules...)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	for _, r := range workerRules {
		if slices.ContainsFunc(r.Verbs, func(v string) bool { return v != "get" && v != "list" }) {
			t.Errorf("besides what is included a worker may do more than read: %+v", r)
		}
	}
	controller := slices.Concat(rulesOf(t, plan, "", ControllerAccount),
		rulesOf(t, plan, DefaultNamespace, ControllerAccount))
	for _, r := range controller {
		if (slices.Contains(r.Resources, "secrets") || slices.Contains(r.Resources, "widgets")) &&
			!(slices.Equal(r.Verbs, []string{"list"}) && slices.Equal(r.ResourceNames, []string{inventory.NoObject})) {
			t.Errorf("the controller may read what is migrated: %+v", r)
		}
	}
}

func TestWithTheGuardTheRolesNameEveryResourceAndNoneThatPoliciesDoNotGuard(t *testing.T) {
	policies := schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}
	webhooks := schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}
	for name, options := range map[string]Options{"everything": {Guard: true},
		"what is included": {Guard: true, Include: []string{"*"}}} {
		plan := planOf(t, options, widgets, policies, webhooks)
		want := append([]rbacv1.PolicyRule{
			rule("admissionregistration.k8s.io", on("mutatingwebhookconfigurations"), "get", "list", "patch"),
			rule("demo.example.com", on("widgets"), "get", "list", "patch"),
		}, workerRules...)
		if diff := cmp.Diff(want, rulesOf(t, plan, "", WorkerAccount)); diff != "" {
			t.Errorf("%s: rules of the worker (-want +got):\n%s", name, diff)
		}
		extends := slices.ContainsFunc(rulesOf(t, plan, "", ControllerAccount), func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.Verbs, "escalate") && slices.Equal(r.Resources, on("clusterroles")) &&
				slices.Contains(r.ResourceNames, laterRole)
		})
		if want := name == "everything"; extends != want {
			t.Errorf("%s: the controller may extend the role of the worker: %t, want %t", name, extends, want)
		}
		for _, o := range plan {
			if o.GetKind() != "ClusterRole" || o.GetName() != laterRole {
				continue
			}
			if _, applied := o.Object["rules"]; applied == extends {
				t.Errorf("%s: install applies the rules that the controller writes: %t", name, applied)
			}
		}
	}
}

func TestEachPolicyOfTheGuardIsBoundAndRefusesWhatItCannotDecide(t *testing.T) {
	bound, policies := map[string]bool{}, 0
	for _, o := range planOf(t, Options{Guard: true}, widgets) {
		switch o.GetKind() {
		case "ValidatingAdmissionPolicyBinding":
			name, _, _ := unstructured.NestedString(o.Object, "spec", "policyName")
			actions, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "validationActions")
			bound[name] = slices.Equal(actions, []string{"Deny"})
		case "ValidatingAdmissionPolicy":
			if fails, _, _ := unstructured.NestedString(o.Object, "spec", "failurePolicy"); fails != "Fail" {
				t.Errorf("%s has the failure policy %q", o.GetName(), fails)
			}
			policies++
		}
	}
	if policies != 5 || len(bound) != policies {
		t.Errorf("%d policies, %d bindings", policies, len(bound))
	}
	for name, denies := range bound {
		if !denies {
			t.Errorf("the binding of %s does not deny", name)
		}
	}
	for _, o := range planOf(t, Options{}, widgets) {
		if strings.HasPrefix(o.GetKind(), "ValidatingAdmission") {
			t.Errorf("without the guard there is %s %s", o.GetKind(), o.GetName())
		}
	}
}

// kube-migrator/internal/controller/migration and kube-migrator/internal/cli compare Jobs and the worker's command with the same list.
func TestTheGuardAdmitsTheFlagsOfAWorkerAndNoOthers(t *testing.T) {
	expression := Options{}.Complete().jobs().Spec.Validations[0].Expression
	var admitted []string
	for _, m := range regexp.MustCompile(`a\.startsWith\('--([a-z-]+)='\)`).FindAllStringSubmatch(expression, -1) {
		admitted = append(admitted, m[1])
	}
	if diff := cmp.Diff(worker.FlagNames(), admitted); diff != "" {
		t.Errorf("flags (-of a worker +admitted):\n%s", diff)
	}
}

func TestWithoutTheGuardAWorkerMayGetListAndPatchEverythingAndTheControllerReadsNothing(t *testing.T) {
	plan := planOf(t, Options{}, widgets)
	everything := []string{"*"}
	want := append([]rbacv1.PolicyRule{{APIGroups: everything, Resources: everything,
		Verbs: []string{"get", "list", "patch"}}}, workerRules...)
	if diff := cmp.Diff(want, rulesOf(t, plan, "", WorkerAccount)); diff != "" {
		t.Errorf("rules of the worker (-want +got):\n%s", diff)
	}
	for _, o := range plan {
		if !strings.HasSuffix(o.GetKind(), "Role") || o.GetName() == WorkerAccount && o.GetNamespace() == "" {
			continue
		}
		for _, r := range rulesOf(t, []*unstructured.Unstructured{o}, o.GetNamespace(), o.GetName()) {
			compares := slices.Equal(r.Verbs, []string{"list"}) &&
				slices.Equal(r.ResourceNames, []string{inventory.NoObject})
			if slices.Contains(slices.Concat(r.APIGroups, r.Resources, r.Verbs), "*") && !compares {
				t.Errorf("%s %s has a wildcard: %+v", o.GetKind(), o.GetName(), r)
			}
		}
	}
}

func TestTheWorkersAccountAloneIsBoundToTheRolesThatRewrite(t *testing.T) {
	bound := 0
	for _, o := range planOf(t, Options{Guard: true}, widgets) {
		role, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
		if o.GetKind() != "ClusterRoleBinding" || !slices.Contains([]string{WorkerAccount, laterRole, versionsRole}, role) {
			continue
		}
		bound++
		subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
		if len(subjects) != 1 || subjects[0].(map[string]any)["name"] != WorkerAccount {
			t.Errorf("the subjects of %s are %v, want %s alone", o.GetName(), subjects, WorkerAccount)
		}
	}
	if bound != 3 {
		t.Errorf("%d bindings, want 3", bound)
	}
}

// The controller gives workers their runs, and ends the runs whose workers no longer report.
func TestTheControllerUpdatesConfigMapsInItsNamespaceAlone(t *testing.T) {
	plan := planOf(t, Options{}, widgets)
	updates := func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Resources, "configmaps") &&
			(slices.Contains(r.Verbs, "update") || slices.Contains(r.Verbs, "patch"))
	}
	if !slices.ContainsFunc(rulesOf(t, plan, DefaultNamespace, ControllerAccount), updates) {
		t.Error("the controller may not update ConfigMaps in its namespace")
	}
	if slices.ContainsFunc(rulesOf(t, plan, "", ControllerAccount), updates) {
		t.Error("the controller may update ConfigMaps everywhere")
	}
}

func TestEveryObjectOfAPlanHasAPathAndOurLabels(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range planOf(t, Options{Namespace: "elsewhere", Guard: true}, widgets) {
		k, err := kindOf(o)
		if err != nil {
			t.Error(err)
			continue
		}
		if k.namespaced != (o.GetNamespace() != "") {
			t.Errorf("%s %s has the namespace %q", k.Kind, o.GetName(), o.GetNamespace())
		}
		l := o.GetLabels()
		if l[nameLabel] != Name || l[managedByLabel] != Name || l[componentLabel] == "" {
			t.Errorf("%s %s has the labels %v", k.Kind, o.GetName(), l)
		}
		seen[k.Kind] = true
		if _, ok := o.Object["status"]; ok {
			t.Errorf("%s %s is sent with a status", k.Kind, o.GetName())
		}
	}
	for _, k := range kinds {
		if !seen[k.Kind] {
			t.Errorf("the table of kinds has %s, which is not installed", k.Kind)
		}
	}
}

func TestIncludedIsTheSameBeforeAndAfterTheInstallation(t *testing.T) {
	resource := func(name string, problem *inventory.Problem) inventory.Resource {
		return inventory.Resource{GroupResource: schema.ParseGroupResource(name), Problem: problem}
	}
	cases := map[string]struct {
		include, exclude []string
		want             []string
	}{
		"everything that can be migrated": {want: []string{
			"secrets", "widgets.demo.example.com", "storagestates.migration.k8s.io",
			"storageversionmigrations.migration.k8s.io", "storageversions.migration.k8s.io",
		}},
		"an exclude pattern narrows": {exclude: []string{"*.migration.k8s.io", "secrets"},
			want: []string{"widgets.demo.example.com"}},
		"an include pattern narrows": {include: []string{"*.demo.example.com"},
			want: []string{"widgets.demo.example.com"}},
		"ours can be named before": {include: []string{"storagestates.*"},
			want: []string{"storagestates.migration.k8s.io"}},
		"an exclude pattern wins": {include: []string{"secrets", "widgets.*"}, exclude: []string{"secrets"},
			want: []string{"widgets.demo.example.com"}},
		"what cannot be migrated is not": {include: []string{"bindings", "secrets"}, want: []string{"secrets"}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			before := &inventory.Inventory{Resources: []inventory.Resource{
				resource("secrets", nil), resource("widgets.demo.example.com", nil),
				resource("bindings", &inventory.Problem{Reason: inventory.NotPersisted}),
			}}
			after := &inventory.Inventory{Resources: append(slices.Clone(before.Resources),
				resource("storagestates.migration.k8s.io", nil),
				resource("storageversionmigrations.migration.k8s.io", nil),
				resource("storageversions.migration.k8s.io", nil))}
			for when, all := range map[string]*inventory.Inventory{"before": before, "after": after} {
				included, err := Included(all, test.include, test.exclude)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, r := range included {
					got = append(got, r.String())
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", when, diff)
				}
			}
		})
	}
	if _, err := Included(&inventory.Inventory{}, []string{"wigdets"}, nil); err == nil {
		t.Error("a pattern that matches nothing is taken")
	}
}

func TestTheControllerIsToldTheBoundsOfTheLoad(t *testing.T) {
	arguments := func(o Options) string { return strings.Join(o.Complete().arguments(), " ") + " " }
	if got := arguments(Options{Pace: v1alpha1.Pace{MaxObjectsPerSecond: 50, MaxInFlight: 4,
		MaxBytesPerSecond: 500_000}}); !strings.Contains(got,
		" --max-rate=50 --max-in-flight=4 --max-bandwidth=500000 ") {
		t.Errorf("the arguments are %s", got)
	}
	if got := arguments(Options{}); strings.Contains(got, "--max-rate") || strings.Contains(got, "--max-in-flight") ||
		strings.Contains(got, "--max-bandwidth") {
		t.Errorf("without bounds the arguments are %s", got)
	}
}

func TestOptionsThatCannotBeMeantAreRefused(t *testing.T) {
	for problem, change := range map[string]func(*Options){
		"for --namespace: use a DNS label":                             func(o *Options) { o.Namespace = "Not_A_Name" },
		"holds the cluster's own":                                      func(o *Options) { o.Namespace = "kube-system" },
		"for --image: use":                                             func(o *Options) { o.Image = "not an image" },
		"value \"\" for --image: use":                                  func(o *Options) { o.Image = "" },
		"for --image-pull-policy: use":                                 func(o *Options) { o.ImagePullPolicy = "Sometimes" },
		"for --replicas: use":                                          func(o *Options) { o.Replicas = -1 },
		"for --discovery-period: use":                                  func(o *Options) { o.DiscoveryPeriod = 1 },
		"for --bootstrap: use":                                         func(o *Options) { o.Bootstrap = "some" },
		"for --settle-time: use":                                       func(o *Options) { o.SettleTime = -1 },
		"for --shutdown-delay: use":                                    func(o *Options) { o.ShutdownDelay = -1 },
		"for --max-rate: use":                                          func(o *Options) { o.Pace.MaxObjectsPerSecond = 100001 },
		"for --max-in-flight: use":                                     func(o *Options) { o.Pace.MaxInFlight = -1 },
		"for --max-bandwidth: use 0 to 1000000000000 bytes per second": func(o *Options) { o.Pace.MaxBytesPerSecond = -1 },
		"for --max-concurrent-migrations: use":                         func(o *Options) { o.MaxConcurrentMigrations = -1 },
		"\"Ops\" for --metrics-from-namespace: use names":              func(o *Options) { o.MetricsFromNamespaces = []string{"a", "Ops"} },
		"for --metrics-cert-secret: use the name of a Secret":          func(o *Options) { o.MetricsCertSecret = "a/b" },
		"\"10.0.0.1/8\" for --egress-to: use blocks":                   func(o *Options) { o.EgressTo = []string{"10.0.0.1/8"} },
		"\"10.0.0.1\" for --egress-to: use blocks": func(o *Options) {
			o.EgressTo = []string{"::/0",
				"10.0.0.1"}
		},
		"\"10.0.0.0/8:0\" for --egress-to: use blocks": func(o *Options) { o.EgressTo = []string{"10.0.0.0/8:0"} },
	} {
		o := Options{Image: "kube-migrator:v1"}
		o = o.Complete()
		change(&o)
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("the error is %v, want one with %q", err, problem)
		}
	}
	for _, image := range []string{
		"kube-migrator", "kube-migrator:v1.0.0", "localhost:5000/kube-migrator:v1",
		"ghcr.io/kube-migrator/kube-migrator:v1",
		"registry.example.com/a/b_c/d@sha256:" + strings.Repeat("0", 64),
	} {
		if err := (Options{Image: image}).Complete().Check(); err != nil {
			t.Errorf("%s: %v", image, err)
		}
	}
}
