// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
)

// listing is a client of a server that answers every list with answer.
func listing(t *testing.T, answer func(query map[string]string) (code int, body string)) *Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := map[string]string{}
		for name := range r.URL.Query() {
			query[name] = r.URL.Query().Get(name)
		}
		code, body := answer(query)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	client, err := apiserver.NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return &Client{REST: client, Host: server.URL, Program: "kube-migrator"}
}

// page is a list of migrations with the numbers from first on.
func page(first, n int, next string) string {
	items := make([]any, n)
	for i := range items {
		items[i] = map[string]any{"metadata": map[string]any{"name": strconv.Itoa(first + i)}}
	}
	text, _ := json.Marshal(map[string]any{"metadata": map[string]any{"continue": next}, "items": items})
	return string(text)
}

const expired = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old"}`

func TestMigrationsAreListedPageByPage(t *testing.T) {
	expiries := 0
	q := listing(t, func(query map[string]string) (int, string) {
		switch {
		case query["limit"] != "500":
			return http.StatusBadRequest, `{}`
		case query["continue"] == "":
			return http.StatusOK, page(0, 500, "two")
		case expiries == 0: // the list starts over
			expiries++
			return http.StatusGone, expired
		}
		return http.StatusOK, page(500, 3, "")
	})
	all, err := q.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 503 || all[0].Name != "0" || all[502].Name != "502" || expiries != 1 {
		t.Errorf("%d migrations after %d expired tokens, want 503 after 1", len(all), expiries)
	}
}

func TestAListWithoutEndIsAnError(t *testing.T) {
	pages := 0
	for name, test := range map[string]struct {
		answer func(map[string]string) (int, string)
		want   string
	}{
		"more objects than any cluster has": {func(map[string]string) (int, string) {
			pages++
			return http.StatusOK, page(0, 500, strconv.Itoa(pages))
		}, "the list has more than 50000 objects"},
		"the same page again": {func(map[string]string) (int, string) {
			return http.StatusOK, page(0, 1, "same")
		}, "its continue token does not change"},
		"tokens that always expire": {func(query map[string]string) (int, string) {
			if query["continue"] != "" {
				return http.StatusGone, expired
			}
			return http.StatusOK, page(0, 1, "next")
		}, "too old"},
	} {
		t.Run(name, func(t *testing.T) {
			if all, err := listing(t, test.answer).List(t.Context()); err == nil ||
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("%d migrations and %v, want an error with %q", len(all), err, test.want)
			}
		})
	}
}
