// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// builtIn is a type of Kubernetes whose storage version a flag of the API server decides.
type builtIn struct {
	argument, path, prefix string
	apiVersion, kind       string // to create it with
	old, current           string // as etcd has them
	fields                 map[string]any
}

func TestMutatingAdmissionPoliciesMoveFromV1beta1ToV1(t *testing.T) {
	t.Parallel()
	testBuiltIn(t, testbed.V137, "--min-compatibility-version=1.34", builtIn{
		argument: "mutatingadmissionpolicies", prefix: "/registry/mutatingadmissionpolicies/",
		path:       "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
		apiVersion: "admissionregistration.k8s.io/v1", kind: "MutatingAdmissionPolicy",
		old: "admissionregistration.k8s.io/v1beta1", current: "admissionregistration.k8s.io/v1",
		fields: map[string]any{"spec": map[string]any{
			"failurePolicy": "Fail", "reinvocationPolicy": "IfNeeded",
			"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
				"apiGroups": []string{"unused.example.com"}, "apiVersions": []string{"v1"},
				"operations": []string{"CREATE"}, "resources": []string{"things"},
			}}},
			"mutations": []any{map[string]any{
				"patchType": "ApplyConfiguration",
				"applyConfiguration": map[string]any{
					"expression": `Object{metadata: Object.metadata{labels: {"seen": "yes"}}}`,
				},
			}},
		}},
	})
}

func TestDeviceAndVolumeAttributesClassesMoveToV1(t *testing.T) {
	t.Parallel()
	testBuiltIn(t, testbed.V136, "--min-compatibility-version=1.33",
		builtIn{
			argument: "deviceclasses", path: "/apis/resource.k8s.io/v1/deviceclasses",
			prefix:     "/registry/deviceclasses/",
			apiVersion: "resource.k8s.io/v1", kind: "DeviceClass", old: "resource.k8s.io/v1beta2",
			current: "resource.k8s.io/v1",
			fields: map[string]any{"spec": map[string]any{"selectors": []any{
				map[string]any{"cel": map[string]any{"expression": `device.driver == "gpu.example.com"`}},
			}}},
		},
		builtIn{
			argument: "volumeattributesclasses", path: "/apis/storage.k8s.io/v1/volumeattributesclasses",
			prefix:     "/registry/volumeattributesclasses/",
			apiVersion: "storage.k8s.io/v1", kind: "VolumeAttributesClass", old: "storage.k8s.io/v1beta1",
			current: "storage.k8s.io/v1",
			fields:  map[string]any{"driverName": "disk.example.com", "parameters": map[string]string{"iops": "4000"}},
		})
}

// testBuiltIn creates objects under an API server that a flag holds back, takes the flag away, which is an upgrade, and
// migrates.
func testBuiltIn(t *testing.T, release testbed.Release, heldBack string, types ...builtIn) {
	const n = 30
	cluster := testbed.New(t, testbed.Options{Release: release,
		Servers: []testbed.ServerOptions{{Flags: []string{heldBack}}}})
	for _, b := range types {
		create(t, cluster, b.path, b.apiVersion, b.kind, "old", n, b.fields)
		wantStored(t, cluster, b.prefix, map[string]int{b.old: n})
	}
	if err := cluster.Servers[0].RestartWith(t.Context(), testbed.ServerOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, b := range types {
		// One that is current already, as after any time of use.
		create(t, cluster, b.path, b.apiVersion, b.kind, "new", 1, b.fields)
		wantStored(t, cluster, b.prefix, map[string]int{b.old: n, b.current: 1})
		before := snapshot(t, cluster, b.prefix)

		got := newCLI(t, cluster).migrate(0, b.argument)

		wantStored(t, cluster, b.prefix, map[string]int{b.current: n + 1})
		wantPreserved(t, cluster, b.prefix, before)
		wantCounts(t, migrate.Counts{Rewritten: n, Current: 1}, got)
		if got.Outcome != render.Proven || got.Result.Epoch.Evidence != migrate.Observed || got.StorageVersion != "v1" {
			t.Errorf("%s: outcome %s in %s with evidence %v, want Proven in v1 with Observed",
				b.argument, got.Outcome, got.StorageVersion, got.Result.Epoch.Evidence)
		}
	}
}
