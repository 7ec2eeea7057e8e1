// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package retire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/refusal"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
)

// answers are those of an API server that never gets tired of giving them: what real ones do for a moment, or
// indefinitely.
type answers func(r *http.Request, body string) (code int, answer any)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	code, answer := f(r, string(body))
	raw, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(bytes.NewReader(raw)), Request: r}, nil
}

func (f answers) client(t *testing.T) rest.Interface {
	t.Helper()
	client, err := apiserver.NewClient(&rest.Config{Host: "https://api.example.com", Transport: f})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func failure(code int, reason string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code,
		"reason": reason, "message": reason}
}

// one is a list of one object, in whose managedFields v1 is named.
func one() map[string]any {
	return map[string]any{"metadata": map[string]any{}, "items": []any{object()}}
}

func object() map[string]any {
	return map[string]any{"metadata": map[string]any{
		"name": "w", "namespace": "default", "uid": "u", "resourceVersion": "7", "managedFields": []any{
			map[string]any{"manager": "alice", "operation": "Update", "apiVersion": oldVersion,
				"fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{}}},
		},
	}}
}

func TestOnlyWhatIsStoredMakesObjectsUnreadable(t *testing.T) {
	for name, test := range map[string]struct {
		code int
		want bool
	}{
		"an object that cannot be decoded":  {http.StatusInternalServerError, true},
		"an API server that is not ready":   {http.StatusServiceUnavailable, false},
		"an API server that takes too long": {http.StatusGatewayTimeout, false},
		"an API server that is not there":   {http.StatusBadGateway, false},
		"a user who may not list":           {http.StatusForbidden, false},
		"an API server under load":          {http.StatusTooManyRequests, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := answers(func(*http.Request, string) (int, any) {
					return test.code,
						failure(test.code, "Any")
				}).client(t)
				objects := retire.Objects{Client: client,
					CRD: facts("v1 v2", "v1", "v2/served/storage").CRD, Endpoint: "v2"}
				_, err := objects.Look(t.Context(), "v1")
				if got := errors.Is(err, retire.ErrUnreadable); err == nil || got != test.want {
					t.Errorf("%v: unreadable is %v, want %v", err, got, test.want)
				}
			})
		})
	}
}

// alone carries out one step of retiring v1 and nothing else.
func alone(t *testing.T, client rest.Interface, schema map[string]any, step retire.StepName) (string, error) {
	t.Helper()
	run := &retire.Run{
		Client: client, Intent: retire.Intent{Version: "v1", Rescue: true},
		CRD: facts("v1 v2", "v1", "v2/served/storage").CRD, Schema: schema,
		Stopped: func() error { return nil }, Report: func(retire.Step) {},
		Settle: func(context.Context, int64) error { return nil },
	}
	steps, err := run.Do(t.Context(), retire.Plan{Steps: []retire.Step{{Name: step, State: retire.Todo}}})
	return steps[0].What, err
}

func TestAnObjectThatIsDeletedBetweenReadAndWriteIsNoFailure(t *testing.T) {
	for name, test := range map[string]struct {
		deletedAfter int // writes
		want         string
	}{
		"before the first write":     {1, ""},
		"before the second":          {2, ""},
		"never, and is not writable": {1000, "cannot be written; its namespace may be gone"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				writes := 0
				client := answers(func(r *http.Request, _ string) (int, any) {
					switch {
					case r.Method == http.MethodPatch:
						writes++
						return http.StatusNotFound, failure(http.StatusNotFound, "NotFound")
					case strings.HasSuffix(r.URL.Path, "/widgets") && writes < test.deletedAfter:
						return http.StatusOK, one()
					case strings.HasSuffix(r.URL.Path, "/widgets"):
						return http.StatusOK, map[string]any{"items": []any{}}
					case writes < test.deletedAfter:
						return http.StatusOK, object()
					}
					return http.StatusNotFound, failure(http.StatusNotFound, "NotFound")
				}).client(t)
				_, err := alone(t, client, nil, retire.Owned)
				if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("after %d writes: %v, want %q", writes, err, test.want)
				}
			})
		})
	}
}

