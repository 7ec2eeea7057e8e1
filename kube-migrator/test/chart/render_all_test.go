// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package chart

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/controller/trigger"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// defaults returns the options that install has without flags, with the guard.
func defaults() install.Options {
	return install.Options{
		Image:           image,
		Guard:           true,
		DiscoveryPeriod: trigger.DefaultPeriod,
		Pace:            v1alpha1.Pace{MaxObjectsPerSecond: arg.DefaultRate, MaxInFlight: arg.DefaultInFlight},
	}
}

// planned returns the objects that install would apply, by kind, namespace and name, as Helm renders them.
func planned(t *testing.T, o install.Options, resources ...schema.GroupResource) map[string]*unstructured.Unstructured {
	t.Helper()
	o = o.Complete()
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	if o.All() {
		resources = install.Portable(o)
	}
	plan, err := install.Plan(o, resources, nil)
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := install.YAML(plan)
	if err != nil {
		t.Fatal(err)
	}
	return byName(t, string(manifests))
}

// asHelm returns the objects of a plan as the chart has them. What differs is written down here, and nowhere else: Helm
// manages the objects, the namespace is the user's, and a role that grants nothing is deleted rather than emptied.
func asHelm(t *testing.T, plan map[string]*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	t.Helper()
	for _, role := range []string{"kube-migrator-worker-later", "kube-migrator-worker-versions"} {
		if rules, found, _ := unstructured.NestedSlice(plan["ClusterRole "+role].Object, "rules"); found && len(rules) == 0 {
			delete(plan, "ClusterRole "+role)
			delete(plan, "ClusterRoleBinding "+role)
		}
	}
	for name, o := range plan {
		if o.GetKind() == "Namespace" {
			delete(plan, name)
			continue
		}
		managed(o.Object)
		if o.GetKind() == "CustomResourceDefinition" {
			annotations := o.GetAnnotations()
			annotations["helm.sh/resource-policy"] = "keep"
			o.SetAnnotations(annotations)
		}
	}
	return plan
}

// managed labels an object, and the pods that it creates, as managed by Helm.
func managed(value any) {
	switch v := value.(type) {
	case map[string]any:
		if _, isLabeled := v["app.kubernetes.io/managed-by"].(string); isLabeled {
			v["app.kubernetes.io/managed-by"] = "Helm"
		}
		for _, field := range v {
			managed(field)
		}
	case []any:
		for _, element := range v {
			managed(element)
		}
	}
}

// compare fails the test unless both have the same objects.
func compare(t *testing.T, want, got map[string]*unstructured.Unstructured) {
	t.Helper()
	names := slices.Sorted(maps.Keys(want))
	if diff := cmp.Diff(names, slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("objects (-install +rendered):\n%s", diff)
	}
	for _, name := range names {
		if got[name] == nil {
			continue
		}
		if diff := cmp.Diff(fieldsOf(t, want[name]), fieldsOf(t, got[name])); diff != "" {
			t.Errorf("%s (-install +rendered):\n%s", name, diff)
		}
	}
}

// fieldsOf returns the fields of an object, with numbers of one type.
func fieldsOf(t *testing.T, o *unstructured.Unstructured) map[string]any {
	t.Helper()
	raw, err := json.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

var (
	secrets     = schema.GroupResource{Resource: "secrets"}
	widgets     = schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}
	gadgets     = schema.GroupResource{Group: "demo.example.com", Resource: "gadgets"}
	deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}
	webhooks    = schema.GroupResource{
		Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations",
	}
)

const included = "\ninclude: [widgets.demo.example.com, secrets, deployments.apps, gadgets.demo.example.com, " +
	"validatingwebhookconfigurations.admissionregistration.k8s.io]"

