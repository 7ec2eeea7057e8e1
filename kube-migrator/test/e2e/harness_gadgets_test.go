// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
)

// gadgets is one custom resource, like the widgets but with a plural of its own, so that one cluster can have many.
type gadgets struct {
	t       *testing.T
	cluster *testbed.Cluster
	client  rest.Interface
	plural  string
}

// newGadgets defines a resource with the versions v1 and v2, both served, stored as v1. The field legacy is in v1
// alone, and the field note in v2.
func newGadgets(t *testing.T, cluster *testbed.Cluster, plural string) *gadgets {
	t.Helper()
	g := gadgetsOf(t, cluster, plural)
	do(t, cluster, http.MethodPost, strings.TrimSuffix(crdsPath, "/"), g.crd("v1*", "v2"))
	g.ready("v1", "v2")
	return g
}

// gadgetsOf is a resource that is to be defined.
func gadgetsOf(t *testing.T, cluster *testbed.Cluster, plural string) *gadgets {
	t.Helper()
	client, err := apiserver.NewClient(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &gadgets{t: t, cluster: cluster, client: client, plural: plural}
}

// crd is its CustomResourceDefinition with versions, all served; * marks the storage version.
func (g *gadgets) crd(versions ...string) map[string]any {
	integer, text := map[string]any{"type": "integer"}, map[string]any{"type": "string"}
	var entries []any
	for _, version := range versions {
		name, storage := strings.CutSuffix(version, "*")
		fields := map[string]any{"color": text, "size": integer, "payload": text}
		if name == "v1" {
			fields["legacy"] = text
		} else {
			fields["note"] = text
		}
		entries = append(entries, map[string]any{
			"name": name, "served": true, "storage": storage,
			"subresources": map[string]any{"status": map[string]any{}},
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
				"spec":   map[string]any{"type": "object", "properties": fields},
				"status": map[string]any{"type": "object", "properties": map[string]any{"phase": text}},
			}}},
		})
	}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": g.name()},
		"spec": map[string]any{
			"group": testbed.WidgetGroup, "scope": "Namespaced", "versions": entries,
			"names": map[string]any{"plural": g.plural, "singular": g.singular(), "kind": g.kind(),
				"listKind": g.kind() + "List"},
		},
	}
}

// ready waits until versions are served.
func (g *gadgets) ready(versions ...string) {
	g.t.Helper()
	for _, v := range versions {
		getWhenReady(g.t, g.cluster, g.collection(v)+"?limit=1", &struct{}{})
	}
}

func (g *gadgets) singular() string { return strings.TrimSuffix(g.plural, "s") }
func (g *gadgets) kind() string     { return strings.ToUpper(g.plural[:1]) + g.singular()[1:] }
func (g *gadgets) name() string     { return g.plural + "." + testbed.WidgetGroup }
func (g *gadgets) prefix() string   { return "/registry/" + testbed.WidgetGroup + "/" + g.plural + "/" }

func (g *gadgets) collection(version string) string {
	return "/apis/" + testbed.WidgetGroup + "/" + version + "/namespaces/default/" + g.plural
}

// gadget is what the tests look at.
type gadget struct {
	APIVersion string `json:"apiVersion"`
	Metadata   struct {
		Name            string                      `json:"name"`
		ResourceVersion string                      `json:"resourceVersion"`
		ManagedFields   []metav1.ManagedFieldsEntry `json:"managedFields"`
	} `json:"metadata"`
	Spec   map[string]any `json:"spec"`
	Status map[string]any `json:"status"`
}

func (g *gadgets) get(version, name string) (read gadget) {
	g.t.Helper()
	get(g.t, g.cluster, g.collection(version)+"/"+name, &read)
	return read
}

// apply applies on the server's side, without force; the error is what the API server says.
func (g *gadgets) apply(manager, version, name string, fields map[string]any) error {
	g.t.Helper()
	object := map[string]any{"apiVersion": testbed.WidgetGroup + "/" + version, "kind": g.kind(),
		"metadata": map[string]any{"name": name}}
	path := []string{g.collection(version), name}
	for field, value := range fields {
		object[field] = value
		if field == "status" {
			path = append(path, "status")
		}
	}
	return g.client.Patch(types.ApplyPatchType).AbsPath(path...).Param("fieldManager",
		manager).Body(mustJSON(object)).Do(g.t.Context()).Error()
}

func (g *gadgets) mustApply(manager, version, name string, fields map[string]any) {
	g.t.Helper()
	if err := g.apply(manager, version, name, fields); err != nil {
		g.t.Fatalf("%s applies %v to %s at %s: %v", manager, fields, name, version, err)
	}
}

func spec(pairs ...any) map[string]any {
	fields := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		fields[pairs[i].(string)] = pairs[i+1]
	}
	return map[string]any{"spec": fields}
}

func (g *gadgets) versions() (versions, stored []string) {
	g.t.Helper()
	return versionsOf(g.t, g.cluster, g.name())
}

func (g *gadgets) wantVersions(stored string, versions ...string) {
	g.t.Helper()
	wantVersions(g.t, g.cluster, g.name(), stored, versions...)
}

