// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// The whole way of the operator-sdk guide: from one version in the code to one version in the cluster.
func TestAKindMovesToANewVersionInTheProjectAndInTheCluster(t *testing.T) {
	t.Parallel()
	const n = 20
	user := newAuthor(t, testbed.New(t, testbed.Options{}))
	user.installOld()
	user.fill(n)
	before := user.contents("v1")
	wantStored(t, user.cluster, configsPrefix, map[string]int{configsV1: n})

	user.shell(0, `cd "$PROJECT" && api-migrator plan --kind CatalogSourceConfig --from operators.example.com/v1 --to operators.example.com/v2 --out "$NEXT/plan.yaml" &&
		api-migrator apply "$NEXT/plan.yaml" && api-migrator verify && go build ./...`)
	user.shell(0, `kubectl apply -f "$PROJECT/deploy/crds/operators.example.com_catalogsourceconfigs_crd.yaml"`)

	user.wantVersions("v1 v2", "v2 served storage", "v1 served")
	for _, version := range []string{"v1", "v2"} {
		if diff := cmp.Diff(before, user.contents(version)); diff != "" {
			t.Errorf("objects at %s (-before +now):\n%s", version, diff)
		}
	}
	wantStored(t, user.cluster, configsPrefix, map[string]int{configsV1: n})

	user.shell(0, "kube-migrator migrate "+configCRD+" --settle-time=1s --keep-stored-versions")
	wantStored(t, user.cluster, configsPrefix, map[string]int{configsV2: n})
	user.shell(0, "kube-migrator retire "+configCRD+" --version=v1 --settle-time=1s --unserve --remove")

	user.wantVersions("v2", "v2 served storage")
	if diff := cmp.Diff(before, user.contents("v2")); diff != "" {
		t.Errorf("objects afterwards (-before +now):\n%s", diff)
	}
	if status, _, err := user.cluster.Servers[0].Do(t.Context(), http.MethodGet, configs("v1"), nil); err != nil ||
		status != http.StatusNotFound {
		t.Errorf("GET at v1: %d, %v; want it not to be found", status, err)
	}
}
