// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Value is what one raw value of etcd says of an object.
type Value struct {
	Object
	// Version is the apiVersion that it is stored in, in the words of Cluster.StoredVersions.
	Version string
	// Annotations are metadata.annotations; nil for an opaque value.
	Annotations map[string]string
}

// ReadValue decodes a raw value of etcd.
func ReadValue(raw []byte) (Value, error) {
	object, err := readObject(raw)
	v := Value{Object: object, Version: storedVersion(raw)}
	if err != nil || object.Opaque {
		return v, err
	}
	var partial metav1.PartialObjectMetadata
	if bytes.HasPrefix(raw, protobufMagic) {
		var envelope runtime.Unknown
		if err := envelope.Unmarshal(raw[len(protobufMagic):]); err != nil {
			return v, err
		}
		err = partial.Unmarshal(envelope.Raw)
	} else {
		err = json.Unmarshal(raw, &partial)
	}
	v.Annotations = partial.Annotations
	return v, err
}

// Differences names what is not the same about an object that has been stored again: "uid", "generation",
// "managedFields", "content". None of it may come of a sweep (I3). Opaque values are not compared.
func (o Object) Differences(now Object) []string { return o.changes(now) }
