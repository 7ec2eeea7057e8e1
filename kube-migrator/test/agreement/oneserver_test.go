// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement_test

import (
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/compare"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// advertised makes a server on loopback maintain the EndpointSlice with an address that does not answer, as seen from
// outside a cluster.
var advertised = []string{"--advertise-address=192.0.2.10", "--endpoint-reconciler-type=lease"}

// look looks and shows what it saw when the test fails.
func look(t *testing.T, r *agreement.Resource) (migrate.Epoch, agreement.Explanation) {
	t.Helper()
	epoch, explanation, err := r.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v, %s", epoch, explanation)
	if epoch.Evidence != explanation.Evidence {
		t.Errorf("the explanation is about %v, the epoch has %v", explanation.Evidence, epoch.Evidence)
	}
	if epoch.Since.After(time.Now()) {
		t.Errorf("since is in the future: %v", epoch.Since)
	}
	return epoch, explanation
}

// until looks once a second until ok returns true.
func until(t *testing.T, r *agreement.Resource, what string, ok func(migrate.Epoch, error) bool) migrate.Epoch {
	t.Helper()
	var last error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Second) {
		e, err := r.Epoch(t.Context())
		if ok(e, err) {
			return e
		}
		last = err
	}
	t.Fatalf("not within a minute: %s; the last look said %v", what, last)
	return migrate.Epoch{}
}