func TestTheChartRendersWhatInstallApplies(t *testing.T) {
	t.Parallel()
	include := []string{widgets.String(), secrets.String(), deployments.String(), gadgets.String(), webhooks.String()}
	for name, test := range map[string]struct {
		values string
		change func(*install.Options)
	}{
		"by default": {"", func(*install.Options) {}},
		"with every value": {
			`
imagePullPolicy: Always
replicas: 3
autoTrigger: false
bootstrap: none
discoveryPeriod: 5m0s
minEvidence: sampled
settleTime: 1m30s
shutdownDelay: 10s
maxRate: 100000
maxInFlight: 1024
maxBandwidth: 1000000000000
maxConcurrentMigrations: 4
metrics:
  fromNamespaces: [monitoring, "123", monitoring, alerts]
  certSecret: metrics-tls
egressTo: ["10.0.0.0/8", "192.0.2.0/28:6443", "2001:db8::/64", "2001:db8:1::/64:443"]
`,
			func(o *install.Options) {
				o.ImagePullPolicy, o.Replicas, o.RecordOnly, o.Bootstrap = "Always", 3, true, install.BootstrapNone
				o.DiscoveryPeriod, o.MinEvidence = 5*time.Minute, migrate.Sampled
				o.SettleTime, o.ShutdownDelay = 90*time.Second, 10*time.Second
				o.Pace = v1alpha1.Pace{
					MaxObjectsPerSecond: 100000,
					MaxInFlight:         1024,
					MaxBytesPerSecond:   1000000000000,
				}
				o.MaxConcurrentMigrations = 4
				o.MetricsFromNamespaces = []string{"monitoring", "123", "monitoring", "alerts"}
				o.MetricsCertSecret = "metrics-tls"
				o.EgressTo = []string{"10.0.0.0/8", "192.0.2.0/28:6443", "2001:db8::/64", "2001:db8:1::/64:443"}
			},
		},
		"with no bounds": {
			"maxRate: 0\nmaxInFlight: 0",
			func(o *install.Options) { o.Pace = v1alpha1.Pace{} },
		},
		"with the resources of a list": {included, func(o *install.Options) { o.Include = include }},
		"without the guard":            {"guard: false", func(o *install.Options) { o.Guard = false }},
		"without the guard and with the resources of a list": {
			"guard: false" + included,
			func(o *install.Options) { o.Guard, o.Include = false, include },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A namespace that YAML would take for a number.
			for _, namespace := range []string{"kube-migrator", "2026"} {
				got, problems, err := template(t, namespace, "image: "+image+"\n"+test.values)
				if err != nil {
					t.Fatalf("%v\n%s", err, problems)
				}
				o := defaults()
				o.Namespace = namespace
				test.change(&o)
				compare(t, asHelm(t, planned(t, o, widgets, secrets, deployments, gadgets, webhooks)), byName(t, got))
			}
		})
	}
}

func TestTheCRDsCanBeLeftOutAndCanBeRemovedWithTheRelease(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"crds: {enabled: false}": "",
		"crds: {keep: false}":    "3 CRDs without the annotation",
		"{}":                     "3 CRDs with the annotation",
	} {
		got, problems, err := template(t, "kube-migrator", values, "--set", "image="+image)
		if err != nil {
			t.Fatalf("%v\n%s", err, problems)
		}
		is := ""
		if n := strings.Count(got, "\nkind: CustomResourceDefinition\n"); n == 3 {
			is = "3 CRDs without the annotation"
			if strings.Count(got, "helm.sh/resource-policy: keep") == n {
				is = "3 CRDs with the annotation"
			}
		}
		if is != want {
			t.Errorf("%s: %q, want %q", values, is, want)
		}
	}
}

// valueOf says which value of the chart sets an option of install, or why none does.
var valueOf = map[string]string{
	"Namespace":               "--namespace",
	"Image":                   "image",
	"ImagePullPolicy":         "imagePullPolicy",
	"Replicas":                "replicas",
	"RecordOnly":              "autoTrigger",
	"DiscoveryPeriod":         "discoveryPeriod",
	"Bootstrap":               "bootstrap",
	"Include":                 "include",
	"Exclude":                 "none: a chart cannot ask which resources it leaves",
	"Flags":                   "none: the release holds the values",
	"Guard":                   "guard",
	"MinEvidence":             "minEvidence",
	"SettleTime":              "settleTime",
	"ShutdownDelay":           "shutdownDelay",
	"Pace":                    "maxRate, maxInFlight, maxBandwidth",
	"MaxConcurrentMigrations": "maxConcurrentMigrations",
	"MetricsFromNamespaces":   "metrics",
	"MetricsCertSecret":       "metrics",
	"EgressTo":                "egressTo",
}

func TestEveryOptionOfInstallIsAValueOfTheChart(t *testing.T) {
	t.Parallel()
	values := valuesOf(t)
	known := map[string]bool{"crds": true}
	for field := range reflect.TypeFor[install.Options]().Fields() {
		value, thoughtOf := valueOf[field.Name]
		if !thoughtOf {
			t.Errorf("install has the option %s, and the chart has no value for it", field.Name)
		}
		if strings.HasPrefix(value, "--") || strings.HasPrefix(value, "none: ") {
			continue
		}
		for name := range strings.SplitSeq(value, ", ") {
			known[name] = true
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(known)), slices.Sorted(maps.Keys(values))); diff != "" {
		t.Errorf("values of values.yaml (-options of install +values):\n%s", diff)
	}
}

// valuesOf returns the default values of the chart.
func valuesOf(t *testing.T) map[string]any {
	t.Helper()
	text, problems, err := helm(t, "show", "values", chart)
	if err != nil {
		t.Fatalf("%v\n%s", err, problems)
	}
	var values map[string]any
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}
