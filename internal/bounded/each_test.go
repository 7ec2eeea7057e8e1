// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package bounded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// listOf serves a list whose objects have the given sizes in bytes, with limit and continue as Kubernetes has them.
func listOf(t *testing.T, sizes []int) (read func(ctx context.Context, limit int64, token string) (Page, error), largest func() int) {
	t.Helper()
	most := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		to, next := min(len(sizes), from+limit), ""
		if to < len(sizes) {
			next = strconv.Itoa(to)
		}
		fmt.Fprintf(w, `{"metadata":{"continue":%q},"items":[`, next)
		for i := from; i < to; i++ {
			fmt.Fprintf(w, `{"name":"%d","x":"%s"}%s`, i, strings.Repeat("x", sizes[i]),
				map[bool]string{true: ","}[i < to-1])
		}
		fmt.Fprint(w, `]}`)
	}))
	t.Cleanup(server.Close)
	client := &http.Client{Transport: Transport(http.DefaultTransport)}
	return func(ctx context.Context, limit int64, token string) (Page, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet,
			fmt.Sprintf("%s/apis/demo.example.com/v1/widgets?limit=%d&continue=%s", server.URL, limit, token), nil)
		if err != nil {
			return Page{}, err
		}
		response, err := client.Do(request)
		if err != nil {
			return Page{}, err
		}
		defer response.Body.Close()
		var list struct {
			Metadata struct{ Continue string }
			Items    []struct{ Name, X string }
		}
		if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
			return Page{}, err
		}
		page, bytes := Page{Continue: list.Metadata.Continue}, 0
		for _, item := range list.Items {
			page.Identities = append(page.Identities, item.Name)
			bytes += len(item.X)
		}
		most = max(most, bytes)
		return page, nil
	}, func() int { return most }
}

func TestPagesAreAsLargeAsTheirBytesAllow(t *testing.T) {
	var small, mixed []int
	for range 3000 {
		small = append(small, 100)
	}
	mixed = append(mixed, small[:800]...) // so that many are asked for at one time before the large ones come
	for range 40 {
		mixed = append(mixed, 1<<20)
	}
	for name, sizes := range map[string][]int{"small objects": small,
		"large ones after small ones": mixed, "none": nil} {
		read, largest := listOf(t, sizes)
		seen, requests := 0, 0
		err := EachPage(t.Context(), func(ctx context.Context, limit int64, token string) (Page, error) {
			requests++
			page, err := read(ctx, limit, token)
			if err == nil {
				seen += len(page.Identities)
			}
			return page, err
		})
		if err != nil || seen != len(sizes) || largest() > pageBytes {
			t.Errorf("%s: %d of %d objects, a page of %d bytes (%v)", name, seen, len(sizes), largest(), err)
		}
		if requests > 40 {
			t.Errorf("%s: %d requests", name, requests)
		}
	}
}

func TestAnObjectThatIsTooLargeForAPageIsAnError(t *testing.T) {
	read, _ := listOf(t, []int{1, pageBytes, 1})
	if err := EachPage(t.Context(), read); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error = %v, want ErrTooLarge", err)
	}
}

func TestPagesThatRepeatEnd(t *testing.T) {
	err := EachPage(t.Context(), func(context.Context, int64, string) (Page, error) {
		return Page{Continue: "again", Identities: []string{"a"}}, nil
	})
	if !errors.Is(err, ErrEndless) {
		t.Errorf("error = %v, want ErrEndless", err)
	}
}