// edit edits spec.versions.
func (g *gadgets) edit(f func(versions []any) []any) {
	g.t.Helper()
	if _, err := g.cluster.EditCRD(g.t.Context(), g.name(), func(d map[string]any) {
		s := d["spec"].(map[string]any)
		s["versions"] = f(s["versions"].([]any))
	}); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gadgets) claim(stored ...string) {
	g.t.Helper()
	if _, err := g.cluster.EditCRDStatus(g.t.Context(), g.name(), func(d map[string]any) {
		d["status"].(map[string]any)["storedVersions"] = stored
	}); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gadgets) moveStorage(version string) {
	g.t.Helper()
	if err := g.cluster.MoveStorage(g.t.Context(), g.name(), version); err != nil {
		g.t.Fatal(err)
	}
}

// stale makes n objects that are stored as v1, each with an owner of its color and one of its size, and moves the
// storage version.
func (g *gadgets) stale(n int, more ...any) {
	g.t.Helper()
	g.fill(n, more...)
	g.moveStorage("v2")
}

// fill makes n objects at v1, each with an owner of its color, and of more fields, and one of its size.
func (g *gadgets) fill(n int, more ...any) {
	g.t.Helper()
	for i := range n {
		name := fmt.Sprintf("g-%03d", i)
		g.mustApply("alice", "v1", name, spec(append([]any{"color", "red", "payload", "p"}, more...)...))
		g.mustApply("bob", "v1", name, spec("size", i))
	}
}

// rewriteRaw edits what etcd holds of an object.
func (g *gadgets) rewriteRaw(name string, edit func(object, metadata map[string]any)) {
	g.t.Helper()
	rewriteRaw(g.t, g.cluster, g.prefix()+"default/"+name, edit)
}

// wantUnnamed expects that every object is stored as v2, and that managedFields of none names v1, nor makes up an
// owner.
func (g *gadgets) wantUnnamed(n int) {
	g.t.Helper()
	wantStored(g.t, g.cluster, g.prefix(), map[string]int{v2: n})
	var list struct{ Items []gadget }
	getWhenReady(g.t, g.cluster, g.collection("v2"), &list)
	if len(list.Items) != n {
		g.t.Errorf("%d objects are listed, want %d", len(list.Items), n)
	}
	for _, item := range list.Items {
		for _, e := range item.Metadata.ManagedFields {
			if e.APIVersion != v2 || e.Manager == "before-first-apply" {
				g.t.Errorf("%s has an entry of %s at %s", item.Metadata.Name, e.Manager, e.APIVersion)
			}
		}
	}
}

// retire runs `retire -o json` for v1 with a short settle time.
func (c *cli) retire(code int, g *gadgets, args ...string) render.Retirement {
	c.t.Helper()
	return retirement(c.t, c.run(code, append([]string{"retire", g.name(), "--version=v1", "--settle-time=1s",
		"-o", "json"}, args...)...))
}

func retirement(t *testing.T, out output) (report render.Retirement) {
	t.Helper()
	if err := json.Unmarshal([]byte(out.stdout), &report); err != nil {
		t.Fatalf("report: %v\n%s\n%s", err, out.stdout, out.stderr)
	}
	return report
}

func stepStates(report render.Retirement) map[retire.StepName]retire.State {
	all := map[retire.StepName]retire.State{}
	for _, s := range report.Steps {
		all[s.Name] = s.State
	}
	return all
}

// file writes the gadgets' CRD with versions to a file.
func (g *gadgets) file(versions ...string) string {
	g.t.Helper()
	return g.fileOf(g.crd(versions...))
}

func (g *gadgets) fileOf(crd map[string]any) string {
	g.t.Helper()
	path := filepath.Join(g.t.TempDir(), "crd.json")
	if err := os.WriteFile(path, mustJSON(crd), 0o600); err != nil {
		g.t.Fatal(err)
	}
	return path
}

// wantNothingStranded expects that the CRD has every version that etcd holds, and that all objects can be read.
func (g *gadgets) wantNothingStranded(n int) {
	g.t.Helper()
	versions, claimed := g.versions()
	served := ""
	has := map[string]bool{}
	for _, words := range versions {
		name, flags, _ := strings.Cut(words, " ")
		has[testbed.WidgetGroup+"/"+name] = true
		if strings.Contains(flags, "served") {
			served = name
		}
	}
	for version := range stored(g.t, g.cluster, g.prefix()) {
		if !has[version] || !slices.Contains(claimed, strings.TrimPrefix(version, testbed.WidgetGroup+"/")) {
			g.t.Errorf("objects are stored as %s; the CRD has %v and claims %v", version, versions, claimed)
		}
	}
	var list struct{ Items []gadget }
	getWhenReady(g.t, g.cluster, g.collection(served), &list)
	if len(list.Items) != n {
		g.t.Errorf("%d objects can be read, want %d", len(list.Items), n)
	}
}

func (g *gadgets) do(method, path string, body any) []byte {
	return do(g.t, g.cluster, method, path, body)
}

// item and whole are parts of the paths of requests for an object, and for the CRD.
func (g *gadgets) item() string  { return "/" + g.plural + "/g-" }
func (g *gadgets) whole() string { return crdsPath + g.name() }
