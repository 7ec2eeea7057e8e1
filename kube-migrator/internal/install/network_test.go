// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// planned decodes the objects of a kind.
func planned[T any](t *testing.T, plan []*unstructured.Unstructured, kindName string) (all []T) {
	t.Helper()
	for _, o := range plan {
		if o.GetKind() != kindName {
			continue
		}
		var typed T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &typed); err != nil {
			t.Fatal(err)
		}
		all = append(all, typed)
	}
	if len(all) == 0 {
		t.Fatalf("the plan has no %s", kindName)
	}
	return all
}

func TestMetricsMayBeReachedFromTheNamespacesThatAreNamedAndProbesFromAnywhere(t *testing.T) {
	for _, test := range []struct{ from, want []string }{
		{nil, nil},
		{[]string{"monitoring"}, []string{"monitoring"}},
		{[]string{"ops", "monitoring", "ops"}, []string{"monitoring", "ops"}},
	} {
		policy := planned[networkingv1.NetworkPolicy](t, planOf(t, Options{MetricsFromNamespaces: test.from}),
			"NetworkPolicy")[0]
		for _, rule := range policy.Spec.Ingress {
			var got []string
			for _, peer := range rule.From {
				for _, e := range peer.NamespaceSelector.MatchExpressions {
					if e.Key != "kubernetes.io/metadata.name" || e.Operator != "In" || peer.PodSelector != nil {
						t.Errorf("from %v: %+v", test.from, peer)
					}
					got = append(got, e.Values...)
				}
			}
			want := test.want
			if rule.Ports[0].Port.IntValue() == healthPort {
				want = nil
			}
			if diff := cmp.Diff(want, got); diff != "" || len(rule.Ports) != 1 {
				t.Errorf("from %v, port %v (-want +got):\n%s", test.from, rule.Ports, diff)
			}
		}
		if len(policy.Spec.Ingress) != 2 {
			t.Errorf("from %v: %+v, want a rule for metrics and one for probes", test.from, policy.Spec.Ingress)
		}
	}
}

func TestConnectionsGoToTheAddressesThatAreNamedAndNamesAreResolvedAnywhere(t *testing.T) {
	for _, test := range []struct{ to, want []string }{
		{nil, []string{"anywhere TCP 0"}},
		{[]string{"10.0.0.0/8", "192.0.2.10/32:6443", "2001:db8::1/128", "2001:db8::/64:443"}, []string{
			"10.0.0.0/8 TCP 0", "192.0.2.10/32 TCP 6443", "2001:db8::1/128 TCP 0", "2001:db8::/64 TCP 443",
		}},
	} {
		to := test.to
		policy := planned[networkingv1.NetworkPolicy](t, planOf(t, Options{EgressTo: to}), "NetworkPolicy")[0]
		last := len(policy.Spec.Egress) - 1
		var got []string
		for _, rule := range policy.Spec.Egress[:last] {
			destination, number := "anywhere", 0
			for _, peer := range rule.To {
				destination = peer.IPBlock.CIDR
			}
			if p := rule.Ports[0].Port; p != nil {
				number = p.IntValue()
			}
			got = append(got, fmt.Sprintf("%s %s %d", destination, *rule.Ports[0].Protocol, number))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("to %v (-want +got):\n%s", to, diff)
		}
		names := policy.Spec.Egress[last]
		other := func(p networkingv1.NetworkPolicyPort) bool { return p.Port.IntValue() != 53 }
		if len(names.To) > 0 || slices.ContainsFunc(names.Ports, other) {
			t.Errorf("to %v: names are resolved by %+v", to, names)
		}
	}
}

func TestNoAccountGivesATokenAndThePodsThatNeedOneAskForIt(t *testing.T) {
	plan := planOf(t, Options{})
	for _, account := range planned[corev1.ServiceAccount](t, plan, "ServiceAccount") {
		if account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken {
			t.Errorf("every pod with the ServiceAccount %s gets its token", account.Name)
		}
	}
	pod := planned[appsv1.Deployment](t, plan, "Deployment")[0].Spec.Template.Spec
	if pod.AutomountServiceAccountToken == nil || !*pod.AutomountServiceAccountToken {
		t.Error("the controller has no token")
	}
	if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks {
		t.Error("Services of the namespace become variables of the controller")
	}
}

func TestTheNamespaceEnforcesTheRestrictedLevelOfOneVersion(t *testing.T) {
	got := planned[corev1.Namespace](t, planOf(t, Options{}), "Namespace")[0].Labels
	for _, mode := range []string{"enforce", "audit", "warn"} {
		level, version := got["pod-security.kubernetes.io/"+mode], got["pod-security.kubernetes.io/"+mode+"-version"]
		if level != "restricted" || version != "v1.37" {
			t.Errorf("%s: %q of %q, want the restricted level of v1.37", mode, level, version)
		}
	}
}

func TestTheCertificateForMetricsIsMountedWhereTheControllerReadsIt(t *testing.T) {
	deployment := func(o Options) corev1.PodSpec {
		return planned[appsv1.Deployment](t, planOf(t, o), "Deployment")[0].Spec.Template.Spec
	}
	pod := deployment(Options{MetricsCertSecret: "metrics-tls"})
	mounts, volumes := pod.Containers[0].VolumeMounts, pod.Volumes
	if len(volumes) != 1 || volumes[0].Secret == nil || volumes[0].Secret.SecretName != "metrics-tls" {
		t.Fatalf("volumes %+v", volumes)
	}
	if len(mounts) != 1 || mounts[0].Name != volumes[0].Name || !mounts[0].ReadOnly ||
		!slices.Contains(pod.Containers[0].Args, "--metrics-cert-dir="+mounts[0].MountPath) {
		t.Errorf("mounts %+v, arguments %q", mounts, pod.Containers[0].Args)
	}
	pod = deployment(Options{})
	arguments := strings.Join(pod.Containers[0].Args, " ")
	if len(pod.Volumes)+len(pod.Containers[0].VolumeMounts) > 0 || strings.Contains(arguments, "--metrics-cert-dir") {
		t.Errorf("without a Secret: %+v", pod)
	}
}
