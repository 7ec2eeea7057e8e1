// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
)

// The content types of the forms, and what an API server answers to an apply that it cannot do.
const (
	asApply     = "application/apply-patch+yaml"
	asMerge     = "application/merge-patch+json"
	asStrategic = "application/strategic-merge-patch+json"

	noApplyHere = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","message":"%s","code":500}`
)

// wireTo returns a wire to a server that records the content types of the patches. answer may refuse one of them.
func wireTo(t *testing.T, origin Origin, sent *[]string, answer func(form string) (code int, body string)) *wire {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		form := r.Header.Get("Content-Type")
		body, _ := io.ReadAll(r.Body)
		if form == asApply != strings.Contains(string(body), `"uid":"u-a"`) {
			t.Errorf("the body of a %s is %s", form, body)
		}
		*sent = append(*sent, form)
		w.Header().Set("Content-Type", "application/json")
		if code, body := answer(form); code != http.StatusOK {
			w.WriteHeader(code)
			fmt.Fprint(w, body)
			return
		}
		fmt.Fprint(w, about("d", "a", "2000"))
	}))
	t.Cleanup(server.Close)
	client, err := apiserver.NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return newWire(client, Target{Kind: "Flunder", Namespaced: true, Origin: origin,
		Resource: schema.GroupVersionResource{Group: "wardle.example.com", Version: "v1", Resource: "flunders"}}, false)
}

func TestTheFormOfARewrite(t *testing.T) {
	fine := func(string) (int, string) { return http.StatusOK, "" }
	failing := func(message string) func(string) (int, string) {
		return func(form string) (int, string) {
			if form == asApply {
				return http.StatusInternalServerError, fmt.Sprintf(noApplyHere, message)
			}
			return http.StatusOK, ""
		}
	}
	for name, tt := range map[string]struct {
		origin  Origin
		ownedIn ownedIn
		noUID   bool
		webhook bool
		last    bool
		answer  func(form string) (int, string)
		want    []string
		fails   bool
	}{
		"a custom resource":                       {origin: Custom, ownedIn: oneVersion, want: []string{asApply}},
		"a custom resource owned in an older one": {origin: Custom, ownedIn: otherVersions, want: []string{asApply}},
		"without managedFields":                   {origin: Custom, ownedIn: noVersion, want: []string{asMerge}},
		"whose metadata is unknown":               {origin: Custom, ownedIn: unknownVersions, want: []string{asMerge}},
		"without a UID":                           {origin: Custom, ownedIn: oneVersion, noUID: true, want: []string{asMerge}},
		"a built-in resource":                     {origin: BuiltIn, ownedIn: oneVersion, want: []string{asStrategic}},
		"an aggregated resource":                  {origin: Aggregated, ownedIn: oneVersion, want: []string{asMerge}},
		"a resource of unknown origin":            {ownedIn: oneVersion, want: []string{asMerge}},
		"an apply that cannot be done": {origin: Custom, ownedIn: oneVersion,
			answer: failing("duplicate entries for key"), want: []string{asApply, asMerge}},
		"an apply that fails for a moment, where a patch could lose managedFields": {origin: Custom,
			ownedIn: otherVersions, webhook: true, answer: failing("etcdserver: leader changed"),
			want: []string{asApply}, fails: true},
		"an apply that fails at the last attempt": {origin: Custom, ownedIn: otherVersions, webhook: true, last: true,
			answer: failing("failed to prune fields"), want: []string{asApply, asMerge}},
		"an apply whose conversion fails at the last attempt": {origin: Custom, ownedIn: otherVersions, webhook: true,
			last: true, answer: failing("conversion webhook for v1 failed"), want: []string{asApply}, fails: true},
		"an apply that cannot be done, where a patch could lose managedFields": {origin: Custom,
			ownedIn: otherVersions, webhook: true,
			answer: failing("request to convert CR to an invalid group/version: wardle.example.com/v0"),
			want:   []string{asApply, asMerge}},
		"an apply whose conversion fails": {origin: Custom, ownedIn: otherVersions, webhook: true,
			answer: failing("conversion webhook for v1 failed"), want: []string{asApply}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			answer, sent := fine, []string{}
			if tt.answer != nil {
				answer = tt.answer
			}
			w := wireTo(t, tt.origin, &sent, answer)
			w.conversionWebhook = tt.webhook
			o := object{namespace: "d", name: "a", uid: "u-a", resourceVersion: "10", ownedIn: tt.ownedIn}
			if tt.noUID {
				o.uid = ""
			}
			if _, err := w.rewrite(t.Context(), o, tt.last); (err != nil) != tt.fails {
				t.Errorf("error %v", err)
			}
			if !slices.Equal(sent, tt.want) {
				t.Errorf("sent %q, want %q", sent, tt.want)
			}
		})
	}
}

