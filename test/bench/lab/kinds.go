// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// Kind is a kind of objects that can be stored in an old form: custom resources in an old version, built-in ones in
// JSON where the API server writes protobuf.
type Kind struct {
	// Name is what tables call it.
	Name string
	// Group, Version, Plural and Kind are those of the endpoint at which a migrator writes.
	Group, Version, Plural, Kind string
	// CRD is the name of the CustomResourceDefinition, "" for a built-in kind.
	CRD string
	// OldVersion is the version in which old objects are stored.
	OldVersion string
	// Status and Scale tell which subresources there are.
	Status, Scale bool
	// object is one whose payload has about the given size.
	object func(payload string) map[string]any
}

// FullName is what kubectl calls the resource: plural.group.
func (k Kind) FullName() string {
	if k.Group == "" {
		return k.Plural
	}
	return k.Plural + "." + k.Group
}

// APIVersion is group/version of the endpoint at which a migrator writes.
func (k Kind) APIVersion() string { return apiVersion(k.Group, k.Version) }

// Path is that of the collection in the namespace default.
func (k Kind) Path() string { return k.root(k.Version) + "/namespaces/default/" + k.Plural }

func (k Kind) oldPath() string { return k.root(k.OldVersion) + "/namespaces/default/" + k.Plural }

func (k Kind) root(version string) string {
	if k.Group == "" {
		return "/api/" + version
	}
	return "/apis/" + k.Group + "/" + version
}

// folder is where etcd holds the objects of the namespace default.
func (k Kind) folder() string {
	if k.CRD != "" {
		return "/registry/" + k.Group + "/" + k.Plural + "/default/"
	}
	return "/registry/" + k.Plural + "/default/"
}

// stored tells whether a value of etcd is stored in the current form.
func (k Kind) stored(value []byte) bool {
	if k.CRD != "" {
		return bytes.Contains(value, []byte(`"`+k.APIVersion()+`"`))
	}
	return bytes.HasPrefix(value, []byte("k8s\x00"))
}

func apiVersion(group, version string) string {
	if group == "" {
		return version
	}
	return group + "/" + version
}

// Widgets are custom resources whose storage version has moved from v1 to v2.
func Widgets() Kind {
	return Kind{
		Name: "custom resource", Group: testbed.WidgetGroup, Version: "v2", OldVersion: "v1", Plural: "widgets",
		Kind: "Widget", CRD: testbed.WidgetCRD,
		object: func(payload string) map[string]any {
			return map[string]any{"spec": map[string]any{"color": "red", "size": 7, "payload": payload}}
		},
	}
}

// ScalableWidgets are Widgets with the subresources status and scale.
func ScalableWidgets() Kind {
	k := Widgets()
	k.Status, k.Scale = true, true
	return k
}

// ConfigMaps are stored in JSON.
func ConfigMaps() Kind {
	return Kind{
		Name: "ConfigMap", Version: "v1", OldVersion: "v1", Plural: "configmaps", Kind: "ConfigMap",
		object: func(payload string) map[string]any {
			return map[string]any{"data": map[string]any{"payload": payload}}
		},
	}
}

// Deployments are stored in JSON, as are the other kinds of workloads. No controller acts on them.
func Deployments() Kind {
	return workload("Deployment", "deployments", func(spec map[string]any) {
		spec["strategy"] = map[string]any{"type": "RollingUpdate"}
	})
}

// ReplicaSets are like Deployments.
func ReplicaSets() Kind { return workload("ReplicaSet", "replicasets", func(map[string]any) {}) }

// StatefulSets are like Deployments.
func StatefulSets() Kind {
	return workload("StatefulSet", "statefulsets", func(spec map[string]any) { spec["serviceName"] = "app" })
}

func workload(kind, plural string, more func(spec map[string]any)) Kind {
	labels := map[string]any{"app": "demo"}
	return Kind{
		Name: kind, Group: "apps", Version: "v1", OldVersion: "v1", Plural: plural, Kind: kind,
		Status: true, Scale: true,
		object: func(payload string) map[string]any {
			spec := map[string]any{
				"replicas": 3, "selector": map[string]any{"matchLabels": labels},
				"template": map[string]any{
					"metadata": map[string]any{"labels": labels},
					"spec": map[string]any{"containers": []any{map[string]any{
						"name": "app", "image": "registry.example.com/app:v1",
						"env":   []any{map[string]any{"name": "PAYLOAD", "value": payload}},
						"ports": []any{map[string]any{"name": "http", "containerPort": 8080}},
						"resources": map[string]any{
							"requests": map[string]any{"cpu": "100m", "memory": "128Mi"},
							"limits":   map[string]any{"memory": "256Mi"},
						},
						"readinessProbe": map[string]any{"httpGet": map[string]any{"path": "/ready", "port": "http"}},
					}}},
				},
			}
			more(spec)
			return map[string]any{"spec": spec}
		},
	}
}

// Prepare makes the resource of a kind exist. For custom resources that is once per cluster.
func (l *Lab) Prepare(ctx context.Context, k Kind) error {
	if k.CRD == "" {
		return nil
	}
	if err := l.Cluster.InstallWidgets(ctx, testbed.Widgets{}); err != nil {
		return err
	}
	if k.Status || k.Scale {
		status := map[string]any{"type": "object", "properties": map[string]any{
			"replicas": map[string]any{"type": "integer"}}}
		_, err := l.Cluster.EditCRD(ctx, k.CRD, func(crd map[string]any) {
			for _, version := range crd["spec"].(map[string]any)["versions"].([]any) {
				version := version.(map[string]any)
				version["subresources"] = map[string]any{"status": map[string]any{}, "scale": map[string]any{
					"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas"}}
				schema := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
				schema["properties"].(map[string]any)["status"] = status
			}
		})
		if err != nil {
			return err
		}
	}
	return l.Cluster.MoveStorage(ctx, k.CRD, k.Version)
}

// payload is text that does not repeat itself, so that no encoding gains from it.
func payload(size int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	var text strings.Builder
	for state := uint64(1); text.Len() < size; {
		state = state*6364136223846793005 + 1442695040888963407
		text.WriteByte(letters[state>>58])
	}
	return text.String()
}
