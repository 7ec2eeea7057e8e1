// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"crypto/sha256"
	"encoding/base64"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// hashBytes is how much of the digest discovery publishes.
const hashBytes = 8

// Hash returns the storageVersionHash that discovery shows for a resource stored as gvk: base64 (standard
// encoding, padded) of the first 8 bytes of SHA-256 over "group/version/Kind".
//
// The hash is opaque by contract: compare it, or turn it back into a version by hashing the candidates. Source:
// https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/2342-exposing-storage-hash-in-discovery
func Hash(gvk schema.GroupVersionKind) string {
	sum := sha256.Sum256([]byte(gvk.Group + "/" + gvk.Version + "/" + gvk.Kind))
	return base64.StdEncoding.EncodeToString(sum[:hashBytes])
}
