// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// Bulk describes many custom objects. The zero value of everything but Count describes widgets.
type Bulk struct {
	// Group, Version, Kind and Plural are those of the objects; they are stored in Version. Default: v1 of the
	// widgets.
	Group, Version, Kind, Plural string
	// Namespace is theirs; it need not exist. Default: "default". ClusterScoped objects have none.
	Namespace     string
	ClusterScoped bool
	// Prefix begins their names, which go on with seven digits. Default: the kind in lower case and a hyphen.
	Prefix string
	// First is the number of the first object, Count how many there are.
	First, Count int
	// Bytes is the size of one value in etcd; one that is too small for the rest leaves the payload empty. Default:
	// 1024.
	Bytes int
	// Labels are on every object.
	Labels map[string]string
	// Spec holds fields of spec besides color, size and payload.
	Spec map[string]any
}

// payloadText contains all payloads. It is text that does not compress, and the same in every run.
var payloadText = sync.OnceValue(func() []byte {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	source := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 1<<20)
	for i := range text {
		text[i] = letters[source.IntN(len(letters))]
	}
	return text
})

// Key returns the etcd key of object number i.
func (b Bulk) Key(i int) string {
	b.defaults()
	return b.folder() + b.name(i)
}

func (b *Bulk) name(i int) string { return fmt.Sprintf("%s%07d", b.Prefix, i) }

func (b *Bulk) folder() string {
	folder := "/registry/" + b.Group + "/" + b.Plural + "/"
	if !b.ClusterScoped {
		folder += b.Namespace + "/"
	}
	return folder
}

func (b *Bulk) defaults() {
	if b.Group == "" {
		b.Group, b.Kind, b.Plural = WidgetGroup, "Widget", "widgets"
	}
	if b.Version == "" {
		b.Version = "v1"
	}
	if b.Namespace == "" {
		b.Namespace = "default"
	}
	if b.Prefix == "" {
		b.Prefix = string(bytes.ToLower([]byte(b.Kind))) + "-"
	}
	if b.Bytes == 0 {
		b.Bytes = 1024
	}
}

// BulkCreate writes objects into etcd as an API server would have, but past it and so many times faster. Unlike there,
// objects of one transaction have the same resourceVersion.
func (c *Cluster) BulkCreate(ctx context.Context, b Bulk) error {
	b.defaults()
	err := c.PutRaws(ctx, b.Count, b.Bytes, func(i int) (string, []byte, error) {
		value, err := b.value(b.First + i)
		return b.Key(b.First + i), value, err
	})
	if err != nil {
		return fmt.Errorf("create %d %s: %w", b.Count, b.Plural, err)
	}
	// The objects of one transaction share a revision. A watch cache that has seen the first of them takes itself to be
	// as new as the last transaction; one more revision makes it wait for all.
	return c.PutRaw(ctx, "/testbed/bulk", []byte(b.folder()))
}

// value is object number i as kube-apiserver stores custom objects: JSON with a line end.
func (b *Bulk) value(i int) ([]byte, error) {
	created := time.Now().UTC().Format(time.RFC3339)
	spec := map[string]any{"color": []string{"red", "green", "blue"}[i%3], "size": i % 100, "payload": ""}
	maps.Copy(spec, b.Spec)
	owned := map[string]any{".": map[string]any{}}
	for name := range spec {
		owned["f:"+name] = map[string]any{}
	}
	fields := map[string]any{"f:spec": owned}
	if len(b.Labels) > 0 {
		labels := map[string]any{".": map[string]any{}}
		for name := range b.Labels {
			labels["f:"+name] = map[string]any{}
		}
		fields["f:metadata"] = map[string]any{"f:labels": labels}
	}
	metadata := map[string]any{
		"name": b.name(i), "uid": uuid.NewUUID(), "creationTimestamp": created, "generation": 1,
		"managedFields": []any{map[string]any{
			"manager": "testbed", "operation": "Update", "apiVersion": b.Group + "/" + b.Version, "time": created,
			"fieldsType": "FieldsV1", "fieldsV1": fields,
		}},
	}
	if len(b.Labels) > 0 {
		metadata["labels"] = b.Labels
	}
	if !b.ClusterScoped {
		metadata["namespace"] = b.Namespace
	}
	value, err := json.Marshal(map[string]any{
		"apiVersion": b.Group + "/" + b.Version, "kind": b.Kind, "metadata": metadata, "spec": spec,
	})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", b.name(i), err)
	}
	value = append(value, '\n')
	const empty = `"payload":"`
	at := bytes.Index(value, []byte(empty+`"`)) + len(empty)
	return append(value[:at:at], append(b.payload(i, b.Bytes-len(value)), value[at:]...)...), nil
}

func (b *Bulk) payload(i, n int) []byte {
	text := payloadText()
	payload := make([]byte, 0, max(0, n)+64)
	for from := i * 997 % len(text); len(payload) < n; from = 0 {
		payload = append(payload, text[from:min(len(text), from+n-len(payload))]...)
	}
	return payload
}
