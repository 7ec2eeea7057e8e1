// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package content tells whether a write to etcd cost an object fields that no client has removed (I3). Lost is the rule,
// a pure function of two raw values. Watch applies it to every write to an etcd.
//
// An API server drops the fields that a schema lacks whenever it reads an object: those of the version that is stored,
// and of the version in which a client writes. A request that changes nothing stores the object again without them.
//
// It compares JSON and the protobuf of the types that client-go knows. It does not compare values that are encrypted,
// encoded as CBOR, or of other types.
package content

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// managedFields is the path that is reported where an object has lost all of its managedFields.
const managedFields = "metadata.managedFields"

var (
	protobufMagic = []byte("k8s\x00")
	// jsonStart is how an API server's JSON begins. The version follows.
	jsonStart = []byte(`{"apiVersion":"`)
)

// Lost returns the paths of the fields that an object had before a write and lacks after it, sorted, such as
// "spec.hosts[].port". It returns nothing where a client changed the object: then managedFields differ, or, where that
// client wrote in the same second before, the generation. apiVersions in managedFields do not count, because a
// conversion changes those. It returns nothing either for values that are not two of the same object, or that cannot be
// decoded.
func Lost(before, after []byte) []string {
	if bytes.Equal(withoutVersion(before), withoutVersion(after)) {
		return nil
	}
	was, ok := metadataOf(before)
	if !ok {
		return nil
	}
	is, ok := metadataOf(after)
	if !ok || was.UID == "" || was.UID != is.UID || was.Generation != is.Generation {
		return nil
	}
	owned, owns := owners(was), owners(is)
	if len(owns) > 0 && !slices.Equal(owned, owns) {
		return nil
	}
	old, ok := fieldsOf(before)
	if !ok {
		return nil
	}
	now, ok := fieldsOf(after)
	if !ok {
		return nil
	}
	paths := missing(nil, "", old, now)
	slices.Sort(paths)
	return slices.Compact(paths)
}

// withoutVersion cuts off the beginning of JSON, up to the end of the version: what follows is the same after a rewrite
// that changes nothing.
func withoutVersion(value []byte) []byte {
	rest, ok := bytes.CutPrefix(value, jsonStart)
	if !ok {
		return value
	}
	if _, fields, ok := bytes.Cut(rest, []byte(`"`)); ok {
		return fields
	}
	return value
}

// metadataOf relies on every type of Kubernetes having its metadata as field 1, as PartialObjectMetadata has.
func metadataOf(value []byte) (*metav1.ObjectMeta, bool) {
	var partial metav1.PartialObjectMetadata
	if raw, ok := bytes.CutPrefix(value, protobufMagic); ok {
		var envelope runtime.Unknown
		if envelope.Unmarshal(raw) != nil || partial.Unmarshal(envelope.Raw) != nil {
			return nil, false
		}
		return &partial.ObjectMeta, true
	}
	return &partial.ObjectMeta, json.Unmarshal(value, &partial) == nil
}

// owners returns managedFields in a form that can be compared, without apiVersions.
func owners(m *metav1.ObjectMeta) []string {
	var all []string
	for _, e := range m.ManagedFields {
		fields := ""
		if e.FieldsV1 != nil {
			fields = e.FieldsV1.GetRawString()
		}
		all = append(all, fmt.Sprint(e.Manager, e.Operation, e.Subresource, e.Time, fields))
	}
	slices.Sort(all)
	return all
}

// fieldsOf decodes a value.
func fieldsOf(value []byte) (fields map[string]any, ok bool) {
	if !bytes.HasPrefix(value, protobufMagic) {
		return fields, json.Unmarshal(value, &fields) == nil
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(value, nil, nil)
	if err != nil {
		return nil, false
	}
	fields, err = runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	return fields, err == nil
}

// missing adds the paths below a path that are in old and not in now. null is no field: an API server may drop it.
func missing(paths []string, path string, old, now any) []string {
	switch old := old.(type) {
	case map[string]any:
		now, ok := now.(map[string]any)
		if !ok {
			return append(paths, path)
		}
		for name, value := range old {
			below := join(path, name)
			if below == managedFields && now[name] != nil {
				continue // Lost has compared them
			}
			if value == nil {
				continue
			}
			if now[name] == nil {
				paths = append(paths, below)
				continue
			}
			paths = missing(paths, below, value, now[name])
		}
	case []any:
		now, ok := now.([]any)
		if !ok || len(now) < len(old) {
			paths = append(paths, path+"[]")
		}
		for i := range min(len(old), len(now)) {
			paths = missing(paths, path+"[]", old[i], now[i])
		}
	}
	return paths
}

// join appends the name of a field, or of a key such as that of an annotation.
func join(path, name string) string {
	switch {
	case strings.ContainsAny(name, "./"):
		return path + "[" + name + "]"
	case path == "":
		return name
	}
	return path + "." + name
}