func observe(t *testing.T, config *rest.Config, target migrate.Target) *agreement.Resource {
	t.Helper()
	r, err := agreement.New(config, target, agreement.Options{ShutdownDelay: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// between fails the test unless moment lies between the two, allowing for the resolution of a bound.
func between(t *testing.T, what string, moment, from, to time.Time) {
	t.Helper()
	if moment.Before(from) || moment.After(to) {
		t.Errorf("%s is %v, want between %v and %v", what, moment, from, to)
	}
}

// reinstall deletes the CRD of widgets and creates another one.
func reinstall(t *testing.T, cluster *testbed.Cluster, storage string) {
	t.Helper()
	path := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + testbed.WidgetCRD
	for status := 0; status != http.StatusNotFound; time.Sleep(100 * time.Millisecond) {
		var err error
		if status, _, err = cluster.Servers[0].Do(t.Context(), http.MethodDelete, path, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := cluster.InstallWidgets(t.Context(), testbed.Widgets{Storage: storage}); err != nil {
		t.Fatal(err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOneRealServer(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{Flags: advertised, Users: []testbed.User{{Name: "stranger"}}})
	ctx := t.Context()
	if err := cluster.InstallWidgets(ctx, testbed.Widgets{}); err != nil {
		t.Fatal(err)
	}
	installed := time.Now()
	r := observe(t, cluster.Config(), widgets)

	first, explanation := look(t, r)
	if first.Evidence != migrate.Observed || explanation.Servers != 1 || explanation.Reason != "" ||
		explanation.Version != "demo.example.com/v1" {
		t.Errorf("one server is %v: %+v", first.Evidence, explanation)
	}
	if first.Hash != hashOf(widgets, "v1") || len(first.Servers) != 1 || first.CRDUID == "" ||
		first.CRDGeneration == 0 {
		t.Errorf("the epoch is %+v", first)
	}

	t.Run("the beginning is known to some seconds although no look was made then", func(t *testing.T) {
		time.Sleep(15 * time.Second)
		e, _ := look(t, observe(t, cluster.Config(), widgets))
		between(t, "since", e.Since, installed.Add(-5*time.Second), installed.Add(14*time.Second))
	})
	t.Run("a look is four requests, and the CRD comes whole once per generation", func(t *testing.T) {
		var mu sync.Mutex
		var sent []string
		config := cluster.Config()
		config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				sent = append(sent, path.Base(r.URL.Path)+" "+r.Header.Get("Accept"))
				return rt.RoundTrip(r)
			})
		})
		r := observe(t, config, widgets)
		look(t, r)
		sent = nil
		look(t, r)
		slices.Sort(sent)
		want := []string{
			"endpointslices application/json", "leases application/json", "v1 application/json",
			"widgets.demo.example.com application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
		}
		if diff := compare.Diff(want, sent); diff != "" {
			t.Errorf("the second look sent (-want +got):\n%s", diff)
		}
	})
	t.Run("many look at once", func(t *testing.T) {
		o, err := agreement.NewObserver(cluster.Config(), agreement.Options{ShutdownDelay: time.Nanosecond})
		if err != nil {
			t.Fatal(err)
		}
		views := []*agreement.Resource{o.For(widgets), o.For(deviceClasses)}
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				if e, err := views[i%2].Epoch(ctx); err != nil || e.Evidence != migrate.Observed {
					t.Errorf("look %d: %+v, %v", i, e, err)
				}
			})
		}
		wg.Wait()
	})
	t.Run("a moved storage version is another epoch", func(t *testing.T) {
		before := time.Now()
		if err := cluster.MoveStorage(ctx, testbed.WidgetCRD, "v2"); err != nil {
			t.Fatal(err)
		}
		e := until(t, r, "v2 is agreed on", func(_ migrate.Epoch, err error) bool { return err == nil })
		if e.Same(first) || e.Hash != hashOf(widgets, "v2") || e.CRDGeneration <= first.CRDGeneration {
			t.Errorf("after v1 → v2 the epoch is %+v, it was %+v", e, first)
		}
		between(t, "since", e.Since, before, time.Now())
		if err := cluster.MoveStorage(ctx, testbed.WidgetCRD, "v1"); err != nil {
			t.Fatal(err)
		}
		back := until(t, r, "v1 is agreed on", func(_ migrate.Epoch, err error) bool { return err == nil })
		if back.Same(first) || back.Hash != first.Hash {
			t.Errorf("after v1 → v2 → v1 the epoch is %+v, it was %+v", back, first)
		}
	})
	t.Run("a storage version that is not served", func(t *testing.T) {
		_, err := cluster.EditCRD(ctx, testbed.WidgetCRD, func(d map[string]any) {
			for _, v := range d["spec"].(map[string]any)["versions"].([]any) {
				v := v.(map[string]any)
				v["served"] = v["name"] == "v2"
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		target := widgets
		target.Resource.Version = "v2"
		e := until(t, observe(t, cluster.Config(), target), "agreement",
			func(_ migrate.Epoch, err error) bool { return err == nil })
		if e.Hash != hashOf(widgets, "v1") {
			t.Errorf("the hash is %s, want that of v1", e.Hash)
		}
		until(t, r, "v1 is not served", func(_ migrate.Epoch, err error) bool { return errors.Is(err, agreement.ErrNotServed) })
	})
	t.Run("a CRD created again with the same generation is another epoch", func(t *testing.T) {
		reinstall(t, cluster, "v1")
		r := observe(t, cluster.Config(), widgets)
		first := until(t, r, "v1 is agreed on", func(_ migrate.Epoch, err error) bool { return err == nil })
		reinstall(t, cluster, "v2")
		e := until(t, r, "v2 is agreed on", func(_ migrate.Epoch, err error) bool { return err == nil })
		if e.CRDGeneration != first.CRDGeneration || e.Same(first) || e.Hash != hashOf(widgets, "v2") {
			t.Errorf("the epoch is %+v, it was %+v", e, first)
		}
	})
	t.Run("what does not exist is not served", func(t *testing.T) {
		for _, target := range []migrate.Target{deviceClasses, widgets} {
			target.Resource.Version, target.Resource.Resource = "v9", "gadgets"
			if _, err := observe(t, cluster.Config(), target).Epoch(ctx); !errors.Is(err, agreement.ErrNotServed) {
				t.Errorf("%v: error is %v, want ErrNotServed", target.Resource, err)
			}
		}
	})
	t.Run("a kubeconfig that skips verification gets samples", func(t *testing.T) {
		config := cluster.Config()
		config.TLSClientConfig = rest.TLSClientConfig{Insecure: true}
		e, explanation := look(t, observe(t, config, deviceClasses))
		if e.Evidence != migrate.Sampled || !strings.Contains(explanation.Reason, "skips the verification") {
			t.Errorf("evidence is %v: %s", e.Evidence, explanation)
		}
		if len(e.Servers) != 1 {
			t.Errorf("servers are %v, want the one", e.Servers)
		}
	})
	t.Run("without permission to read Leases the servers are unknown", func(t *testing.T) {
		e, explanation := look(t, observe(t, cluster.ConfigAs("stranger"), deviceClasses))
		if e.Evidence != migrate.Sampled || e.Servers != nil || !strings.Contains(explanation.Reason, "Leases") {
			t.Errorf("evidence is %v, servers are %v: %s", e.Evidence, e.Servers, explanation)
		}
		if e.Hash != hashOf(deviceClasses, "v1") {
			t.Errorf("the hash is %s, want that of v1", e.Hash)
		}
	})
	t.Run("an aggregated resource is sampled", func(t *testing.T) {
		target := deviceClasses
		target.Origin = migrate.Aggregated
		before := time.Now()
		e, _ := look(t, observe(t, cluster.Config(), target))
		if e.Evidence != migrate.Sampled || e.Servers != nil || e.Since.Before(before) {
			t.Errorf("the epoch is %+v, want samples of unknown servers since now", e)
		}
	})
	t.Run("a restart is another epoch", func(t *testing.T) {
		r := observe(t, cluster.Config(), deviceClasses)
		first, _ := look(t, r)
		before := time.Now()
		if err := cluster.Servers[0].Restart(ctx); err != nil {
			t.Fatal(err)
		}
		e := until(t, r, "an agreement with a Lease",
			func(e migrate.Epoch, err error) bool { return err == nil && len(e.Servers) == 1 })
		if e.Same(first) || e.Hash != first.Hash || e.Evidence != migrate.Observed {
			t.Errorf("after a restart the epoch is %+v, it was %+v", e, first)
		}
		between(t, "since", e.Since, before, time.Now())
	})
	t.Run("a server that cannot be reached teaches nothing", func(t *testing.T) {
		r := observe(t, cluster.Config(), deviceClasses)
		cluster.Servers[0].Kill()
		if _, err := r.Epoch(ctx); err == nil || errors.Is(err, migrate.ErrDisagreement) ||
			errors.Is(err, agreement.ErrNotServed) {
			t.Errorf("error is %v, want a plain one", err)
		}
		if err := cluster.Servers[0].Start(ctx); err != nil {
			t.Fatal(err)
		}
	})
}
