// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package chart

import (
	"strings"
	"testing"
)

func TestHelmFindsNoMistakeInTheChart(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--set", "image=" + image, "--namespace", "kube-migrator"}} {
		out, problems, err := helm(t, append([]string{"lint", "--strict", chart}, args...)...)
		if err != nil || !strings.Contains(out+problems, "1 chart(s) linted, 0 chart(s) failed") {
			t.Errorf("helm lint %q: %v\n%s%s", args, err, out, problems)
		}
	}
}

func TestWrongValuesAreRefusedWithTheirName(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"replica: 3":                                  "additional properties 'replica' not allowed",
		"metrics: {certificate: x}":                   "additional properties 'certificate' not allowed",
		"crds: {enable: false}":                       "additional properties 'enable' not allowed",
		"replicas: 0":                                 "at '/replicas': minimum: got 0, want 1",
		"replicas: many":                              "at '/replicas': got string, want integer",
		"workers: in-process":                         "additional properties 'workers' not allowed",
		"guard: \"yes\"":                              "at '/guard': got string, want boolean",
		"bootstrap: some":                             "at '/bootstrap': value must be one of 'all', 'none'",
		"imagePullPolicy: Sometimes":                  "at '/imagePullPolicy': value must be one of",
		"minEvidence: guessed":                        "at '/minEvidence': value must be one of",
		"image: 'a b'":                                "at '/image': 'a b' does not match pattern",
		"include: ['*.demo.example.com']":             "at '/include/0': '*.demo.example.com' does not match pattern",
		"discoveryPeriod: 10":                         "at '/discoveryPeriod': got number, want string",
		"settleTime: soon":                            "at '/settleTime': 'soon' does not match pattern",
		"shutdownDelay: -1s":                          "at '/shutdownDelay': '-1s' does not match pattern",
		"maxRate: 100001":                             "at '/maxRate': maximum: got 100,001, want 100,000",
		"maxInFlight: 1025":                           "at '/maxInFlight': maximum: got 1,025, want 1,024",
		"maxBandwidth: 10Mi":                          "at '/maxBandwidth': got string, want integer",
		"maxConcurrentMigrations: 0":                  "at '/maxConcurrentMigrations': minimum: got 0, want 1",
		"egressTo: [10.0.0.0]":                        "at '/egressTo/0': '10.0.0.0' does not match pattern",
		"metrics: {certSecret: A}":                    "at '/metrics/certSecret': 'A' does not match pattern",
		"metrics: {serviceMonitor: {interval: soon}}": "at '/metrics/serviceMonitor/interval': 'soon' does not match pattern",
		"metrics: {serviceMonitor: {enable: true}}":   "additional properties 'enable' not allowed",
		"metrics: {fromNamespaces: [A]}":              "at '/metrics/fromNamespaces/0': 'A' does not match pattern",
	} {
		out, problems, err := template(t, "kube-migrator", values, "--set-string", "global.x=y")
		if err == nil || !strings.Contains(problems, want) || out != "" {
			t.Errorf("%s: %v\n%s%s\nwant %s", values, err, out, problems, want)
		}
	}
}

func TestWhatASchemaCannotSayIsRefusedWithWhatToTry(t *testing.T) {
	t.Parallel()
	policies := "validatingadmissionpolicies.admissionregistration.k8s.io"
	for name, test := range map[string]struct{ namespace, values, want, try string }{
		"no image": {"kube-migrator", "{}", "no image is set", "Try: helm upgrade --install "},
		"a namespace of the cluster": {
			"kube-system", "image: " + image, "the namespace kube-system holds the cluster's own workloads",
			"Try: helm upgrade --install ",
		},
		"Helm's default namespace": {
			"default", "image: " + image, "the namespace default holds the cluster's own workloads",
			"Try: helm upgrade --install ",
		},
		"a resource that no policy can guard": {
			"kube-migrator", "image: " + image + "\ninclude: [" + policies + "]",
			"with the guard, workers cannot migrate " + policies, "Try: kube-migrator migrate " + policies,
		},
	} {
		out, problems, err := template(t, test.namespace, test.values)
		if err == nil || out != "" || !strings.Contains(problems, test.want) || !strings.Contains(problems, test.try) {
			t.Errorf("%s: %v\n%s%s\nwant %s and %s", name, err, out, problems, test.want, test.try)
		}
	}
	out, problems, err := template(t, "kube-migrator", "image: "+image+"\nguard: false\ninclude: ["+policies+"]")
	if err != nil || !strings.Contains(out, "- validatingadmissionpolicies\n") {
		t.Errorf("without the guard: %v\n%s", err, problems)
	}
}
