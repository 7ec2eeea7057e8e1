// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
)

// answers is an API server with prepared answers.
type answers func(*http.Request) (code int, body string)

// RoundTrip implements http.RoundTripper.
func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	code, body := a(r)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func (a answers) client(t *testing.T) rest.Interface {
	t.Helper()
	client, err := apiserver.NewClient(&rest.Config{Host: "http://192.0.2.1", Transport: a})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestTheGuardNeedsPoliciesAndBindingsOfTheFirstVersion(t *testing.T) {
	for name, test := range map[string]struct {
		code int
		body string
		want bool
	}{
		"both are served": {http.StatusOK, `{"resources":[{"name":"validatingadmissionpolicies"},{"name":"validatingadmissionpolicybindings"}]}`, true},
		"before 1.30":     {http.StatusOK, `{"resources":[{"name":"validatingwebhookconfigurations"}]}`, false},
		"no such version": {http.StatusNotFound,
			`{"kind":"Status","status":"Failure","reason":"NotFound","code":404}`, false},
	} {
		client := answers(func(*http.Request) (int, string) { return test.code, test.body }).client(t)
		if got, err := Guardable(t.Context(), client); got != test.want || err != nil {
			t.Errorf("%s: %t, %v, want %t", name, got, err, test.want)
		}
	}
	client := answers(func(*http.Request) (int, string) {
		return http.StatusForbidden, `{"kind":"Status","status":"Failure","reason":"Forbidden","code":403}`
	}).client(t)
	if _, err := Guardable(t.Context(), client); err == nil {
		t.Error("whether policies are served is not known, and taken for an answer")
	}
}

func TestInstallWaitsUntilTheGuardIsInForce(t *testing.T) {
	const (
		refused  = `{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"serviceaccounts is forbidden: ValidatingAdmissionPolicy 'kube-migrator-worker' with binding 'kube-migrator-worker' denied request: no"}`
		another  = `{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"forbidden: ValidatingAdmissionPolicy 'theirs' with binding 'theirs' denied request: no"}`
		noRole   = `{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"serviceaccounts is forbidden: User \"w\" cannot create resource"}`
		allowed  = `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","status":{"token":"t"}}`
		answered = http.StatusCreated
	)
	for name, test := range map[string]struct {
		probes  []string // the answers, the last one again and again
		seconds int      // until it is in force
	}{
		"at once":                            {[]string{refused}, 0},
		"once the role and the policy count": {[]string{noRole, allowed, allowed, refused}, 3},
		"never":                              {[]string{allowed}, -1},
		"another policy is not the guard":    {[]string{another}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				i := &Installation{Timeout: 10 * time.Second, Progress: func(string) {},
					Warn: func(text string) { t.Error(text) }}
				i.Client = answers(func(r *http.Request) (int, string) {
					if strings.Contains(r.URL.Path, "accessreviews") {
						return answered, `{"status":{"allowed":true}}`
					}
					if r.URL.Path != "/api/v1/namespaces/ns/serviceaccounts/kube-migrator-discovery/token" ||
						r.URL.Query().Get("dryRun") != "All" ||
						r.Header.Get("Impersonate-User") != "system:serviceaccount:ns:kube-migrator-worker" {
						t.Errorf("sent %s as %q", r.URL, r.Header.Get("Impersonate-User"))
					}
					body := test.probes[min(sent, len(test.probes)-1)]
					sent++
					if body == allowed {
						return answered, body
					}
					return http.StatusForbidden, body
				}).client(t)
				begin := time.Now()
				err := i.verifyGuard(t.Context(), "ns")
				late := (*TimeoutError)(nil)
				switch took := time.Since(begin); {
				case test.seconds < 0 && !errors.As(err, &late):
					t.Errorf("after %v: %v, want a TimeoutError", took, err)
				case test.seconds >= 0 && (err != nil || took != time.Duration(test.seconds)*time.Second):
					t.Errorf("after %v: %v, want none after %d s", took, err, test.seconds)
				}
			})
		})
	}
}