// An apply that fails costs a request and an error in the API server's metrics.
func TestAppliesThatKeepFailingAreNotSentAnyMore(t *testing.T) {
	var sent []string
	w := wireTo(t, Custom, &sent, func(form string) (int, string) {
		if form == asApply {
			return http.StatusInternalServerError, fmt.Sprintf(noApplyHere, "duplicate entries for key")
		}
		return http.StatusOK, ""
	})
	o := object{namespace: "d", name: "a", uid: "u-a", resourceVersion: "10", ownedIn: oneVersion}
	const objects = maxFailedApplies + 5
	for range objects {
		if _, err := w.rewrite(t.Context(), o, false); err != nil {
			t.Fatal(err)
		}
	}
	applies := 0
	for _, form := range sent {
		if form == asApply {
			applies++
		}
	}
	if applies != maxFailedApplies || len(sent) != objects+maxFailedApplies {
		t.Errorf("%d applies in %d requests, want %d in %d", applies, len(sent), maxFailedApplies,
			objects+maxFailedApplies)
	}
}

// Without the UID, or with another one, an object could be created, or another one be taken for it.
func TestAnApplyOfAnObjectThatIsGoneIsAnsweredByReading(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		code, reason := http.StatusConflict, "Conflict"
		if r.Method == http.MethodGet {
			code, reason = http.StatusNotFound, "NotFound"
		}
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"uid mismatch","code":%d,"details":{"name":"a"}}`,
			reason, code)
	}))
	t.Cleanup(server.Close)
	client, err := apiserver.NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(client, Target{Kind: "Flunder", Namespaced: true, Origin: Custom,
		Resource: schema.GroupVersionResource{Group: "wardle.example.com", Version: "v1", Resource: "flunders"}}, false)
	o := object{namespace: "d", name: "a", uid: "u-a", resourceVersion: "10", ownedIn: oneVersion}
	_, refusal := w.rewrite(t.Context(), o, false)
	if _, err := w.replaced(t.Context(), o, refusal); classify(err) != missing {
		t.Errorf("error %v, want the 404 of an object that is gone", err)
	}
}

// How often an object is tried is documented at maxAttempts.
func TestAnObjectThatKeepsFailingIsTriedTwelveTimes(t *testing.T) {
	t.Parallel()
	f := &scripted{n: 2, resourceVersion: "1000", patch: func(name string, w http.ResponseWriter) bool {
		return name == "o0" && refuse(w, http.StatusInternalServerError, "etcdserver: no leader")
	}}
	result, err := sweepOf(t, f, nil, Options{}).Run(t.Context())
	if !errors.Is(err, ErrObjectsFailed) || len(result.Failures) != 1 || result.Failures[0].Reason != ServerError {
		t.Errorf("error %v, failures %+v, want the one object", err, result.Failures)
	}
	if patches := f.patches.Load(); patches != 1+2*maxAttempts || maxAttempts != 6 {
		t.Errorf("%d patches, want 1 for the other object and twice 6", patches)
	}
}

func TestAnApplyThatKeepsFailingIsReplacedAtTheLastAttempt(t *testing.T) {
	t.Parallel()
	f := &scripted{n: 1, resourceVersion: "1000"}
	f.list = func(w http.ResponseWriter) bool {
		fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1000"},"items":[%s]}`,
			strings.Replace(object1("o0", f.version("o0")), `"uid"`, `"managedFields":[{"apiVersion":"v0"}],"uid"`, 1))
		return true
	}
	f.patch = func(_ string, w http.ResponseWriter) bool {
		return f.patches.Load() <= maxAttempts && refuse(w, http.StatusInternalServerError, "failed to prune fields")
	}
	var later atomic.Bool // it was reported as failed, and tried once more at the end of the pass
	f.get = func(string, http.ResponseWriter) bool {
		later.Store(later.Load() || f.patches.Load() == maxAttempts)
		return false
	}
	epoch := lasting
	epoch.ConversionWebhook = true
	result, err := sweepOf(t, f, func() (Epoch, error) { return epoch, nil }, Options{}).Run(t.Context())
	if err != nil || result.Counts.Rewritten != 1 || f.patches.Load() != maxAttempts+1 || later.Load() {
		t.Errorf("%+v, %v after %d patches, want it rewritten by patch %d, before the end of the pass", result.Counts,
			err, f.patches.Load(), maxAttempts+1)
	}
}
