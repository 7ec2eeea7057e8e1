// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

var widgets = schema.GroupVersionResource{Group: WidgetGroup, Version: "v1", Resource: "widgets"}

// proxied is a cluster with widgets, and a client that talks to it through a proxy and does not try again by itself.
type proxied struct {
	*testing.T
	proxy  *Proxy
	client metadata.ResourceInterface
	http   *http.Client
}

func newProxied(t *testing.T, count int) *proxied {
	t.Helper()
	c := New(t, Options{})
	if err := c.InstallWidgets(t.Context(), Widgets{}); err != nil {
		t.Fatal(err)
	}
	if err := c.BulkCreate(t.Context(), Bulk{Count: count}); err != nil {
		t.Fatal(err)
	}
	p := NewProxy(t, c)
	client, err := metadata.NewForConfig(p.Config())
	if err != nil {
		t.Fatal(err)
	}
	plain, err := rest.HTTPClientFor(p.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &proxied{T: t, proxy: p, client: client.Resource(widgets).Namespace("default"), http: plain}
}

// rules begins a step: new rules, no records.
func (p *proxied) rules(rules ...Rule) {
	p.proxy.SetRules(rules...)
	p.proxy.Forget()
}

func (p *proxied) patch() error {
	_, err := p.client.Patch(p.Context(), "widget-0000000", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
	return err
}

// send sends one request without client-go's retries.
func (p *proxied) send(method, path, body string) (*http.Response, error) {
	p.Helper()
	request, err := http.NewRequestWithContext(p.Context(), method, p.proxy.URL()+path, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/merge-patch+json")
	return p.http.Do(request)
}

const widgetZero = "/apis/demo.example.com/v1/namespaces/default/widgets/widget-0000000"

func TestProxyInjectsFaultsAndRecordsWhatCame(t *testing.T) {
	t.Parallel()
	p := newProxied(t, 30)

	p.rules()
	if err := p.patch(); err != nil {
		t.Errorf("without rules: %v", err)
	}
	records := p.proxy.Records()
	if len(records) != 1 {
		t.Fatalf("records are %+v, want one", records)
	}
	r := records[0]
	if r.Method != http.MethodPatch || r.Path != widgetZero || r.Status != 200 || r.RequestBytes != 2 ||
		r.ResponseBytes == 0 || r.End.Before(r.Begin) {
		t.Errorf("record is %+v", r)
	}
	if in, out := p.proxy.WireBytes(); in < 100 || out < r.ResponseBytes {
		t.Errorf("wire bytes are %d and %d for a body of %d", in, out, r.ResponseBytes)
	}

	for name, test := range map[string]struct {
		fault Fault
		is    func(error) bool
	}{
		"500": {InternalError(), apierrors.IsInternalError},
		"503": {Unavailable(0), apierrors.IsServiceUnavailable},
		"429": {TooManyRequests(0), apierrors.IsTooManyRequests},
	} {
		p.rules(Rule{Fault: test.fault, Match: Method(http.MethodPatch)})
		if err := p.patch(); !test.is(err) {
			t.Errorf("%s: error is %v", name, err)
		}
		if r := p.proxy.Records()[0]; fmt.Sprint(r.Status) != name || len(r.Faults) != 1 || r.Faults[0] != name {
			t.Errorf("%s: record is %+v", name, r)
		}
	}

	p.rules(Rule{Fault: Latency(200 * time.Millisecond)}, Rule{Fault: InternalError()})
	begin := time.Now()
	if err := p.patch(); !apierrors.IsInternalError(err) || time.Since(begin) < 200*time.Millisecond {
		t.Errorf("latency before a 500: %v after %s", err, time.Since(begin))
	}
	if diff := cmp.Diff([]string{"latency", "500"}, p.proxy.Records()[0].Faults); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestRulesSelectRequests(t *testing.T) {
	for name, test := range map[string]struct {
		rule Rule
		want string
	}{
		"no condition":           {Rule{}, "xxxxxxxxxx"},
		"every third":            {Rule{Every: 3}, "x..x..x..x"},
		"every third after four": {Rule{Every: 3, Skip: 4}, "....x..x.."},
		"at most two":            {Rule{Times: 2}, "xx........"},
		"never matching":         {Rule{Match: Method("PUT")}, ".........."},
		"by path":                {Rule{Match: PathContains("/wid")}, "xxxxxxxxxx"},
		"certain":                {Rule{Probability: 1}, "xxxxxxxxxx"},
	} {
		if got := choices(t, 1, test.rule); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	half := choices(t, 7, Rule{Probability: 0.5})
	if half != choices(t, 7, Rule{Probability: 0.5}) {
		t.Error("the same seed does not choose the same requests")
	}
	if half == choices(t, 8, Rule{Probability: 0.5}) || strings.Count(half, "x") == 0 ||
		strings.Count(half, "x") == 10 {
		t.Errorf("half of them: %s", half)
	}
}

// choices shows which of ten requests a rule selects.
func choices(t *testing.T, seed uint64, rule Rule) string {
	t.Helper()
	p := &Proxy{random: newRandom(seed)}
	rule.Fault = InternalError()
	p.SetRules(rule)
	shown := ""
	for range 10 {
		if len(p.choose(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/widgets"}})) > 0 {
			shown += "x"
		} else {
			shown += "."
		}
	}
	return shown
}
