// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The expected values are what kube-apiserver's discovery shows.
func TestHashIsWhatDiscoveryShows(t *testing.T) {
	for gvk, want := range map[schema.GroupVersionKind]string{
		{Version: "v1", Kind: "Pod"}:                                                 "xPOwRZ+Yhw8=",
		{Version: "v1", Kind: "Event"}:                                               "r2yiGXH7wu8=",
		{Group: "resource.k8s.io", Version: "v1", Kind: "DeviceClass"}:               "Yk2PTc1Ybxk=",
		{Group: "resource.k8s.io", Version: "v1beta2", Kind: "DeviceClass"}:          "weQRMT6DeYM=",
		{Group: "storage.k8s.io", Version: "v1beta1", Kind: "VolumeAttributesClass"}: "Bl3MtjZ/n/s=",
	} {
		if got := Hash(gvk); got != want {
			t.Errorf("Hash(%v) = %q, want %q", gvk, got, want)
		}
	}
}
