// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Snapshot contains the values in etcd below a prefix at one moment, by key.
type Snapshot map[string]Object

// Object contains what a migration must not change about an object (I3).
type Object struct {
	UID        types.UID
	Generation int64
	// ManagedFields is the digest of metadata.managedFields.
	ManagedFields [8]byte
	// Content is the digest of everything else, except apiVersion and metadata.resourceVersion. It compares encodings:
	// the same content as JSON and as protobuf, or in versions with other fields, has other digests.
	Content [8]byte
	// Opaque means that the value could not be decoded, for example because it is encrypted. Only its existence is
	// compared.
	Opaque bool
}

// Snapshot reads the objects below a prefix.
func (c *Cluster) Snapshot(ctx context.Context, prefix string) (Snapshot, error) {
	s := Snapshot{}
	var failed error
	err := c.EachRaw(ctx, prefix, func(key string, value []byte, _ int64) {
		object, err := readObject(value)
		if err != nil && failed == nil {
			failed = fmt.Errorf("decode %s: %w", key, err)
		}
		s[key] = object
	})
	if err == nil {
		err = failed
	}
	return s, err
}

// Changes are the differences between two snapshots. The zero value means that there are none.
type Changes struct {
	// Created and Deleted are keys, in order.
	Created, Deleted []string
	// Changed maps a key to the parts that differ: "uid", "generation", "managedFields", "content".
	Changed map[string][]string
}

// None reports whether nothing changed.
func (d Changes) None() bool { return len(d.Created)+len(d.Deleted)+len(d.Changed) == 0 }

// Diff returns the changes of the objects since the snapshot.
func (s Snapshot) Diff(after Snapshot) Changes {
	var d Changes
	for key, now := range after {
		before, ok := s[key]
		if !ok {
			d.Created = append(d.Created, key)
		} else if changed := before.changes(now); len(changed) > 0 {
			if d.Changed == nil {
				d.Changed = map[string][]string{}
			}
			d.Changed[key] = changed
		}
	}
	for key := range s {
		if _, ok := after[key]; !ok {
			d.Deleted = append(d.Deleted, key)
		}
	}
	slices.Sort(d.Created)
	slices.Sort(d.Deleted)
	return d
}

func (o Object) changes(now Object) []string {
	if o.Opaque || now.Opaque {
		return nil
	}
	var changed []string
	for _, field := range []struct {
		name string
		same bool
	}{
		{"uid", o.UID == now.UID},
		{"generation", o.Generation == now.Generation},
		{"managedFields", o.ManagedFields == now.ManagedFields},
		{"content", o.Content == now.Content},
	} {
		if !field.same {
			changed = append(changed, field.name)
		}
	}
	return changed
}

func readObject(value []byte) (Object, error) {
	switch stored := storedVersion(value); {
	case strings.HasPrefix(stored, "enc:"), stored == unknownVersion, bytes.HasPrefix(value, cborMagic):
		return Object{Opaque: true}, nil
	case bytes.HasPrefix(value, protobufMagic):
		return readProtobuf(value[len(protobufMagic):])
	default:
		return readJSON(value)
	}
}

// readJSON compares fields as they are written: one encoder writes all objects of a type, and sorts what has no order.
func readJSON(value []byte) (o Object, err error) {
	var fields, metadata map[string]json.RawMessage
	if err := json.Unmarshal(value, &fields); err != nil {
		return o, err
	}
	if err := json.Unmarshal(fields["metadata"], &metadata); err != nil {
		return o, err
	}
	o.UID = types.UID(bytes.Trim(metadata["uid"], `"`))
	if raw, ok := metadata["generation"]; ok {
		if err := json.Unmarshal(raw, &o.Generation); err != nil {
			return o, err
		}
	}
	o.ManagedFields = digest(metadata["managedFields"])
	for _, name := range []string{"uid", "generation", "managedFields", "resourceVersion"} {
		delete(metadata, name)
	}
	delete(fields, "apiVersion")
	delete(fields, "metadata")
	o.Content = digest(inOrder(metadata), inOrder(fields))
	return o, nil
}

func inOrder(fields map[string]json.RawMessage) []byte {
	var all []byte
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		all = append(append(append(all, name...), ':'), fields[name]...)
	}
	return all
}

// readProtobuf relies on every type of Kubernetes having its metadata as field 1, as PartialObjectMetadata has.
func readProtobuf(value []byte) (Object, error) {
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(value); err != nil {
		return Object{}, err
	}
	var object metav1.PartialObjectMetadata
	if err := object.Unmarshal(envelope.Raw); err != nil {
		return Object{}, err
	}
	meta := object.ObjectMeta
	o := Object{UID: meta.UID, Generation: meta.Generation}
	managed := metav1.ObjectMeta{ManagedFields: meta.ManagedFields}
	meta.ManagedFields, meta.ResourceVersion, meta.Generation, meta.UID = nil, "", 0, ""
	managedFields, err := managed.Marshal()
	if err != nil {
		return o, err
	}
	other, err := meta.Marshal()
	if err != nil {
		return o, err
	}
	o.ManagedFields = digest(managedFields)
	o.Content = digest(other, withoutMetadata(envelope.Raw))
	return o, nil
}

// withoutMetadata returns a message without its field 1.
func withoutMetadata(message []byte) []byte {
	var other []byte
	for len(message) > 0 {
		number, _, length := protowire.ConsumeField(message)
		if length < 0 {
			return append(other, message...)
		}
		if number != 1 {
			other = append(other, message[:length]...)
		}
		message = message[length:]
	}
	return other
}

func digest(parts ...[]byte) (short [8]byte) {
	hash := sha256.New()
	for _, part := range parts {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		hash.Write(length[:])
		hash.Write(part)
	}
	copy(short[:], hash.Sum(nil))
	return short
}
