// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
)

func kubebuilderFixture(t *testing.T, folder string) string {
	t.Helper()
	dir := fixture.Repository(t, "kubebuilder")
	fixture.Write(t, dir, fixture.Archive(t, "testdata/kubebuilder-parts.txtar"))
	const types = "api/v1/memcached_types.go"
	fixture.Write(t, dir, map[string]string{types: strings.Replace(fixture.Read(t, dir, types),
		"// +kubebuilder:subresource:status\n",
		"// +kubebuilder:subresource:status\n// +kubebuilder:resource:path=memcacheds,shortName=mc,categories=all\n",
		1)})
	fixture.Commit(t, dir, "more")
	if folder != "api" {
		moveFolder(t, dir, "api/v1", folder+"/v1")
	}
	return dir
}
