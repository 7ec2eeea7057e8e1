// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package bounded

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

func TestEveryKindOfAnswerHasItsLimit(t *testing.T) {
	const metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	for name, tt := range map[string]struct {
		path, accept string
		status       int
		limit        int64
	}{
		"the groups":                    {path: "/apis", limit: Discovery},
		"the core group":                {path: "/api", limit: Discovery},
		"a group":                       {path: "/apis/apps", limit: Discovery},
		"a group-version":               {path: "/apis/apps/v1", limit: Discovery},
		"a core version":                {path: "/api/v1", limit: Discovery},
		"behind a proxy":                {path: "/k8s/clusters/c-1/apis/apps/v1", limit: Discovery},
		"a list":                        {path: "/apis/apps/v1/deployments", limit: Document},
		"a core list":                   {path: "/api/v1/pods", limit: Document},
		"an object that is called apis": {path: "/api/v1/namespaces/apis", limit: Document},
		"the metadata of an object":     {path: "/api/v1/namespaces/a", accept: metadata, limit: ObjectMetadata},
		"the metadata of a list": {path: "/api/v1/namespaces",
			accept: strings.Replace(metadata, "Metadata;", "MetadataList;", 1), limit: Document},
		"a failure":                         {path: "/apis/apps/v1/deployments", status: 403, limit: Failure},
		"a failure instead of a watch":      {path: "/api/v1/pods?watch=true", status: 500, limit: Failure},
		"a watch":                           {path: "/api/v1/pods?watch=true"},
		"a watch, as others write it":       {path: "/api/v1/pods?watch=1"},
		"a selector that speaks of a watch": {path: "/api/v1/pods?labelSelector=watch%3Dtrue", limit: Document},
	} {
		t.Run(name, func(t *testing.T) {
			request := httptest.NewRequest(http.MethodGet, tt.path, nil)
			request.Header.Set("Accept", tt.accept)
			limit, limited := limitOf(request, &http.Response{StatusCode: max(tt.status, 200)})
			if limit != tt.limit || limited != (tt.limit > 0) {
				t.Errorf("limit = %d, limited %t, want %d", limit, limited, tt.limit)
			}
		})
	}
}

func TestAnAnswerThatFitsIsReadWholeAndOneByteMoreIsAnError(t *testing.T) {
	for _, n := range []int{0, 1, 99, 100, 101, 100_000} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Write(bytes.Repeat([]byte("x"), n)) //nolint:errcheck // the reader may have gone
		}))
		request, err := http.NewRequestWithContext(WithLimit(t.Context(), 100), http.MethodGet, server.URL+
			"/apis/demo.example.com/v1", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := (&http.Client{Transport: Transport(Transport(http.DefaultTransport))}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(response.Body)
		response.Body.Close()
		server.Close()
		var tooLarge *TooLargeError
		if len(raw) != min(n, 100) || errors.Is(err, ErrTooLarge) != (n > 100) ||
			errors.As(err, &tooLarge) != (n > 100) {
			t.Errorf("%d bytes: %d read (%v)", n, len(raw), err)
		}
		if tooLarge != nil && (tooLarge.Path != "/apis/demo.example.com/v1" || "http://"+tooLarge.Host != server.URL) {
			t.Errorf("the error is about %s at %s", tooLarge.Path, tooLarge.Host)
		}
	}
}

func TestASmallCompressedAnswerIsCountedAsItIsDecompressed(t *testing.T) {
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	if _, err := io.CopyN(w, zeros{}, 64<<20); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(bomb.Bytes()) //nolint:errcheck // the reader may have gone
	}))
	defer server.Close()
	response, err := (&http.Client{Transport: Transport(http.DefaultTransport)}).Get(server.URL + "/apis")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	n, err := io.Copy(io.Discard, response.Body)
	if n != Discovery || !errors.Is(err, ErrTooLarge) {
		t.Errorf("%d compressed bytes gave %d (%v), want %d and ErrTooLarge", bomb.Len(), n, err, Discovery)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestAListWithTooManyElementsIsNotDecoded(t *testing.T) {
	for n, want := range map[int]error{0: nil, 3: nil, maxElements: nil, maxElements + 1: ErrTooLarge} {
		var l struct{ Items List[struct{ Name string }] }
		err := json.Unmarshal([]byte(`{"items":[`+strings.TrimSuffix(strings.Repeat("{},", n), ",")+`]}`), &l)
		if !errors.Is(err, want) || want == nil && len(l.Items) != n {
			t.Errorf("%d elements: %d decoded (%v), want %v", n, len(l.Items), err, want)
		}
	}
	var l struct{ Items List[int] }
	if err := json.Unmarshal([]byte(`{"items":null}`), &l); err != nil || l.Items != nil {
		t.Errorf("null: %v (%v)", l.Items, err)
	}
	for _, text := range []string{`{"items":{}}`, `{"items":1}`, `{"items":["a"]}`} {
		if err := json.Unmarshal([]byte(text), &l); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}

func TestAFailureThatIsTooLargeKeepsItsStatus(t *testing.T) {
	for name, text := range map[string]string{"fits": strings.Repeat("x", Failure),
		"is too large": strings.Repeat("x", Failure+1)} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			io.WriteString(w, text) //nolint:errcheck // the reader may have gone
		}))
		response, err := (&http.Client{Transport: Transport(http.DefaultTransport)}).Get(server.URL + "/api/v1/pods")
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(response.Body)
		server.Close()
		fits := len(text) <= Failure
		if err != nil || response.StatusCode != http.StatusUnprocessableEntity || (string(raw) == text) != fits {
			t.Errorf("%s: status %d, %d bytes (%v)", name, response.StatusCode, len(raw), err)
		}
		if !fits && (!strings.Contains(string(raw), `"code":422`) ||
			!strings.Contains(string(raw), "512 KiB for GET /api/v1/pods")) {
			t.Errorf("%s: %s", name, raw)
		}
	}
}

