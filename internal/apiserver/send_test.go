// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
)

func TestSendReturnsTheAnswerOrTheServersOwnError(t *testing.T) {
	var logged bytes.Buffer
	state := klog.CaptureState()
	t.Cleanup(state.Restore)
	klog.LogToStderr(false)
	klog.SetOutput(&logged)
	const forbidden = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden",
		"message": "widgets is forbidden"}`
	is := func(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }
	for name, c := range map[string]struct {
		status int
		body   string
		is     func(error) bool
		begins string
	}{
		"an answer is decoded":           {status: 200, body: `{"name": "x"}`},
		"a failure has the server's own": {403, forbidden, apierrors.IsForbidden, "widgets is forbidden"},
		"a failure may be no Status":     {404, "nothing here", apierrors.IsNotFound, "the server could not find"},
		"an answer may be no JSON":       {200, "<html>", is(apiserver.ErrMalformed), "malformed answer: invalid"},
		"an answer may be too large": {200, strings.Repeat(" ", 2000), is(bounded.ErrTooLarge),
			"answer too large: "},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if accept := r.Header.Get("Accept"); accept != "application/json" {
					t.Errorf("Accept is %q", accept)
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			}))
			defer server.Close()
			client, err := apiserver.NewClient(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			var into struct{ Name string }
			err = apiserver.Send(bounded.WithLimit(t.Context(), 1000), client.Get().AbsPath("/apis/x"), &into)
			switch {
			case c.is == nil && (err != nil || into.Name != "x"):
				t.Errorf("%+v, %v", into, err)
			case c.is != nil && (!c.is(err) || !strings.HasPrefix(err.Error(), c.begins)):
				t.Errorf("%v, want %q", err, c.begins)
			}
		})
	}
	if logged.Len() > 0 {
		t.Errorf("client-go logged what it returned: %s", &logged)
	}
}
