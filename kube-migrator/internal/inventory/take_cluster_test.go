// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/migrate"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

func TestTheInventoryOfARealCluster(t *testing.T) {
	cluster := testbed.New(
		t, testbed.Options{Flags: []string{"--runtime-config=admissionregistration.k8s.io/v1beta1=true"}},
	)
	client, err := apiserver.NewClient(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	create(t, client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd("widgets", "Widget",
		`{"name":"v2","served":true,"storage":true,%[1]s},{"name":"v1","served":true,"storage":false,%[1]s}`))
	create(t, client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd("gadgets", "Gadget",
		`{"name":"v1","served":true,"storage":false,%[1]s},{"name":"v2","served":false,"storage":true,%[1]s}`))
	create(t, client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd("relics", "Relic",
		`{"name":"v1","served":false,"storage":true,%[1]s}`))
	// Two CRDs want one short name: the second is not accepted.
	create(t, client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd("widgetsets", "Widget",
		`{"name":"v1","served":true,"storage":true,%[1]s}`))
	create(t, client, "/apis/apiregistration.k8s.io/v1/apiservices",
		`{"metadata":{"name":"v1.down.example.com"},"spec":{
		"group":"down.example.com","version":"v1","groupPriorityMinimum":1000,"versionPriority":10,"insecureSkipTLSVerify":true,
		"service":{"namespace":"elsewhere","name":"down"}}}`)
	for i := range 3 {
		create(t, client, "/apis/demo.example.com/v2/namespaces/default/widgets",
			fmt.Sprintf(`{"apiVersion":"demo.example.com/v2","kind":"Widget","metadata":{"name":"w%d"}}`, i))
	}
	inv := take(t, client, func(inv *inventory.Inventory) bool {
		set, err := inv.Find("widgetsets.demo.example.com")
		return err == nil && set.CRD != nil && len(inv.Failures) > 0 &&
			strings.Contains(inv.Failures[0].Reason, "elsewhere")
	})

	t.Run("every built-in resource that can be migrated tells its storage version", func(t *testing.T) {
		migratable := 0
		for _, r := range inv.Resources {
			if r.Origin != migrate.BuiltIn || r.Problem != nil {
				continue
			}
			migratable++
			if r.Storage() == "" {
				t.Errorf("%s: no candidate has the hash %s", r.GroupResource, r.StorageVersionHash)
			}
			if target := r.Target(); target.Resource.Version == "" || target.Kind == "" {
				t.Errorf("%s: target %+v", r.GroupResource, target)
			}
		}
		if migratable < 55 {
			t.Errorf("%d built-in resources can be migrated, want those of a whole API server", migratable)
		}
	})
	t.Run("hashes are those that kube-apiserver pins in its own tests, and versions those that have them", func(t *testing.T) {
		for name, want := range map[string]string{
			"pods":                       "v1 xPOwRZ+Yhw8= v1 true",
			"secrets":                    "v1 S6u1pOWzb84= v1 true",
			"nodes":                      "v1 XwShjMxG9Fs= v1 false",
			"deployments.apps":           "v1 8aSe+NMegvE= v1 true",
			"leases.coordination.k8s.io": "v1 gqkMMb/YqFM= v1 true",
			"customresourcedefinitions.apiextensions.k8s.io":         "v1beta1 jfWCUB31mvA= v1 false",
			"apiservices.apiregistration.k8s.io":                     "v1 InPBPD7+PqM= v1 false",
			"mutatingadmissionpolicies.admissionregistration.k8s.io": "v1 mHCkTKpUTrE= v1 false",
			"horizontalpodautoscalers.autoscaling":                   "v2 qwQve8ut294= v2 true",
		} {
			r := find(t, inv, name)
			if got := fmt.Sprint(r.Storage(), " ", r.StorageVersionHash, " ", r.Endpoint, " ",
				r.Namespaced); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	})
	t.Run("events are one resource of two groups", func(t *testing.T) {
		core, other := find(t, inv, "events"), find(t, inv, "events.events.k8s.io")
		if diff := cmp.Diff(core, other); diff != "" {
			t.Errorf("two resources (-core +other):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"events", "events.events.k8s.io"}, core.Names()); diff != "" {
			t.Errorf("names (-want +got):\n%s", diff)
		}
		if core.Group != "" || core.StorageVersion != (schema.GroupVersion{Version: "v1"}) {
			t.Errorf("stored as %v, listed in group %q, want v1 of the core group", core.StorageVersion, core.Group)
		}
	})
	t.Run("a resource that cannot be migrated says why", func(t *testing.T) {
		for name, want := range map[string]inventory.ProblemReason{
			"subjectaccessreviews.authorization.k8s.io": inventory.NotPersisted,
			"componentstatuses":                         inventory.NotPersisted,
			"bindings":                                  inventory.NotPersisted,
			"relics.demo.example.com":                   inventory.NotServed,
			"widgetsets.demo.example.com":               inventory.NotEstablished,
		} {
			if r := find(t, inv, name); r.Problem == nil || r.Problem.Reason != want || r.Problem.Message == "" {
				t.Errorf("%s: problem %+v, want %s with a message", name, r.Problem, want)
			}
		}
	})
	t.Run("nothing but what is not stored has a problem among the built-in resources", func(t *testing.T) {
		for _, r := range inv.Resources {
			if r.Origin == migrate.BuiltIn && r.Problem != nil && r.Problem.Reason != inventory.NotPersisted {
				t.Errorf("%s: %+v", r.GroupResource, *r.Problem)
			}
		}
	})
	t.Run("a custom resource in two versions", func(t *testing.T) {
		r := find(t, inv, "widgets")
		want := &inventory.CRD{Name: "widgets.demo.example.com", Generation: 1, StorageVersion: "v2",
			StoredVersions: []string{"v2"}, Versions: []string{"v2", "v1"}, Conversion: "None"}
		if r.CRD == nil || r.CRD.UID == "" {
			t.Fatalf("CRD: %+v", r.CRD)
		}
		want.UID, want.ResourceVersion = r.CRD.UID, r.CRD.ResourceVersion
		if diff := cmp.Diff(want, r.CRD); diff != "" {
			t.Errorf("CRD (-want +got):\n%s", diff)
		}
		if r.Origin != migrate.Custom || r.Storage() != "v2" || r.Endpoint != "v2" || r.Problem != nil {
			t.Errorf("%+v", r)
		}
	})
	t.Run("a custom resource whose storage version is not served is migrated at another version", func(t *testing.T) {
		r := find(t, inv, "gadgets")
		if r.Storage() != "v2" || r.Endpoint != "v1" ||
			r.StorageVersionHash != hash("demo.example.com/v2", "Gadget") || r.Problem != nil {
			t.Errorf("%+v", r)
		}
	})
	t.Run("an aggregated API server that is down is named with its reason", func(t *testing.T) {
		if len(inv.Failures) != 1 {
			t.Fatalf("failures: %+v", inv.Failures)
		}
		f := inv.Failures[0]
		if f.What != "down.example.com/v1" || f.APIService != "v1.down.example.com" || f.Service != "elsewhere/down" ||
			!strings.Contains(f.Reason, "not present") {
			t.Errorf("%+v", f)
		}
		var missing *inventory.NotFoundError
		if _, err := inv.Find("things.down.example.com"); !errors.As(err, &missing) || len(missing.Failures) != 1 {
			t.Errorf("Find: %v, want the failure named", err)
		}
	})
	t.Run("one custom resource is read without the others, and found to be the same", func(t *testing.T) {
		proxy := testbed.NewProxy(t, cluster)
		watched, err := apiserver.NewClient(proxy.Config())
		if err != nil {
			t.Fatal(err)
		}
		same := func(name string) {
			t.Helper()
			all := take(t, client, func(*inventory.Inventory) bool { return true })
			one, err := inventory.TakeOne(t.Context(), watched, schema.ParseGroupResource(name))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(find(t, all, name), find(t, one, name)); diff != "" {
				t.Errorf("%s (-among all +alone):\n%s", name, diff)
			}
		}
		names := []string{"widgets", "gadgets", "relics", "widgetsets"}
		for _, name := range names {
			same(name + ".demo.example.com")
		}
		// Another API server takes a version of the group over.
		create(t, client, "/apis/apiregistration.k8s.io/v1/apiservices",
			`{"metadata":{"name":"v3.demo.example.com"},"spec":{
			"group":"demo.example.com","version":"v3","groupPriorityMinimum":1000,"versionPriority":200,"insecureSkipTLSVerify":true,
			"service":{"namespace":"elsewhere","name":"down"}}}`)
		take(t, client, func(inv *inventory.Inventory) bool { return len(inv.Failures) == 2 })
		same("widgets.demo.example.com")
		one, err := inventory.TakeOne(t.Context(), watched, schema.ParseGroupResource("widgets.demo.example.com"))
		if err != nil {
			t.Fatal(err)
		}
		if len(one.Failures) != 1 || one.Failures[0].Service != "elsewhere/down" || one.OriginsKnown() != nil {
			t.Errorf("failures %+v, want the version of the other API server", one.Failures)
		}
		for _, r := range proxy.Records() {
			of := strings.HasPrefix(r.Path, "/apis/demo.example.com") ||
				strings.HasPrefix(r.Path, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/") ||
				strings.HasPrefix(r.Path, "/apis/apiregistration.k8s.io/v1/apiservices/v")
			if r.Method != http.MethodGet || !of {
				t.Errorf("%s %s was sent, which has nothing to do with the resource", r.Method, r.Path)
			}
		}
		same("events")
		same("events.events.k8s.io")
		missing, err := inventory.TakeOne(t.Context(), client, schema.ParseGroupResource("wodgets.demo.example.com"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := missing.Find("wodgets.demo.example.com"); err == nil ||
			!strings.Contains(err.Error(), "no resource") {
			t.Errorf("error %v, want that there is no such resource", err)
		}
	})
	t.Run("counting reads one object at most", func(t *testing.T) {
		n, err := inventory.Count(t.Context(), client, find(t, inv, "widgets"))
		if want := (inventory.Objects{Count: 3, Estimated: true}); err != nil || n != want {
			t.Errorf("Count = %+v, %v, want %+v", n, err, want)
		}
		n, err = inventory.Count(t.Context(), client, find(t, inv, "gadgets"))
		if want := (inventory.Objects{}); err != nil || n != want {
			t.Errorf("Count = %+v, %v, want %+v", n, err, want)
		}
	})
}

// take looks until the cluster's controllers have caught up with what the test created.
func take(t *testing.T, client rest.Interface, caughtUp func(*inventory.Inventory) bool) *inventory.Inventory {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		inv, err := inventory.Take(ctx, client)
		if err != nil {
			t.Fatal(err)
		}
		if caughtUp(inv) {
			return inv
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the cluster did not catch up; failures %+v", inv.Failures)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func find(t *testing.T, inv *inventory.Inventory, name string) inventory.Resource {
	t.Helper()
	r, err := inv.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// create posts until the API server takes it: a CRD is not served at once.
func create(t *testing.T, client rest.Interface, path, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := client.Post().AbsPath(path).SetHeader("Content-Type",
			"application/json").Body([]byte(body)).Do(ctx).Error()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// CRD is a CustomResourceDefinition; in versions, %[1]s stands for the schema.
func crd(plural, kind, versions string) string {
	return fmt.Sprintf(`{"metadata":{"name":"%s.demo.example.com"},"spec":{"group":"demo.example.com","scope":"Namespaced",
		"names":{"plural":"%s","singular":"%s","kind":"%s"},"versions":[`, plural, plural, strings.TrimSuffix(plural, "s"), kind) +
		fmt.Sprintf(versions, `"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}`) + `]}}`
}

func hash(groupVersion, kind string) string {
	gv, _ := schema.ParseGroupVersion(groupVersion)
	return storageversion.Hash(gv.WithKind(kind))
}
