// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestTheCommandToTryAsksWhatWasAsked(t *testing.T) {
	widgets := schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}
	for name, test := range map[string]struct {
		permission Permission
		want       string
	}{
		"in the cluster": {Permission{Verb: "list", Resource: widgets},
			"kubectl auth can-i list widgets.demo.example.com"},
		"in one namespace": {Permission{Verb: "list", Namespace: "a", Resource: widgets, Namespaced: true},
			"kubectl auth can-i list widgets.demo.example.com -n a"},
		"in all namespaces": {Permission{Verb: "list", Resource: widgets, Namespaced: true},
			"kubectl auth can-i list widgets.demo.example.com --all-namespaces"},
		"about the subresource": {Permission{Verb: "patch", Resource: widgets, Subresource: "status"},
			"kubectl auth can-i patch widgets.demo.example.com --subresource=status"},
	} {
		if got := (&ForbiddenError{test.permission}).Try(); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
