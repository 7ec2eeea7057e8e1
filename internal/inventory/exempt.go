// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import "k8s.io/apimachinery/pkg/runtime/schema"

// admissionGroup is the API group of admission policies and webhooks.
const admissionGroup = "admissionregistration.k8s.io"

// exemptFromPolicies are the resources that API servers exempt from admission policies, so that no policy can lock
// administrators out (admissionResources in k8s.io/apiserver/pkg/admission/plugin/policy/generic/plugin.go, the same
// from 1.30 to 1.37). Webhook configurations are not among them.
var exemptFromPolicies = map[schema.GroupResource]bool{
	{Group: admissionGroup, Resource: "validatingadmissionpolicies"}:       true,
	{Group: admissionGroup, Resource: "validatingadmissionpolicybindings"}: true,
	{Group: admissionGroup, Resource: "mutatingadmissionpolicies"}:         true,
	{Group: admissionGroup, Resource: "mutatingadmissionpolicybindings"}:   true,
}

// ExemptFromPolicies reports whether API servers do not ask admission policies about writes of a resource: no policy
// can restrict who changes it.
func ExemptFromPolicies(r schema.GroupResource) bool { return exemptFromPolicies[r] }
