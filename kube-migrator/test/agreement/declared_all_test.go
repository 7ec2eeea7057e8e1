// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package agreement_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/compare"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// storageVersionAPI are the flags with which a kube-apiserver publishes what it stores.
var storageVersionAPI = []string{"--feature-gates=StorageVersionAPI=true",
	"--runtime-config=internal.apiserver.k8s.io/v1alpha1=true"}

func TestRealServersThatPublishStorageVersions(t *testing.T) {
	t.Parallel()
	old := append(slices.Clone(storageVersionAPI), "--min-compatibility-version=1.33")
	cluster := testbed.New(t, testbed.Options{
		Release: testbed.V136, Isolated: true,
		Servers: []testbed.ServerOptions{{Flags: storageVersionAPI}, {Flags: old}},
	})
	if err := cluster.InstallWidgets(t.Context(), testbed.Widgets{}); err != nil {
		t.Fatal(err)
	}
	o, second := newObserver(t, cluster), cluster.Servers[1]
	r := o.For(deviceClasses)
	restart := func(flags ...string) {
		t.Helper()
		if err := second.RestartWith(t.Context(), testbed.ServerOptions{Flags: flags}); err != nil {
			t.Fatal(err)
		}
	}
	with := func(evidence migrate.Evidence) func(migrate.Epoch, error) bool {
		return func(e migrate.Epoch, err error) bool {
			return err == nil && len(e.Servers) == 2 && e.Evidence == evidence
		}
	}

	t.Run("disagree, and each entry is seen", func(t *testing.T) {
		pods := o.For(migrate.Target{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
			Kind: "Pod", Origin: migrate.BuiltIn})
		until(t, pods, "both publish", with(migrate.Declared))
		record(t, o, "two-servers-that-publish")
		v := verdictOf(t, roundOf(t, o), "resource.k8s.io", "deviceclasses")
		if v.Epoch != nil || !v.Disagree || len(v.Hashes) != 2 || len(v.Servers) != 2 || !v.Servers[0].Declared ||
			!v.Servers[1].Declared {
			t.Errorf("the verdict is %+v", v)
		}
		t.Log(v.Why)
	})
	var declared migrate.Epoch
	t.Run("agree once both publish one version", func(t *testing.T) {
		restart(storageVersionAPI...)
		declared = until(t, r, "Declared", with(migrate.Declared))
		v := verdictOf(t, roundOf(t, o), "resource.k8s.io", "deviceclasses")
		if v.Epoch == nil || !v.Epoch.Same(declared) || v.Why != "" {
			t.Errorf("the verdict is %+v with epoch %+v, want %+v", v, v.Epoch, declared)
		}
	})
	t.Run("cover no custom resources", func(t *testing.T) {
		round := roundOf(t, o)
		if v := verdictOf(t, round, "demo.example.com", "widgets"); v.Evidence != migrate.Observed {
			t.Errorf("the verdict is %+v", v)
		}
		if v := verdictOf(t, round, "", "pods"); v.Evidence != migrate.Declared {
			t.Errorf("pods are %v: %s", v.Evidence, v.Why)
		}
	})
	t.Run("end the epoch when an entry changes", func(t *testing.T) {
		path := "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions" + "/resource.k8s.io.deviceclasses"
		status, answer, err := cluster.Servers[0].Do(t.Context(), "PATCH", path,
			[]byte(`{"metadata": {"annotations": {"touched": "yes"}}}`))
		if err != nil || status != 200 {
			t.Fatalf("change the StorageVersion: %d %s %v", status, answer, err)
		}
		e, _ := look(t, r)
		if e.Evidence != migrate.Declared || e.Same(declared) || !slices.Equal(e.Servers, declared.Servers) {
			t.Errorf("the epoch is %+v, it was %+v", e, declared)
		}
	})
	t.Run("of which one leaves its entries behind and publishes no more", func(t *testing.T) {
		restart() // nothing collects the entries here
		until(t, r, "Observed", with(migrate.Observed))
		v := verdictOf(t, roundOf(t, o), "resource.k8s.io", "deviceclasses")
		if v.Evidence != migrate.Observed || v.Epoch.Declared != "" ||
			!strings.Contains(v.Why, "api-1 (192.0.2.11:6443) does not publish StorageVersions") {
			t.Errorf("the verdict is %+v", v)
		}
		if diff := compare.Diff(2, len(v.Servers)); diff != "" {
			t.Errorf("servers (-want +got):\n%s", diff)
		}
	})
	t.Run("tell what is written where discovery does not", func(t *testing.T) {
		silent := []string{"--feature-gates=StorageVersionAPI=true,StorageVersionHash=false", storageVersionAPI[1]}
		restart(silent...) // one shows a hash, the other does not
		until(t, r, "Declared", with(migrate.Declared))
		if err := cluster.Servers[0].RestartWith(t.Context(), testbed.ServerOptions{Flags: silent}); err != nil {
			t.Fatal(err)
		}
		e := until(t, r, "Declared", with(migrate.Declared))
		v := verdictOf(t, roundOf(t, o), "resource.k8s.io", "deviceclasses")
		if e.Hash != hashOf(deviceClasses, "v1") || v.Epoch == nil || !v.Epoch.Same(e) || v.Servers[0].Hash != e.Hash ||
			v.Servers[1].Hash != e.Hash {
			t.Errorf("the epoch is %+v, the view %+v", e, v)
		}
	})
	t.Run("tell which versions servers can decode", func(t *testing.T) {
		round := roundOf(t, o)
		for resource, want := range map[schema.GroupResource]bool{
			{Resource: "pods"}: true, {Group: "resource.k8s.io", Resource: "deviceclasses"}: false,
			{Group: "demo.example.com", Resource: "widgets"}: false,
		} {
			if v := verdictOf(t, round, resource.Group, resource.Resource); v.OnlyDecodable != want {
				t.Errorf("only one version of %s can be decoded: %t, want %t", resource, v.OnlyDecodable, want)
			}
		}
	})
}
