// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// authorTools puts what the author of an operator has besides kube-migrator, where cli.shell finds it: api-migrator and
// kubectl.
var authorTools = sync.OnceValue(func() error {
	build := exec.Command("go", "build", "-o", filepath.Join(filepath.Dir(binary), "api-migrator"),
		"../../../api-migrator")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build api-migrator: %w\n%s", err, out)
	}
	return nil
})

// author is a user who has an operator's project too: the one of the operator-sdk guide, committed to git.
type author struct {
	*cli
	project string
}

func newAuthor(t *testing.T, cluster *testbed.Cluster) *author {
	t.Helper()
	kubectl, err := testbed.Binary(t.Context(), testbed.Newest, "kubectl", os.Stderr)
	if err = errors.Join(err, authorTools()); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(kubectl, filepath.Join(filepath.Dir(binary), "kubectl")); err != nil &&
		!errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	a := &author{cli: newCLI(t, cluster), project: t.TempDir()}
	if err := os.CopyFS(a.project, os.DirFS("../../../api-migrator/internal/testdata/guide")); err != nil {
		t.Fatal(err)
	}
	a.env = append(a.env, "PROJECT="+a.project, "NEXT="+t.TempDir())
	a.shell(0, `cd "$PROJECT" && git init -q && git add . && git -c user.name=t -c user.email=t@example.com commit -qm before`)
	return a
}

// The kind that moves in the guide's project.
const (
	configCRD      = "catalogsourceconfigs.operators.example.com"
	configManifest = "deploy/crds/operators_v1_catalogsourceconfig_crd.yaml"
	configsPrefix  = "/registry/operators.example.com/catalogsourceconfigs/"
	configsV1      = "operators.example.com/v1"
	configsV2      = "operators.example.com/v2"
)

// installOld puts the CRD into the cluster as users have it: converted to apiextensions.k8s.io/v1, with the one version
// v1.
func (a *author) installOld() {
	a.t.Helper()
	a.shell(0, `cp "$PROJECT/`+configManifest+
		`" "$NEXT/old.yaml" && cd "$NEXT" && api-migrator crd upgrade --name keep old.yaml && kubectl apply -f old.yaml`)
	getWhenReady(a.t, a.cluster, configs("v1")+"?limit=1", &struct{}{})
}

func configs(version string) string {
	return "/apis/operators.example.com/" + version + "/namespaces/default/catalogsourceconfigs"
}

// catalog is what an object holds.
type catalog struct {
	APIVersion string `json:"apiVersion"`
	Metadata   struct {
		Name   string            `json:"name"`
		UID    string            `json:"uid"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec map[string]any `json:"spec"`
}

// fill makes n objects at v1, each with the fields of three writers.
func (a *author) fill(n int) {
	a.t.Helper()
	for i := range n {
		name := fmt.Sprintf("c-%03d", i)
		a.write("alice", name, map[string]any{"spec": map[string]any{"targetNamespace": "ns-" + name, "size": i}})
		a.write("bob", name, map[string]any{"spec": map[string]any{"packages": "p-" + name,
			"targetNamespace": "ns-" + name, "size": i}})
		do(a.t, a.cluster, http.MethodPatch, configs("v1")+"/"+name,
			map[string]any{"metadata": map[string]any{"labels": map[string]any{"carol": name}}})
	}
}

// write applies on the server's side, at v1.
func (a *author) write(manager, name string, fields map[string]any) {
	a.t.Helper()
	client, err := apiserver.NewClient(a.cluster.Config())
	if err != nil {
		a.t.Fatal(err)
	}
	fields["apiVersion"], fields["kind"], fields["metadata"] = configsV1, "CatalogSourceConfig",
		map[string]any{"name": name}
	if err := client.Patch(types.ApplyPatchType).AbsPath(configs("v1"), name).Param("fieldManager",
		manager).Body(mustJSON(fields)).Do(a.t.Context()).Error(); err != nil {
		a.t.Fatalf("%s applies %v: %v", manager, fields, err)
	}
}

// contents reads every object at a version; what they say of their version is left out.
func (a *author) contents(version string) []catalog {
	a.t.Helper()
	var list struct{ Items []catalog }
	getWhenReady(a.t, a.cluster, configs(version), &list)
	for i := range list.Items {
		if got := list.Items[i].APIVersion; got != "operators.example.com/"+version {
			a.t.Errorf("%s reads as %s at %s", list.Items[i].Metadata.Name, got, version)
		}
		list.Items[i].APIVersion = ""
	}
	return list.Items
}

// wantVersions expects spec.versions as "name served storage", and status.storedVersions.
func (a *author) wantVersions(stored string, versions ...string) {
	a.t.Helper()
	wantVersions(a.t, a.cluster, configCRD, stored, versions...)
}
