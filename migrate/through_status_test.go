// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// The API server refuses every patch of the object a; what the others do differs.
func TestThroughTheStatusOnlyWhatIsRefusedIsRewritten(t *testing.T) {
	const rejection = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","message":"no","code":422}`
	resources := func(names ...string) func(path string) (int, string) {
		return func(string) (int, string) {
			return http.StatusOK, `{"resources":[{"name":"` + strings.Join(names, `"},{"name":"`) + `"}]}`
		}
	}
	stored := func(string) (int, string) { return http.StatusOK, about("d", "a", "2000") }
	for name, tt := range map[string]struct {
		option   bool
		refusal  string // instead of rejection
		served   func(path string) (int, string)
		status   func(path string) (int, string)
		want     Counts
		requests int // for the status of a
		message  string
	}{
		"it is stored again": {option: true, served: resources("flunders", "flunders/status"), status: stored,
			want: Counts{Rewritten: 2, ThroughStatus: 1}, requests: 1},
		"without the option": {served: resources("flunders", "flunders/status"), status: stored,
			want: Counts{Rewritten: 1, Failed: 1}},
		"without a status": {option: true, served: resources("flunders", "others/status"), status: stored,
			want: Counts{Rewritten: 1, Failed: 1}},
		"its status is refused, too": {option: true, served: resources("flunders", "flunders/status"),
			status: func(string) (int, string) {
				return http.StatusUnprocessableEntity, strings.Replace(rejection, `"no"`, `"neither"`, 1)
			},
			want: Counts{Rewritten: 1, Failed: 1}, requests: 2, message: "no; an empty patch of its status: neither"},
		"the account may not patch it": {option: true, served: resources("flunders", "flunders/status"), status: stored,
			refusal: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,` +
				`"message":"flunders \"a\" is forbidden: User \"eve\" cannot patch resource \"flunders\""}`,
			want: Counts{Rewritten: 1, Failed: 1}},
		"it was current": {option: true, served: resources("flunders", "flunders/status"),
			status: func(string) (int, string) { return http.StatusOK, about("d", "a", "10") },
			want:   Counts{Rewritten: 1, Current: 1}, requests: 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := &liar{
				list: func(int, string) (int, string) {
					return http.StatusOK, listOf("", about("d", "a", "10"), about("d", "b", "11"))
				},
				patch: func(path string) (int, string) {
					switch {
					case strings.HasSuffix(path, "/flunders/a/status"):
						return tt.status(path)
					case strings.HasSuffix(path, "/flunders/a"):
						if tt.refusal != "" {
							return http.StatusForbidden, tt.refusal
						}
						return http.StatusUnprocessableEntity, rejection
					}
					return http.StatusOK, about("d", "b", "2001")
				},
				get: tt.served,
			}
			result, err := l.sweep(t, nil, Options{RetryThroughStatus: tt.option}).Run(t.Context())
			if result.Counts != tt.want || (err == nil) != (tt.want.Failed == 0) ||
				err != nil && !errors.Is(err, ErrObjectsFailed) {
				t.Errorf("error %v, counts %+v, want %+v", err, result.Counts, tt.want)
			}
			reason := Rejected
			if tt.refusal != "" {
				reason = Forbidden
			}
			if tt.want.Failed > 0 && (len(result.Failures) != 1 || result.Failures[0].Reason != reason ||
				!strings.HasSuffix(result.Failures[0].Message, tt.message)) {
				t.Errorf("failures %+v, want a, rejected, with the message %q", result.Failures, tt.message)
			}
			sent := slices.DeleteFunc(slices.Clone(l.sent), func(r string) bool {
				return !strings.HasSuffix(r, "/status")
			})
			if len(sent) != tt.requests {
				t.Errorf("requests %q, want %d for a status", sent, tt.requests)
			}
		})
	}
}

// A patch of the status takes another permission, and stores the same bytes: it helps only where validation or admission
// refuses an object.
func TestOnlyARefusalOfValidationOrAdmissionIsTriedThroughTheStatus(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"validation":            {status(http.StatusUnprocessableEntity, "Invalid", "no"), true},
		"an admission webhook":  {status(http.StatusForbidden, "Forbidden", `admission webhook "w" denied the request: no`), true},
		"a missing permission":  {status(http.StatusForbidden, "Forbidden", `x is forbidden: User "eve" cannot patch resource "x"`), false},
		"an object too large":   {status(http.StatusInternalServerError, "", "etcdserver: request is too large"), false},
		"an answer too large":   {ErrAnswerTooLarge, false},
		"an API server's error": {status(http.StatusInternalServerError, "", "no"), false},
	} {
		if got := isRefusal(tt.err); got != tt.want {
			t.Errorf("%s: a refusal %t, want %t", name, got, tt.want)
		}
	}
}
