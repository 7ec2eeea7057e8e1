// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

func TestARoleIsExtendedByWhatHasComeAndForgetsWhatIsGone(t *testing.T) {
	rule := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources,
			Verbs: []string{"get", "list", "patch"}}
	}
	named := func(name string) inventory.Resource {
		return inventory.Resource{GroupResource: schema.ParseGroupResource(name)}
	}
	before := []rbacv1.PolicyRule{rule("a.example.com", "gone", "things"), rule("z.example.com", "gone")}
	known := &inventory.Inventory{Resources: []inventory.Resource{named("things.a.example.com"),
		named("others.a.example.com"), named("new.b.example.com")}}
	more := []schema.GroupResource{schema.ParseGroupResource("new.b.example.com"),
		schema.ParseGroupResource("others.a.example.com")}
	if diff := cmp.Diff([]rbacv1.PolicyRule{rule("a.example.com", "others", "things"), rule("b.example.com", "new")},
		extended(before, more, known)); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	known.Failures = []inventory.Failure{{Group: "z.example.com"}}
	want := []rbacv1.PolicyRule{rule("a.example.com", "gone", "others", "things"), rule("b.example.com", "new"),
		rule("z.example.com", "gone")}
	if diff := cmp.Diff(want, extended(before, more, known)); diff != "" {
		t.Errorf("where discovery is incomplete, rules (-want +got):\n%s", diff)
	}
}

func TestNothingIsGrantedWithoutARoleNorOfTheGroupOfAdmission(t *testing.T) {
	policies := schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}
	widgets := schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}
	for name, test := range map[string]struct {
		role    string
		lacking schema.GroupResource
	}{
		"no role":            {"", widgets},
		"admission policies": {"worker-later", policies},
		"the rest of the group": {"worker-later",
			schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "others"}},
	} {
		g := grants{role: test.role} // it has no client: a request would panic
		granted, err := g.extend(t.Context(), map[schema.GroupResource]*access.ForbiddenError{test.lacking: {}},
			&inventory.Inventory{})
		if err != nil || len(granted) > 0 {
			t.Errorf("%s: granted %v, %v", name, granted, err)
		}
	}
}

// answers is an API server with prepared answers, which notes what it is asked.
type answers struct {
	answer func(*http.Request) (code int, body string)
	asked  []string
}

// RoundTrip implements http.RoundTripper.
func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked = append(a.asked, strings.TrimSuffix(r.Method+" "+r.URL.Path+" "+r.URL.Query().Get("dryRun"), " "))
	code, body := a.answer(r)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func (a *answers) client(t *testing.T) rest.Interface {
	t.Helper()
	client, err := apiserver.NewClient(&rest.Config{Host: "http://192.0.2.1", Transport: a})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Without the guard, a worker could change the objects that it may patch.
func TestNothingIsGrantedUnlessTheGuardRefusesTheDryRun(t *testing.T) {
	const (
		path    = "/apis/rbac.authorization.k8s.io/v1/clusterroles/worker-later"
		role    = `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "worker-later"}}`
		refusal = `{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "MESSAGE"}`
	)
	look := []string{"GET " + path, "PUT " + path + " All"}
	widgets := schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}
	for name, test := range map[string]struct {
		code      int
		body      string
		unguarded bool
		asked     []string
	}{
		"the guard refuses": {http.StatusForbidden, strings.Replace(refusal, "MESSAGE",
			"ValidatingAdmissionPolicy 'kube-migrator-worker-grant' with binding 'kube-migrator-worker-grant' denied request", 1),
			false, append(look[:2:2], "PUT "+path)},
		"the dry run is allowed": {http.StatusOK, role, true, look},
		"another policy refuses": {http.StatusForbidden, strings.Replace(refusal, "MESSAGE",
			"ValidatingAdmissionPolicy 'of-others' with binding 'of-others' denied request", 1), false, look},
		"the role may not be written": {http.StatusForbidden, strings.Replace(refusal, "MESSAGE", "no permission", 1),
			false, look},
	} {
		a := &answers{answer: func(r *http.Request) (int, string) {
			if r.URL.Query().Get("dryRun") != "" {
				return test.code, test.body
			}
			return http.StatusOK, role
		}}
		g := grants{rest: a.client(t), role: "worker-later"}
		granted, err := g.extend(t.Context(), map[schema.GroupResource]*access.ForbiddenError{widgets: {}},
			&inventory.Inventory{})
		isGranted := len(test.asked) == 3
		if diff := cmp.Diff(test.asked, a.asked); diff != "" || (len(granted) == 1) != isGranted ||
			(err == nil) != isGranted || errors.Is(err, errUnguarded) != test.unguarded {
			t.Errorf("%s: granted %v, %v, requests (-want +got):\n%s", name, granted, err, diff)
		}
		if g.isGuarded(t.Context()) != isGranted {
			t.Errorf("%s: the guard is in force: %t", name, !isGranted)
		}
	}
}
