// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"
	"testing"
)

func TestAnImageWithoutADigestOrARegistryIsWarnedOf(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0", 64)
	for image, want := range map[string]string{
		"registry.example.com/kube-migrator:v1" + digest: "",
		"kube-migrator" + digest:                         "",
		"registry.example.com/kube-migrator:v1": "this installation. Use " +
			"registry.example.com/kube-migrator:v1@sha256:DIGEST",
		"localhost/kube-migrator:devel":  "has no digest: anyone",
		"localhost:5000/kube-migrator":   "has no digest: anyone",
		"kube-migrator:v1":               "names no registry and has no digest: each node decides",
		"kube-migrator/kube-migrator:v1": "names no registry and has no digest: each node decides",
	} {
		switch got := ImageWarning(image); {
		case want == "" && got != "", !strings.Contains(got, want):
			t.Errorf("%s: %q, want %q", image, got, want)
		case want != "" && !strings.HasPrefix(got, "the image "+image+" "):
			t.Errorf("%s: %q does not name it", image, got)
		}
	}
}