// What decompresses may be outside of this transport: it must not take our words for compressed ones.
func TestAFailureThatIsReplacedIsNotCalledCompressed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusUnprocessableEntity)
		io.WriteString(w, strings.Repeat("x", Failure+1)) //nolint:errcheck // the reader may have gone
	}))
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/v1/pods", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept-Encoding", "gzip")
	response, err := (&http.Client{Transport: Transport(http.DefaultTransport)}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(response.Body)
	if err != nil || response.Header.Get("Content-Encoding") != "" || !strings.Contains(string(raw), `"code":422`) {
		t.Errorf("Content-Encoding %q, %v: %s", response.Header.Get("Content-Encoding"), err, raw)
	}
}

// pagesOf gives a list's pages to a Pages until it objects, and says after how many.
func pagesOf(pages iter.Seq2[string, []string]) (n int, err error) {
	var p Pages
	for token, objects := range pages {
		n++
		if err := p.Next(token, slices.Values(objects)); err != nil {
			return n, err
		}
	}
	return n, nil
}

func TestPagesWithoutEndAreFoundOut(t *testing.T) {
	for name, tt := range map[string]struct {
		page func(i int) (token string, objects []string)
		most int
	}{
		"one token": {func(i int) (string, []string) { return "t", []string{fmt.Sprint(i)} }, 2},
		"tokens in a circle": {func(i int) (string, []string) {
			return fmt.Sprint(i % 7),
				[]string{fmt.Sprint(i)}
		}, 21},
		"tokens in a circle after a while": {func(i int) (string, []string) {
			token := i
			if i >= 100 {
				token = 100 + i%7
			}
			return fmt.Sprint(token), []string{fmt.Sprint(i)}
		}, 3 * 107},
		"new tokens and one page": {func(i int) (string, []string) {
			return fmt.Sprint(i),
				[]string{"a", "b"}
		}, 2},
		"new tokens and pages in a circle": {func(i int) (string, []string) {
			return fmt.Sprint(i),
				[]string{fmt.Sprint(i % 50)}
		}, 150},
		"empty pages": {func(i int) (string, []string) { return fmt.Sprint(i), nil }, maxEmptyPages},
		"a token without end": {func(int) (string,
			[]string) {
			return strings.Repeat("x", MaxToken+1), []string{"a"}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := pagesOf(func(yield func(string, []string) bool) {
				for i := range 10*tt.most + 10 {
					if !yield(tt.page(i)) {
						return
					}
				}
			})
			if !errors.Is(err, ErrEndless) || n > tt.most {
				t.Errorf("after %d pages: %v, want ErrEndless after at most %d", n, err, tt.most)
			}
		})
	}
}

func TestMoreObjectsThanThereCanBeAreFoundOut(t *testing.T) {
	p := Pages{total: maxObjects}
	if err := p.Next("t", slices.Values([]string{"a"})); !errors.Is(err, ErrEndless) {
		t.Errorf("error = %v, want ErrEndless", err)
	}
}

func TestAListThatEndsIsFollowedToItsEnd(t *testing.T) {
	for name, page := range map[string]func(i int) (string, []string){
		"many pages": func(i int) (string, []string) { return fmt.Sprint(i), []string{fmt.Sprint(i)} },
		"some pages are empty": func(i int) (string, []string) {
			return fmt.Sprint(i), slices.Repeat([]string{fmt.Sprint(i)}, min(1, i%maxEmptyPages))
		},
	} {
		const pages = 5000
		n, err := pagesOf(func(yield func(string, []string) bool) {
			for i := range pages {
				token, objects := page(i)
				if i == pages-1 {
					token = ""
				}
				if !yield(token, objects) {
					return
				}
			}
		})
		if err != nil || n != pages {
			t.Errorf("%s: %d pages (%v), want %d", name, n, err, pages)
		}
	}
}
