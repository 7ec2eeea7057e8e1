// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// networkPolicy admits only scrapes of metrics and probes, and lets out only TCP and name resolution.
func (o Options) networkPolicy() *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: meta(componentInstall, o.Namespace, Name),
		Spec: networkingv1.NetworkPolicySpec{
			// Controllers and workers. Other pods in the namespace are not ours to restrict.
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{nameLabel: Name}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{
				{Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolTCP, metricsPort)}, From: o.scrapers()},
				// From anywhere: probes come from the node, whose address no policy can name.
				{Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolTCP, healthPort)}},
			},
			Egress: o.egress(),
		},
	}
}

// port returns a port of a rule. Number 0 means every port.
func port(protocol corev1.Protocol, number int32) networkingv1.NetworkPolicyPort {
	p := networkingv1.NetworkPolicyPort{Protocol: &protocol}
	if number != 0 {
		p.Port = new(intstr.FromInt32(number))
	}
	return p
}

// scrapers returns the pods that may connect to the port of the metrics; nil means everyone.
func (o Options) scrapers() []networkingv1.NetworkPolicyPeer {
	if len(o.MetricsFromNamespaces) == 0 {
		return nil
	}
	names := slices.Clone(o.MetricsFromNamespaces)
	slices.Sort(names)
	return []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: slices.Compact(names)},
	}}}}
}

// egress returns where controllers and workers may connect to. Without EgressTo that is any address: no policy can name
// the API servers by their Service, and their addresses and ports are in no manifest and change. Agreement asks each
// API server at its own address, including those of aggregated API servers, and network plugins differ in whether a
// block of addresses matches nodes and pods.
func (o Options) egress() []networkingv1.NetworkPolicyEgressRule {
	rule := func(ports ...networkingv1.NetworkPolicyPort) networkingv1.NetworkPolicyEgressRule {
		return networkingv1.NetworkPolicyEgressRule{Ports: ports}
	}
	names := rule(port(corev1.ProtocolUDP, 53), port(corev1.ProtocolTCP, 53))
	if len(o.EgressTo) == 0 {
		return []networkingv1.NetworkPolicyEgressRule{rule(port(corev1.ProtocolTCP, 0)), names}
	}
	var rules []networkingv1.NetworkPolicyEgressRule
	for _, destination := range o.EgressTo {
		block, number, _ := parseDestination(destination) // Check has made sure that it can be parsed
		r := rule(port(corev1.ProtocolTCP, number))
		r.To = []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: block}}}
		rules = append(rules, r)
	}
	return append(rules, names)
}

// parseDestination splits an element of Options.EgressTo into a block of addresses and a port. Port 0 means every port.
func parseDestination(destination string) (block string, number int32, ok bool) {
	address, length, _ := strings.Cut(destination, "/")
	length, text, hasPort := strings.Cut(length, ":")
	block = address + "/" + length
	// The API server accepts only the canonical form.
	prefix, err := netip.ParsePrefix(block)
	if err != nil || prefix.Masked().String() != block {
		return "", 0, false
	}
	if !hasPort {
		return block, 0, true
	}
	parsed, err := strconv.ParseUint(text, 10, 16)
	return block, int32(parsed), err == nil && parsed > 0
}

// checkNetwork returns an error if the options of the NetworkPolicy are invalid.
func (o Options) checkNetwork() error {
	for _, name := range o.MetricsFromNamespaces {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return invalid("metrics-from-namespace", name, "names of namespaces")
		}
	}
	for _, destination := range o.EgressTo {
		if _, _, ok := parseDestination(destination); !ok {
			return invalid("egress-to", destination, "blocks of addresses such as 10.0.0.0/8 or 192.0.2.10/32:6443")
		}
	}
	return nil
}
