// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestAConversionWebhookIsNotNeededAnyMoreAfterTheMigration(t *testing.T) {
	t.Parallel()
	const n = 500
	cluster := testbed.New(t, testbed.Options{})
	converter := newConverter(t, cluster)
	installStale(t, cluster, testbed.Bulk{Count: n}, testbed.Widgets{ConversionURL: converter.web.URL})
	wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v1: n})
	before := snapshot(t, cluster, testbed.WidgetsPrefix)

	got := newCLI(t, cluster).migrate(0, "widgets")

	wantCounts(t, migrate.Counts{Rewritten: n}, got)
	wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v2: n})
	wantPreserved(t, cluster, testbed.WidgetsPrefix, before)
	wantClaimed(t, cluster, "v2")
	if calls := converter.calls.Load(); calls == 0 {
		t.Error("the webhook was never asked: nothing was converted by it")
	}

	editVersions(t, cluster, func(versions []any) []any {
		versions[0].(map[string]any)["served"] = false
		return versions
	})
	editVersions(t, cluster, func(versions []any) []any { return versions[1:] })
	converter.web.Close()
	converter.calls.Store(0)
	if err := cluster.Servers[0].Restart(t.Context()); err != nil { // it holds nothing that was converted before
		t.Fatal(err)
	}
	var list struct {
		Items []struct {
			APIVersion string `json:"apiVersion"`
		} `json:"items"`
	}
	getWhenReady(t, cluster, "/apis/"+v2+"/widgets", &list)
	if len(list.Items) != n {
		t.Errorf("%d widgets are listed without v1 and its webhook, want %d", len(list.Items), n)
	}
	for _, item := range list.Items {
		if item.APIVersion != v2 {
			t.Fatalf("a widget is listed as %s, want %s", item.APIVersion, v2)
		}
	}
}

func TestAConversionWebhookThatIsDownIsNamedAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	const n = 200
	cluster := testbed.New(t, testbed.Options{})
	converter := newConverter(t, cluster)
	installStale(t, cluster, testbed.Bulk{Count: n}, testbed.Widgets{ConversionURL: converter.web.URL})
	getWhenReady(t, cluster, "/apis/"+v2+"/widgets", &struct{}{})
	converter.web.Close()
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("and the API server forgot what was converted: %v", restarted), func(t *testing.T) {
			if restarted {
				if err := cluster.Servers[0].Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			before := revisions(t, cluster, testbed.WidgetsPrefix)
			user, proxy := throughProxy(t, cluster)
			began := time.Now()

			what, try := user.refused("migrate", "widgets", "--settle-time=1s")

			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %v to find out", took)
			}
			host := strings.TrimPrefix(converter.web.URL, "https://")
			for _, part := range []string{testbed.WidgetCRD, "conversion webhook", host, "connection refused"} {
				if !strings.Contains(what, part) {
					t.Errorf("the error lacks %q: %s", part, what)
				}
			}
			if !strings.Contains(try, testbed.WidgetCRD) {
				t.Errorf("it says to try %s", try)
			}
			wantUnwritten(t, proxy)
			wantUnmoved(t, cluster, testbed.WidgetsPrefix, before)
			wantClaimed(t, cluster, "v1", "v2")
		})
	}
}

// Up to 1.36, the API server drops all managedFields of an object when the webhook fails after the object was converted
// and before its managedFields are (kubernetes/kubernetes#136919).
func TestAConversionWebhookThatFailsInTheMiddleOfARequestCostsNoFieldOwnership(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{Release: testbed.V136})
	converter := newConverter(t, cluster)
	if err := cluster.InstallWidgets(t.Context(), testbed.Widgets{ConversionURL: converter.web.URL}); err != nil {
		t.Fatal(err)
	}
	const path = "/namespaces/default/widgets"
	create := func(version, name string) {
		do(t, cluster, http.MethodPost, "/apis/"+version+path+"?fieldManager=alice", map[string]any{
			"apiVersion": version, "kind": "Widget", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"color": "red"},
		})
	}
	for _, name := range []string{"deleted", "kept", "replaced", "retired"} {
		create(v1, name)
	}
	retireManagers(t, cluster, "retired")
	cluster.Loses(testbed.WidgetsPrefix, "metadata.managedFields", "they name a version that the CRD does not have")
	moveStorage(t, cluster, "v2")
	if err := cluster.Servers[0].Restart(t.Context()); err != nil { // it holds nothing that was converted before
		t.Fatal(err)
	}
	getWhenReady(t, cluster, "/apis/"+v2+"/widgets", &struct{}{})
	before := snapshot(t, cluster, testbed.WidgetsPrefix)
	user, proxy := throughProxy(t, cluster)

	// What failed is read once more before it is tried again.
	proxy.SetRules(testbed.Rule{Fault: testbed.InternalError(), Times: 1, Match: func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/kept")
	}})
	unable := v1
	converter.unable.Store(&unable)
	got := user.migrate(4, "widgets")

	// No apply can keep an entry of a version that the CRD does not have, so that object gets a merge patch.
	wantCounts(t, migrate.Counts{Rewritten: 1, Failed: 3, ManagedFieldsDropped: 1}, got)
	wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v1: 3, v2: 1})
	after := snapshot(t, cluster, testbed.WidgetsPrefix)
	for _, name := range []string{"deleted", "kept", "replaced"} {
		key := testbed.WidgetsPrefix + "default/" + name
		if changes := before[key].Differences(after[key]); len(changes) > 0 {
			t.Errorf("the migration changed %v of %s (I3)", changes, name)
		}
	}

	converter.unable.Store(nil)
	remove := func(name string) { do(t, cluster, http.MethodDelete, "/apis/"+v2+path+"/"+name, nil) }
	proxy.Forget()
	proxy.SetRules(
		overtake("deleted", func() { remove("deleted") }),
		overtake("replaced", func() { remove("replaced"); create(v2, "replaced") }))
	got = user.migrate(0, "widgets")

	wantCounts(t, migrate.Counts{Rewritten: 2, Current: 1, Gone: 1}, got)
	wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v2: 3})
	kept := testbed.WidgetsPrefix + "default/kept"
	if changes := before[kept].Differences(snapshot(t, cluster, testbed.WidgetsPrefix)[kept]); len(changes) > 0 {
		t.Errorf("the migration changed %v (I3)", changes)
	}
	patches := map[string]int{}
	for _, r := range proxy.Records() {
		if name, found := strings.CutPrefix(r.Path, "/apis/"+v2+path+"/"); found && r.Method == http.MethodPatch {
			patches[name]++
		}
	}
	if diff := cmp.Diff(map[string]int{"deleted": 1, "kept": 1, "replaced": 2, "retired": 1}, patches); diff != "" {
		t.Errorf("patches (-want +got):\n%s", diff)
	}
}
