// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"encoding/json"
	"hash/fnv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// digest is what the sweep keeps of an object's metadata to detect changes (I6, I9). 0 means no metadata.
type digest uint64

// ownersOf digests who set which fields, and when. Every client's write changes it. Changes by admission do not,
// because the API server computes managedFields before admission runs.
func ownersOf(m *metav1.ObjectMeta) digest {
	if len(m.ManagedFields) == 0 {
		return 0
	}
	return digestOf(m.ManagedFields)
}

// labelsOf digests the metadata that clients and admission set.
func labelsOf(m *metav1.ObjectMeta) digest {
	return digestOf([]any{m.Labels, m.Annotations, m.Finalizers, m.OwnerReferences})
}

func digestOf(value any) digest {
	h := fnv.New64a()
	if err := json.NewEncoder(h).Encode(value); err != nil {
		return 0 // cannot happen for metadata that was decoded from JSON or protobuf
	}
	return max(1, digest(h.Sum64()))
}
