// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package chart

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// prometheusOperator is the module whose CRDs a ServiceMonitor and a PrometheusRule have to comply with.
const prometheusOperator = "github.com/prometheus-operator/prometheus-operator@v0.85.0"

const monitored = "image: " + image + `
metrics:
  serviceMonitor:
    enabled: true
    interval: 30s
    labels: {release: prometheus}
  prometheusRule: {enabled: true}
`

// monitors returns the objects that the ServiceMonitor of values adds to the chart.
func monitors(t *testing.T, values string) map[string]*unstructured.Unstructured {
	t.Helper()
	objects := byName(t, rendered(t, values))
	for name, o := range byName(t, rendered(t, values, "--set", "metrics.serviceMonitor.enabled=false")) {
		if diff := cmp.Diff(o, objects[name]); diff != "" {
			t.Errorf("%s changes (-without +with a ServiceMonitor):\n%s", name, diff)
		}
		delete(objects, name)
	}
	return objects
}

func rendered(t *testing.T, values string, args ...string) string {
	t.Helper()
	out, problems, err := template(t, namespace, values, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, problems)
	}
	return out
}

func TestAServiceMonitorIsAnAdditionThatVerifiesTheCertificateIfThereIsOne(t *testing.T) {
	t.Parallel()
	const name = "ServiceMonitor kube-migrator/kube-migrator"
	for values, want := range map[string]map[string]any{
		monitored: {"insecureSkipVerify": true},
		monitored + "  certSecret: metrics-tls\n": {
			"ca":         map[string]any{"secret": map[string]any{"key": "ca.crt", "name": "metrics-tls"}},
			"serverName": "kube-migrator-metrics.kube-migrator.svc",
		},
	} {
		objects := monitors(t, values)
		if len(objects) != 2 || objects[name] == nil || objects["Service kube-migrator/kube-migrator-metrics"] == nil {
			t.Fatalf("added are %v, want a Service and a ServiceMonitor", objects)
		}
		endpoints, _, _ := unstructured.NestedSlice(objects[name].Object, "spec", "endpoints")
		if diff := cmp.Diff(want, endpoints[0].(map[string]any)["tlsConfig"]); diff != "" {
			t.Errorf("the certificate (-want +got):\n%s", diff)
		}
	}
}

// checkMonitored expects that Prometheus Operator's CRDs accept the ServiceMonitor and the PrometheusRule, that the
// ServiceMonitor selects the Service, and that the Service selects the pods of the controller and a port of theirs.
func (r *release) checkMonitored() {
	r.t.Helper()
	out, err := exec.CommandContext(r.t.Context(), "go", "mod", "download", "-json", prometheusOperator).Output()
	var module struct{ Dir string }
	if jsonErr := json.Unmarshal(out, &module); err != nil || jsonErr != nil {
		r.t.Fatalf("download %s: %v, %v", prometheusOperator, err, jsonErr)
	}
	for _, resource := range []string{"servicemonitors", "prometheusrules"} {
		r.apply(read(r.t, filepath.Join(module.Dir, "example", "prometheus-operator-crd",
			"monitoring.coreos.com_"+resource+".yaml")))
		if _, problems, err := r.kubectl("wait", "--for=condition=Established", "--timeout=30s",
			"crd/"+resource+".monitoring.coreos.com"); err != nil {
			r.t.Fatalf("%v\n%s", err, problems)
		}
	}
	const values = "metrics.serviceMonitor."
	r.helm("upgrade", "kube-migrator", chart, "--reuse-values", "--set", values+"enabled=true", "--set", values+"interval=30s",
		"--set", values+"labels.release=prometheus", "--set", "metrics.prometheusRule.enabled=true")
	added := monitors(r.t, monitored)
	const rule = "PrometheusRule kube-migrator/kube-migrator"
	added[rule] = byName(r.t, rendered(r.t, monitored))[rule]
	r.expect(added) // the API server drops fields that the CRD does not have
	monitor, service := added["ServiceMonitor kube-migrator/kube-migrator"], added["Service kube-migrator/kube-migrator-metrics"]
	deployment := r.get("deployment", namespace, "kube-migrator-controller")
	at := func(o *unstructured.Unstructured, path ...string) map[string]string {
		labels, _, _ := unstructured.NestedStringMap(o.Object, path...)
		return labels
	}
	selects(r.t, at(monitor, "spec", "selector", "matchLabels"), service.GetLabels())
	selects(r.t, at(service, "spec", "selector"), at(deployment, "spec", "template", "metadata", "labels"))
	ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	offered := map[any]bool{}
	for _, port := range containers[0].(map[string]any)["ports"].([]any) {
		offered[port.(map[string]any)["name"]] = true
	}
	if target := ports[0].(map[string]any)["targetPort"]; !offered[target] {
		r.t.Errorf("the Service leads to the port %v, and the controller has %v", target, offered)
	}
}

// selects fails the test unless a selector is not empty and selects what has the labels.
func selects(t *testing.T, selector, labels map[string]string) {
	t.Helper()
	if len(selector) == 0 {
		t.Error("a selector is empty")
	}
	for name, value := range selector {
		if labels[name] != value {
			t.Errorf("the selector %v does not select %v", selector, labels)
		}
	}
}
