// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/compare"
	"github.com/kube-migrator/kube-migrator/internal/golden"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// roundOf looks once at every resource, and again while servers come or go.
func roundOf(t *testing.T, o *agreement.Observer) *agreement.Round {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Second) {
		r, err := o.Round(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !r.Moved {
			return r
		}
	}
	t.Fatal("servers come and go for a minute")
	return nil
}

// record keeps what a look at everything has read for the tests of internal/agreement, with go test -update.
func record(t *testing.T, o *agreement.Observer, name string) {
	t.Helper()
	golden.Record(t, "../../../internal/agreement/testdata/"+name+".json", func() string {
		s, err := o.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw) + "\n"
	})
}

// verdictOf returns the verdict of a resource.
func verdictOf(t *testing.T, r *agreement.Round, group, plural string) agreement.Verdict {
	t.Helper()
	i := slices.IndexFunc(r.Verdicts, func(v agreement.Verdict) bool {
		return v.Resource == schema.GroupResource{Group: group,
			Resource: plural}
	})
	if i < 0 {
		t.Fatalf("no verdict of %s in group %q among %d", plural, group, len(r.Verdicts))
	}
	return r.Verdicts[i]
}

func newObserver(t *testing.T, cluster *testbed.Cluster) *agreement.Observer {
	t.Helper()
	o, err := agreement.NewObserver(cluster.Config(), agreement.Options{ShutdownDelay: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestARoundOfOneRealServer(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{Flags: advertised})
	if err := cluster.InstallWidgets(t.Context(), testbed.Widgets{}); err != nil {
		t.Fatal(err)
	}
	o := newObserver(t, cluster)
	r := roundOf(t, o)
	record(t, o, "one-server")

	t.Run("sees what a look at one resource sees", func(t *testing.T) {
		for _, target := range []migrate.Target{widgets, deviceClasses} {
			want, _ := look(t, o.For(target))
			v := verdictOf(t, r, target.Resource.Group, target.Resource.Resource)
			if v.Epoch == nil || !v.Epoch.Same(want) || v.Epoch.Evidence != want.Evidence ||
				v.Origin != target.Origin || v.Kind != target.Kind {
				t.Errorf("the verdict is %+v with epoch %+v, want %+v", v, v.Epoch, want)
			}
		}
	})
	t.Run("has every resource that is stored, and no other", func(t *testing.T) {
		for _, v := range r.Verdicts {
			if v.Epoch == nil || v.Evidence != migrate.Observed || v.Version == "" {
				t.Errorf("%s: %s", v.Resource, v.Why)
			}
		}
		names := map[string]bool{}
		for _, v := range r.Verdicts {
			names[v.Resource.String()] = true
		}
		for name, want := range map[string]bool{
			"pods": true, "events": true, "events.events.k8s.io": true,
			"customresourcedefinitions.apiextensions.k8s.io": true,
			"apiservices.apiregistration.k8s.io":             true, "tokenreviews.authentication.k8s.io": false,
			"componentstatuses": false,
		} {
			if names[name] != want {
				t.Errorf("a view of %s: %t, want %t", name, names[name], want)
			}
		}
		if len(r.Unread) > 0 {
			t.Errorf("unread: %v", r.Unread)
		}
	})
	t.Run("names the process by its Lease", func(t *testing.T) {
		v := verdictOf(t, r, "demo.example.com", "widgets")
		if len(v.Servers) != 1 {
			t.Fatalf("the servers are %+v", v.Servers)
		}
		holder := r.Processes[0]
		want := agreement.Server{ID: holder[:len("apiserver-")+26], Process: holder, Hash: hashOf(widgets, "v1"),
			Version: "demo.example.com/v1", Answered: true}
		if diff := compare.Diff(want, v.Servers[0]); diff != "" {
			t.Errorf("server (-want +got):\n%s", diff)
		}
	})
	t.Run("has the CRD with the hashes of all its versions", func(t *testing.T) {
		d := verdictOf(t, r, "demo.example.com", "widgets").CRD
		want := map[string]string{"v1": hashOf(widgets, "v1"), "v2": hashOf(widgets, "v2")}
		if d == nil || d.Generation == 0 || d.UID == "" || d.Storage != "v1" ||
			!slices.Equal(d.StoredVersions, []string{"v1"}) || !maps.Equal(d.Hashes, want) {
			t.Errorf("the CRD is %+v", d)
		}
	})
	t.Run("the epoch goes on from round to round", func(t *testing.T) {
		// A server that has just started still writes its EndpointSlice, which bounds the beginning again.
		before := verdictOf(t, r, "", "pods").Epoch
		for range 20 {
			again := verdictOf(t, roundOf(t, o), "", "pods").Epoch
			if again == nil || !again.Same(*before) {
				t.Fatalf("the epoch is %+v, it was %+v", again, before)
			}
			if again.Since.Equal(before.Since) {
				return
			}
			before = again
			time.Sleep(time.Second)
		}
		t.Errorf("each round moves the beginning of the epoch, at last to %v", before.Since)
	})
	t.Run("follows a CRD", func(t *testing.T) {
		before := verdictOf(t, roundOf(t, o), "demo.example.com", "widgets")
		if err := cluster.MoveStorage(t.Context(), testbed.WidgetCRD, "v2"); err != nil {
			t.Fatal(err)
		}
		moved := verdictOf(t, roundOf(t, o), "demo.example.com", "widgets")
		if moved.Epoch == nil || moved.Epoch.Hash != hashOf(widgets, "v2") ||
			moved.CRD.Generation <= before.CRD.Generation ||
			!slices.Equal(moved.CRD.StoredVersions, []string{"v1", "v2"}) {
			t.Errorf("the verdict is %+v, with CRD %+v", moved, moved.CRD)
		}
		_, err := cluster.EditCRDStatus(t.Context(), testbed.WidgetCRD, func(d map[string]any) {
			d["status"].(map[string]any)["storedVersions"] = []string{"v2"}
		})
		if err != nil {
			t.Fatal(err)
		}
		pruned := verdictOf(t, roundOf(t, o), "demo.example.com", "widgets")
		if !slices.Equal(pruned.CRD.StoredVersions, []string{"v2"}) || !pruned.Epoch.Same(*moved.Epoch) {
			t.Errorf("the CRD is %+v", pruned.CRD)
		}
		reinstall(t, cluster, "v1")
		again := verdictOf(t, roundOf(t, o), "demo.example.com", "widgets")
		if again.CRD.UID == moved.CRD.UID || again.CRD.Storage != "v1" {
			t.Errorf("the CRD is %+v, it was %+v", again.CRD, moved.CRD)
		}
	})
}
