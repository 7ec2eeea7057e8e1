// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package testbed

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

func TestProxyResetsConnections(t *testing.T) {
	t.Parallel()
	p := newProxied(t, 1)
	for name, test := range map[string]struct {
		fault   Fault
		reaches bool
	}{
		"before the server has seen the request": {ResetBefore(), false},
		"after the server has answered":          {ResetAfter(), true},
	} {
		p.rules(Rule{Fault: test.fault, Match: Method(http.MethodPatch)})
		label := fmt.Sprintf(`{"metadata":{"labels":{"reaches":"%t"}}}`, test.reaches)
		// The kernel reports a reset once: where the client's writer happened to get it, its reader sees the end of the
		// stream.
		if _, err := p.send(http.MethodPatch, widgetZero, label); !errors.Is(err, syscall.ECONNRESET) &&
			!errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: error is %v, want a connection that broke", name, err)
		}
		if r := p.proxy.Records()[0]; r.Status != 0 {
			t.Errorf("%s: record is %+v", name, r)
		}
		object, err := p.client.Get(t.Context(), "widget-0000000", metav1.GetOptions{})
		if err != nil {
			t.Fatalf("%s: the connection after: %v", name, err)
		}
		if got := object.Labels["reaches"] == fmt.Sprint(test.reaches); got != test.reaches {
			t.Errorf("%s: the server has the patch: %t, want %t", name, got, test.reaches)
		}
	}
}

func TestProxyToldToRetryLaterKnowsWhoDidNotWait(t *testing.T) {
	t.Parallel()
	p := newProxied(t, 1)
	p.rules(Rule{Fault: TooManyRequests(time.Second), Times: 1})
	for range 2 { // the second does not wait
		if response, err := p.send(http.MethodPatch, widgetZero, "{}"); err == nil {
			_ = response.Body.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	early := p.proxy.DuringRetryAfter(5 * time.Millisecond)
	if len(early) != 1 || early[0].Status != http.StatusOK {
		t.Errorf("requests during Retry-After: %+v, want the second", early)
	}

	p.rules(Rule{Fault: TooManyRequests(time.Second), Times: 1})
	if err := p.patch(); err != nil { // client-go waits
		t.Error(err)
	}
	if records := p.proxy.Records(); len(records) != 2 || records[0].RetryAfter != time.Second ||
		records[1].Status != http.StatusOK {
		t.Errorf("records are %+v, want a 429 and a 200", records)
	}
	if early := p.proxy.DuringRetryAfter(5 * time.Millisecond); len(early) != 0 {
		t.Errorf("a client that waits counts as early: %+v", early)
	}
}

func TestProxyExpiresContinueTokens(t *testing.T) {
	t.Parallel()
	p := newProxied(t, 30)
	for name, withToken := range map[string]bool{"with a token to go on": true, "without": false} {
		p.rules(Rule{Fault: Expired(withToken), Skip: 1, Times: 1})
		options := metav1.ListOptions{Limit: 5}
		seen, expired := map[string]bool{}, 0
		for {
			page, err := p.client.List(t.Context(), options)
			if err != nil {
				var status apierrors.APIStatus
				if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
					t.Fatalf("%s: %v", name, err)
				}
				expired++
				if options.Continue = status.Status().Continue; (options.Continue != "") != withToken {
					t.Fatalf("%s: the token is %q", name, options.Continue)
				}
				if !withToken {
					break
				}
				if raw, err := base64.RawURLEncoding.DecodeString(options.Continue); err != nil ||
					!strings.Contains(string(raw), `"rv":-1`) {
					t.Errorf("%s: the token is %s (%v), want one for the present state", name, raw, err)
				}
				continue
			}
			for _, item := range page.Items {
				if seen[item.Name] {
					t.Errorf("%s: %s is listed twice", name, item.Name)
				}
				seen[item.Name] = true
			}
			if options.Continue = page.Continue; options.Continue == "" {
				break
			}
		}
		want := map[bool]int{true: 30, false: 10}[withToken]
		if expired != 1 || len(seen) != want {
			t.Errorf("%s: %d objects after %d expiries, want %d after one", name, len(seen), expired, want)
		}
	}
}

func TestProxyCutsWatches(t *testing.T) {
	t.Parallel()
	p := newProxied(t, 3)
	p.rules(Rule{Fault: CutWatch(300 * time.Millisecond)})
	begin := time.Now()
	response, err := p.send(http.MethodGet, "/apis/demo.example.com/v1/widgets?watch=true", "")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	events, err := io.ReadAll(response.Body)
	if err == nil || strings.Count(string(events), `"ADDED"`) != 3 || time.Since(begin) > 10*time.Second {
		t.Errorf("the watch gave %d bytes and ended with %v after %s, want 3 events and a cut", len(events),
			err, time.Since(begin))
	}
	response, err = p.send(http.MethodGet, "/apis/demo.example.com/v1/widgets", "")
	if err != nil {
		t.Fatalf("a list: %v", err)
	}
	_ = response.Body.Close()
}

func TestProxyDoesNotPunishOthersWhenAClientGivesUp(t *testing.T) {
	t.Parallel()
	p := newProxied(t, 1)
	p.rules()
	response, err := p.send(http.MethodGet, "/apis/demo.example.com/v1/widgets?watch=true", "")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	givenUp := Fault{Name: "given up", apply: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	}}
	p.rules(Rule{Fault: givenUp, Match: Method(http.MethodPatch)})
	if response, err := p.send(http.MethodPatch, widgetZero, "{}"); err == nil {
		_ = response.Body.Close()
		t.Error("the request was not given up")
	}
	p.rules()
	if _, err := p.client.Patch(t.Context(), "widget-0000000", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	// Both events arrive on the watch, which shares the connection.
	buffer, seen := make([]byte, 4096), ""
	for !strings.Contains(seen, `"MODIFIED"`) {
		n, err := response.Body.Read(buffer)
		seen += string(buffer[:n])
		if err != nil {
			t.Fatalf("the watch broke: %v", err)
		}
	}
}

func TestProxyPassesOnThatTheServerIsDead(t *testing.T) {
	t.Parallel()
	c := New(t, Options{})
	p := NewProxy(t, c)
	if err := list(t, p.Config(), namespaces); err != nil {
		t.Fatal(err)
	}
	c.Servers[0].Kill()
	client, err := rest.HTTPClientFor(p.Config())
	if err != nil {
		t.Fatal(err)
	}
	if response, err := client.Get(p.URL() + "/api"); err == nil {
		_ = response.Body.Close()
		t.Errorf("answer is %s, want a broken connection", response.Status)
	}
}
