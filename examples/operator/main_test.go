// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// account is the ServiceAccount of rbac.yaml.
const account = "system:serviceaccount:widgets-system:widgets-operator"

func TestTheOperatorMigratesItsResourceOnceWithThePermissionsOfItsRBAC(t *testing.T) {
	cluster := testbed.New(t, testbed.Options{Users: []testbed.User{{Name: account}}})
	for _, step := range []func() error{
		func() error { return cluster.InstallWidgets(t.Context(), testbed.Widgets{}) },
		func() error { return cluster.BulkCreate(t.Context(), testbed.Bulk{Count: 100}) },
		func() error { return cluster.MoveStorage(t.Context(), testbed.WidgetCRD, "v2") },
		func() error { return grant(t.Context(), cluster) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	config := cluster.ConfigAs(account)
	var requests atomic.Int64
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return counting{next, &requests}
	})
	m := migration(config, slog.New(slog.NewTextHandler(t.Output(), nil)))
	m.Servers.ShutdownDelay = time.Nanosecond // no API server has left this cluster
	m.Options.SettleTime, m.Options.MaxObjectsPerSecond = time.Second, 0
	if err := m.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	inEtcd, err := cluster.StoredVersions(t.Context(), testbed.WidgetsPrefix)
	if want := map[string]int{testbed.WidgetGroup + "/v2": 100}; err != nil || !maps.Equal(want, inEtcd) {
		t.Errorf("versions in etcd: %v (%v), want %v", inEtcd, err, want)
	}
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	crd, err := client.Resource(resources["CustomResourceDefinition"]).Get(t.Context(), testbed.WidgetCRD,
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claimed, _, err := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
	if err != nil || !slices.Equal(claimed, []string{"v2"}) {
		t.Errorf("status.storedVersions is %v (%v), want [v2]", claimed, err)
	}

	requests.Store(0)
	if err := m.Start(t.Context()); err != nil || requests.Load() != 1 {
		t.Errorf("the next start sent %d requests (%v), want it to read the CRD and find nothing to do", requests.Load(), err)
	}
}

type counting struct {
	next     http.RoundTripper
	requests *atomic.Int64
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	return c.next.RoundTrip(r)
}

// resources has the resources of the objects in rbac.yaml, and those that the account is granted, by kind.
var resources = map[string]schema.GroupVersionResource{
	"ServiceAccount":     {Version: "v1", Resource: "serviceaccounts"},
	"ConfigMap":          {Version: "v1", Resource: "configmaps"},
	"Namespace":          {Version: "v1", Resource: "namespaces"},
	"Lease":              {Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
	"EndpointSlice":      {Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
	"ClusterRole":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	"Role":               {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"RoleBinding":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	"CustomResourceDefinition": {Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"},
}

// grant creates the objects of rbac.yaml, and waits until the API server knows each binding.
func grant(ctx context.Context, cluster *testbed.Cluster) error {
	raw, err := os.ReadFile("rbac.yaml")
	if err != nil {
		return err
	}
	admin, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		return err
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": "widgets-system"}}}
	objects := []*unstructured.Unstructured{namespace}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096); ; {
		object := new(unstructured.Unstructured)
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		objects = append(objects, object)
	}
	for _, object := range objects {
		var created dynamic.ResourceInterface = admin.Resource(resources[object.GetKind()])
		if object.GetNamespace() != "" {
			created = admin.Resource(resources[object.GetKind()]).Namespace(object.GetNamespace())
		}
		if _, err := created.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return known(ctx, cluster.ConfigAs(account))
}

// known waits until the API server allows what each of the bindings grants.
func known(ctx context.Context, config *rest.Config) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, read := range []func() error{
		func() error { return list(ctx, client.Resource(resources["Lease"]).Namespace("kube-system")) },
		func() error { return list(ctx, client.Resource(resources["EndpointSlice"]).Namespace("default")) },
		func() error {
			return get(ctx, client.Resource(resources["CustomResourceDefinition"]), testbed.WidgetCRD)
		},
		func() error {
			return get(ctx, client.Resource(resources["ConfigMap"]).Namespace("widgets-system"),
				testbed.WidgetCRD+"-migration")
		},
	} {
		for err := read(); err != nil && !apierrors.IsNotFound(err); err = read() {
			if !apierrors.IsForbidden(err) || ctx.Err() != nil {
				return err
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return nil
}

func list(ctx context.Context, objects dynamic.ResourceInterface) error {
	_, err := objects.List(ctx, metav1.ListOptions{Limit: 1})
	return err
}

func get(ctx context.Context, objects dynamic.ResourceInterface, name string) error {
	_, err := objects.Get(ctx, name, metav1.GetOptions{})
	return err
}
