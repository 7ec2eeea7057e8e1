// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestLocate(t *testing.T) {
	const hidden = "(hidden)"
	object := func(group, resource, namespace, name string) location {
		return location{resource: schema.GroupResource{Group: group, Resource: resource}, namespace: namespace,
			name: name, isObject: true}
	}
	for name, test := range map[string]struct {
		key, group string
		want       location
	}{
		"a custom resource": {"demo.example.com/widgets/default/a", "demo.example.com",
			object("demo.example.com", "widgets", "default", "a")},
		"a custom resource without a namespace": {"demo.example.com/widgets/a", "demo.example.com",
			object("demo.example.com", "widgets", "", "a")},
		"a custom resource that is encrypted": {"demo.example.com/widgets/default/a", hidden,
			object("demo.example.com", "widgets", "default", "a")},
		"a custom resource of a k8s.io group": {"gateway.networking.k8s.io/gateways/default/a",
			"gateway.networking.k8s.io", object("gateway.networking.k8s.io", "gateways", "default", "a")},
		"a built-in resource with its group": {"apiregistration.k8s.io/apiservices/v1.",
			"apiregistration.k8s.io", object("apiregistration.k8s.io", "apiservices", "", "v1.")},
		"an aggregated server's own prefix": {"wardle.example.com/wardle.example.com/flunders/default/a",
			"wardle.example.com", object("wardle.example.com", "flunders", "default", "a")},
		"an aggregated server's prefix, hidden": {"wardle.example.com/wardle.example.com/flunders/default/a",
			hidden, object("wardle.example.com", "flunders", "default", "a")},
		"another prefix of an aggregated server": {"store.example.com/wardle.example.com/flunders/default/a",
			"wardle.example.com", object("wardle.example.com", "flunders", "default", "a")},
		"a built-in resource": {"pods/default/a", "", object("", "pods", "default", "a")},
		"a built-in resource of a group": {"deployments/default/a", "apps",
			object("apps", "deployments", "default", "a")},
		"a built-in resource of a group, encrypted": {"deployments/default/a", hidden,
			object("apps", "deployments", "default", "a")},
		"a built-in resource in a group it left": {"ingress/default/a", "extensions",
			object("networking.k8s.io", "ingresses", "default", "a")},
		"a built-in resource we do not know": {"frobs/default/a", "new.k8s.io",
			object("new.k8s.io", "frobs", "default", "a")},
		"a node": {"minions/a", "", object("", "nodes", "", "a")},
		"a service": {"services/specs/default/a", "",
			object("", "services", "default", "a")},
		"endpoints": {"services/endpoints/default/a", "",
			object("", "endpoints", "default", "a")},
		"a replication controller": {"controllers/default/a", "",
			object("", "replicationcontrollers", "default", "a")},
		"a key with more segments": {"pods/default/a/b/c/d/e", "",
			object("", "pods", "default", "a/b/c/d/e")},
		"an allocation bitmap is not an object": {"ranges/serviceips", "",
			location{resource: schema.GroupResource{Resource: "ranges"}, name: "serviceips"}},
		"an API server's own lease is not an object": {"masterleases/192.0.2.1", "",
			location{resource: schema.GroupResource{Resource: "masterleases"}, name: "192.0.2.1"}},
		"a marker is not an object": {"health", hidden, location{name: "health"}},
		"a key without a name is not an object": {"pods/", "",
			location{resource: schema.GroupResource{Resource: "pods"}}},
		"a group and a resource alone": {"demo.example.com/widgets", "",
			location{resource: schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}}},
		"an empty key": {"", hidden, location{}},
	} {
		t.Run(name, func(t *testing.T) {
			group, decoded := test.group, test.group != hidden
			if !decoded {
				group = ""
			}
			if diff := cmp.Diff(test.want, locate(test.key, group, decoded),
				cmp.AllowUnexported(location{})); diff != "" {
				t.Errorf("location (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzLocateTakesAnyKey(f *testing.F) {
	f.Add("a.b/a.b/c/d", "a.b", true)
	f.Add("services/specs/a/b", "", true)
	f.Fuzz(func(t *testing.T, key, group string, decoded bool) {
		if at := locate(key, group, decoded); at.isObject && at.name == "" && at.namespace == "" {
			t.Fatalf("%q is an object without a name", key)
		}
	})
}
