// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build go1.25

package look

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func clientOf(t *testing.T, f http.HandlerFunc) *client {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	c, err := newClient(&rest.Config{Host: server.URL}, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAtMostSixteenRequestsAreInFlight(t *testing.T) {
	var now, most atomic.Int64
	full := make(chan struct{})
	c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if n == maxAtOnce {
			close(full)
		}
		<-full // no one goes on before all places are taken
		fmt.Fprint(w, "{}")
	})
	var wg sync.WaitGroup
	for range 2*maxAtOnce - 1 {
		wg.Go(func() {
			if _, _, err := c.get(t.Context(), "/apis"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if most.Load() != maxAtOnce {
		t.Errorf("%d requests were in flight, want %d (I6)", most.Load(), maxAtOnce)
	}
}

func TestAnAnswerThatIsTooLargeIsNamedAndNotCut(t *testing.T) {
	c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, strings.Repeat(" ", bounded.Discovery), "{}")
	})
	_, err := parseDocument(c.getFresh(t.Context(), "/apis/a.example.com/v1"))
	if !errors.Is(err, bounded.ErrTooLarge) || !strings.Contains(err.Error(), "/apis/a.example.com/v1") {
		t.Errorf("error = %v, want ErrTooLarge and the path", err)
	}
}

func TestAWordThatIsNoPathSegmentIsNeverAskedFor(t *testing.T) {
	c := clientOf(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was asked for", r.URL) })
	for _, path := range []string{
		discoveryPath(schema.GroupVersion{Group: "../../api/v1/secrets?x=", Version: "v1"}),
		discoveryPath(schema.GroupVersion{Group: "a", Version: ".."}),
		objectPath(apiserver.APIServicesPath, "v1.a/../b"), objectPath(apiserver.APIServicesPath, ".."),
	} {
		_, _, err := c.get(t.Context(), path)
		_, fresh := c.getFresh(t.Context(), path)
		_, _, own := c.channelTo("192.0.2.1:443", time.Second).get(t.Context(), path)
		_, metadata := c.getMetadata(t.Context(), path)
		for _, err := range []error{err, fresh, own, metadata} {
			if !errors.Is(err, migrate.ErrUntrustedAnswer) {
				t.Errorf("%q: %v, want ErrUntrustedAnswer", path, err)
			}
		}
	}
	if _, err := parseDocument([]byte(`{"resources":[{"name":".."}]}`),
		nil); !errors.Is(err, migrate.ErrUntrustedAnswer) {
		t.Errorf("error = %v, want ErrUntrustedAnswer", err)
	}
	if got := objectPath(apiserver.APIServicesPath, "v1.a?b"); got != apiserver.APIServicesPath+"/v1.a%3Fb" {
		t.Errorf("path = %s, want it escaped", got)
	}
}

func TestMoreProcessesThanCanBeAskedAreNotAskedOneByOne(t *testing.T) {
	var l snapshot.Leases
	e := snapshot.Endpoints{Known: true}
	l.Known = true
	s := &snapshot.Service{Name: "v1.a", Namespace: "d", Service: "s", CA: []byte("ca")}
	for i := range maxServers + 1 {
		l.Live = append(l.Live, snapshot.Server{Holder: fmt.Sprint(i)})
		e.Addresses = append(e.Addresses, fmt.Sprint(i))
		s.Processes = append(s.Processes, snapshot.Process{Address: fmt.Sprint(i)})
	}
	c := &client{timeout: time.Second}
	list, why := newObserved(c).addresses(l, e)
	if list != nil || !strings.Contains(why, "at most 256") {
		t.Errorf("%d addresses (%s), want none", len(list), why)
	}
	got, err := newAggregated(c, nil).ask(t.Context(), query{service: s, path: "/apis/a/v1"})
	if err != nil || got.Evidence != 0 || len(got.Answers) > 0 || !strings.Contains(got.Why, "at most 256") {
		t.Errorf("survey %+v (%v), want no evidence and the reason", got, err)
	}
}

func TestANameThatReadsAsThatOfAnotherGroupsResourceIsNotBelieved(t *testing.T) {
	for _, entry := range []string{
		`{"name":"as.a","kind":"A","storageVersionHash":"h"}`,
		`{"name":"as.a","kind":"A","verbs":["list","update"]}`,
	} {
		_, err := parseDocument([]byte(`{"resources":[{"name":"bs","kind":"B","storageVersionHash":"h"},`+entry+`]}`), nil)
		if !errors.Is(err, migrate.ErrUntrustedAnswer) {
			t.Errorf("%s: %v, want ErrUntrustedAnswer", entry, err)
		}
	}
	const metric = `{"name":"nginx.requests_per_s","kind":"ExternalMetricValueList","verbs":["get"]}`
	doc, err := parseDocument([]byte(`{"resources":[`+metric+`,{"name":"bs","kind":"B","storageVersionHash":"h"}]}`), nil)
	if err != nil || len(doc.Resources) != 1 || doc.Resources[0].Name != "bs" {
		t.Errorf("%+v, %v, want only the resource that is stored", doc.Resources, err)
	}
}