func TestAWriteThatTheAPIServerDoesNotKeepIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writes := 0
		client := answers(func(r *http.Request, _ string) (int, any) {
			if strings.HasSuffix(r.URL.Path, "/widgets") {
				return http.StatusOK, one()
			}
			if r.Method == http.MethodPatch {
				writes++
			}
			return http.StatusOK, object() // a webhook has set what was there before
		}).client(t)
		_, err := alone(t, client, nil, retire.Owned)
		if !errors.Is(err, retire.ErrNotMoved) || !strings.Contains(err.Error(), "webhook") || writes > 3 {
			t.Errorf("after %d writes: %v, want a failure after at most 3", writes, err)
		}
	})
}

func TestTheSchemaOfARescueThatWasBegunIsTheOneThatIsGiven(t *testing.T) {
	schema := map[string]any{"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
		"subresources": map[string]any{"status": map[string]any{}}}
	for name, test := range map[string]struct {
		schema map[string]any
		served bool
		want   []string // operations behind the preconditions
		err    string
	}{
		"no schema is given": {nil, false, nil, ""},
		"one is given": {schema, false, []string{
			`{"op":"test","path":"/spec/versions/0/name","value":"v1"}`,
			`{"op":"add","path":"/spec/versions/0/schema","value":{"openAPIV3Schema":{"type":"object"}}}`,
			`{"op":"add","path":"/spec/versions/0/subresources","value":{"status":{}}}`,
		}, ""},
		"the version is served meanwhile": {schema, true, nil, "it serves v1 again"},
	} {
		t.Run(name, func(t *testing.T) {
			live := facts("v1 v2", "v1", "v2/served/storage").CRD
			live.Metadata.ResourceVersion, live.Spec.Versions[0].Served = "5", test.served
			var sent []string
			client := answers(func(r *http.Request, body string) (int, any) {
				switch {
				case r.Method == http.MethodPatch:
					var operations []json.RawMessage
					if err := json.Unmarshal([]byte(body), &operations); err != nil {
						t.Error(err)
					}
					for _, o := range operations[2:] {
						sent = append(sent, string(o))
					}
					return http.StatusOK, live
				case strings.HasSuffix(r.URL.Path, "/widgets"):
					return http.StatusOK, one()
				}
				return http.StatusOK, live
			}).client(t)
			_, err := alone(t, client, test.schema, retire.Restore)
			if diff := cmp.Diff(test.want, sent); diff != "" {
				t.Errorf("operations (-want +got):\n%s", diff)
			}
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			if refused := (*refusal.Error)(nil); errors.As(err, &refused) &&
				refused.Try != "kubectl get customresourcedefinition widgets.demo.example.com -o yaml" {
				t.Errorf("Try: %s; want what shows the whole CRD", refused.Try)
			}
		})
	}
}

func TestAnObjectThatCannotBeReadIsNamedAfterTheCause(t *testing.T) {
	for message, want := range map[string]string{
		`failed to read one or more widgets.demo.example.com from the storage: StorageError: corrupt object, Code: 7, Key: /registry/w/a, ResourceVersion: 0, AdditionalErrorMsg: object not decodable revision=219: request to convert CR from an invalid group/version: demo.example.com/v1 (and 2 more)`: "request to convert CR from an invalid group/version: demo.example.com/v1 (and 2 more), at /registry/w/a",
		"conversion webhook failed": "conversion webhook failed",
	} {
		synctest.Test(t, func(t *testing.T) {
			client := answers(func(*http.Request, string) (int, any) {
				status := failure(http.StatusInternalServerError, "Any")
				status["message"] = message
				return http.StatusInternalServerError, status
			}).client(t)
			objects := retire.Objects{Client: client, CRD: facts("v1 v2", "v1", "v2/served/storage").CRD, Endpoint: "v2"}
			if _, err := objects.Look(t.Context(), "v1"); err == nil || err.Error() != "the objects cannot be listed: "+want {
				t.Errorf("it says %q, want %q", err, want)
			}
		})
	}
}
