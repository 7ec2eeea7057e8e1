// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package contestant

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/kube-migrator/kube-migrator/test/bench/lab"
)

// Form is a request that may make an API server store an object again without a change.
type Form struct {
	// Name is what tables and flags call it.
	Name        string
	method      string
	subresource string
	contentType string
	// body is the same for every object; empty for those that read or apply.
	body string
	// reads: the whole object is read before anything is written, and sent back.
	reads bool
	// applies: the body names the object.
	applies bool
}

const (
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
)

// Forms of a request. None of them changes anything on its own account.
var (
	merge = Form{Name: "merge patch {}", method: http.MethodPatch, contentType: mergePatch, body: "{}"}
	apply = Form{Name: "apply of no field", method: http.MethodPatch, contentType: "application/apply-patch+yaml",
		applies: true}
	forms = []Form{
		merge,
		{Name: "strategic merge patch {}", method: http.MethodPatch, contentType: strategicPatch, body: "{}"},
		{Name: "JSON patch []", method: http.MethodPatch, contentType: "application/json-patch+json", body: "[]"},
		apply,
		{Name: "PUT of what was read", method: http.MethodPut, contentType: "application/json", reads: true},
		{Name: "/status merge patch {}", method: http.MethodPatch, subresource: "/status", contentType: mergePatch,
			body: "{}"},
		{Name: "/scale merge patch {}", method: http.MethodPatch, subresource: "/scale", contentType: mergePatch,
			body: "{}"},
	}
)

// FormsOf returns the forms that a kind has.
func FormsOf(k lab.Kind) []Form {
	return slices.DeleteFunc(slices.Clone(forms), func(f Form) bool {
		return f.contentType == strategicPatch && k.CRD != "" || f.subresource == "/status" && !k.Status ||
			f.subresource == "/scale" && !k.Scale
	})
}

// Best is the form that kube-migrator sends: a strategic merge patch for built-in types, and an apply for custom
// resources.
func Best(k lab.Kind) Form {
	if k.CRD == "" {
		return forms[1]
	}
	return apply
}

// formNamed finds a form.
func formNamed(name string) (Form, error) {
	for _, f := range forms {
		if f.Name == name {
			return f, nil
		}
	}
	return Form{}, fmt.Errorf("there is no form %q", name)
}
