// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import "k8s.io/apimachinery/pkg/runtime/schema"

// admissionGroup is the API group of admission policies and webhooks.
const admissionGroup = "admissionregistration.k8s.io"

// exemptFromPolicies are the resources that API servers exempt from admission policies, so that no policy can lock out
// administrators (admissionResources in k8s.io/apiserver/pkg/admission/plugin/policy/generic/plugin.go, the same from
// 1.30 to 1.37). Webhook configurations are not among them.
var exemptFromPolicies = map[schema.GroupResource]bool{
	{Group: admissionGroup, Resource: "validatingadmissionpolicies"}:       true,
	{Group: admissionGroup, Resource: "validatingadmissionpolicybindings"}: true,
	{Group: admissionGroup, Resource: "mutatingadmissionpolicies"}:         true,
	{Group: admissionGroup, Resource: "mutatingadmissionpolicybindings"}:   true,
}

// ExemptFromPolicies reports whether API servers exempt writes of a resource from admission policies, so that no policy
// can restrict them.
func ExemptFromPolicies(r schema.GroupResource) bool { return exemptFromPolicies[r] }
