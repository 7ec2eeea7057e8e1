// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/internal/testbed/content"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const (
	seedEnv = "KUBE_MIGRATOR_TESTBED_SEED"
	// randomCRDs and randomObjects are how many there are: CRDs, and objects of each.
	randomCRDs, randomObjects = 6, 14
)

// leaves are the fields that a schema may have and an object may contain, by their path below spec.
var leaves = []string{"a", "b", "c", "deep.x", "deep.y", "list.x", "list.y"}

// randomly sweeps resources whose versions do not have the same fields, and whose schemas became narrower. Whatever the
// CRDs are, no object loses a field: an object that would is left alone and named, and every other one is rewritten
// (I3, I4). What the API server would drop is asked of itself, by a dry run.
func randomly(t *testing.T, cluster *testbed.Cluster) {
	seed := uint64(time.Now().UnixNano())
	if given, err := strconv.ParseUint(os.Getenv(seedEnv), 10, 64); err == nil {
		seed = given
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to draw the same CRDs: %s=%d go test ./migrate -run '^%s$'", seedEnv, seed, t.Name())
		}
	})
	for i := range randomCRDs {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			r := newRandomResource(t, cluster, i, rand.New(rand.NewPCG(seed, uint64(i))))
			r.populate()
			r.narrow()
			r.sweep()
		})
	}
}

// randomResource is one random CRD and its objects.
type randomResource struct {
	t       *testing.T
	cluster *testbed.Cluster
	random  *rand.Rand
	group   string
	// storage is the storage version, asked the one that the sweep is to use, and endpoint the one that it has to use.
	storage, asked, endpoint string
	// vague are objects of which managedFields do not say what they have.
	vague map[string]bool
}

func newRandomResource(t *testing.T, cluster *testbed.Cluster, i int, random *rand.Rand) *randomResource {
	t.Helper()
	r := &randomResource{t: t, cluster: cluster, random: random, group: fmt.Sprintf("random-%d.example.com", i),
		vague: map[string]bool{}}
	r.storage = []string{"v1", "v2"}[random.IntN(2)]
	var versions []any
	for _, name := range []string{"v1", "v2"} {
		versions = append(versions, map[string]any{"name": name, "served": true, "storage": name == r.storage,
			"schema": schemaOf(leaves)})
	}
	crd, err := json.Marshal(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "things." + r.group},
		"spec": map[string]any{"group": r.group, "scope": "Namespaced", "versions": versions,
			"names": map[string]any{"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}},
	})
	if err == nil {
		err = cluster.InstallCRDs(t.Context(), fstest.MapFS{"crd.yaml": &fstest.MapFile{Data: crd}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// once is a toss of a coin.
func (r *randomResource) once() bool { return r.random.IntN(2) == 0 }

// some returns the leaves without each with a probability.
func (r *randomResource) some(without float64) []string {
	return slices.DeleteFunc(slices.Clone(leaves), func(string) bool { return r.random.Float64() < without })
}

// narrower returns the leaves of a schema: all that are below list, or none. Where items of a list that a client owns as
// a whole lose a field in the same version, managedFields do not show it, and the sweep does not know.
func (r *randomResource) narrower() []string {
	list := r.random.IntN(3) > 0
	inList := func(leaf string) bool { return strings.HasPrefix(leaf, "list.") }
	some := slices.DeleteFunc(r.some(0.2), inList)
	if list {
		some = append(some, slices.DeleteFunc(slices.Clone(leaves), func(leaf string) bool { return !inList(leaf) })...)
	}
	return some
}

// schemaOf returns the schema of a version that has some of the leaves.
func schemaOf(some []string) map[string]any {
	object := func(properties map[string]any) map[string]any {
		return map[string]any{"type": "object", "properties": properties}
	}
	spec, below := map[string]any{}, map[string]map[string]any{"deep": {}, "list": {}}
	for _, leaf := range some {
		if parent, name, ok := strings.Cut(leaf, "."); ok {
			below[parent][name] = map[string]any{"type": "string"}
		} else {
			spec[leaf] = map[string]any{"type": "string"}
		}
	}
	if len(below["deep"]) > 0 {
		spec["deep"] = object(below["deep"])
	}
	if len(below["list"]) > 0 {
		spec["list"] = map[string]any{"type": "array", "items": object(below["list"])}
	}
	return map[string]any{"openAPIV3Schema": object(map[string]any{"spec": object(spec)})}
}

// populate creates objects with any fields, in the storage version of that time: managedFields do not show that an
// object is stored in another version than the one in which a client wrote it. Some have no managedFields.
func (r *randomResource) populate() {
	for i := range randomObjects {
		name, version, direct := fmt.Sprintf("thing-%d", i), r.storage, i < 2
		spec, deep, item := map[string]any{}, map[string]any{}, map[string]any{}
		for _, leaf := range r.some(0.7) {
			into := map[string]map[string]any{"deep": deep, "list": item}[path.Dir(strings.ReplaceAll(leaf, ".", "/"))]
			if into == nil {
				into = spec
			}
			into[path.Base(strings.ReplaceAll(leaf, ".", "/"))] = "some"
		}
		if len(deep) > 0 {
			spec["deep"] = deep
		}
		if len(item) > 0 {
			spec["list"], r.vague[name] = []any{item}, true // a client owns the list as a whole
		}
		if len(spec) == 0 {
			r.vague[name] = true // spec itself is owned as a whole
		}
		metadata := map[string]any{"name": name, "namespace": "default"}
		object := map[string]any{"apiVersion": r.group + "/" + version, "kind": "Thing", "metadata": metadata, "spec": spec}
		if direct {
			r.vague[name], metadata["uid"] = true, name
		}
		body, err := json.Marshal(object)
		if err != nil {
			r.t.Fatal(err)
		}
		if direct { // without managedFields
			if err := r.cluster.PutRaw(r.t.Context(), r.key(name), body); err != nil {
				r.t.Fatal(err)
			}
			continue
		}
		r.do(http.MethodPost, version, "", body)
	}
}

func (r *randomResource) key(name string) string {
	return "/registry/" + r.group + "/things/default/" + name
}

// do sends a request to a version and returns the answer.
func (r *randomResource) do(method, version, suffix string, body []byte) []byte {
	r.t.Helper()
	url := "/apis/" + r.group + "/" + version + "/namespaces/default/things" + suffix
	status, answer, err := r.cluster.Servers[0].Do(r.t.Context(), method, url, body)
	if err != nil || status/100 != 2 {
		r.t.Fatalf("%s %s: %d %s (%v)", method, url, status, answer, err)
	}
	return answer
}

// narrow gives the CRD its last form: each version has some of the fields. The storage version may not be served.
func (r *randomResource) narrow() {
	r.storage, r.endpoint = "v1", "v2"
	if r.once() {
		r.storage, r.endpoint = r.endpoint, r.storage
	}
	served := r.random.IntN(4) > 0
	_, err := r.cluster.EditCRD(r.t.Context(), "things."+r.group, func(crd map[string]any) {
		for _, v := range crd["spec"].(map[string]any)["versions"].([]any) {
			v := v.(map[string]any)
			some := r.narrower()
			r.t.Logf("%s has %v", v["name"], some)
			v["storage"], v["schema"] = v["name"] == r.storage, schemaOf(some)
			v["served"] = v["storage"] == false || served
		}
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Logf("the storage version is %s, served %t", r.storage, served)
	r.asked = r.endpoint
	if served {
		r.endpoint = r.storage // whatever is asked for
	}
	if served && r.once() {
		r.asked = r.storage
	}
}

// sweep sweeps, and compares what happened with what the API server says itself.
func (r *randomResource) sweep() {
	ctx := r.t.Context()
	before := r.raw(ctx)
	target := migrate.Target{Kind: "Thing", Namespaced: true, Origin: migrate.Custom,
		Resource: schema.GroupVersionResource{Group: r.group, Version: r.asked, Resource: "things"}}
	result, err := newSweep(r.t, r.cluster, target, migrate.Options{}).Run(ctx)
	if err != nil && !errors.Is(err, migrate.ErrWouldLoseFields) {
		r.t.Fatal(err)
	}
	named := map[string]string{}
	for _, f := range result.Failures {
		named[f.Name] = f.Message
	}
	r.t.Logf("%d of %d objects are left alone", len(named), len(before))
	after := r.raw(ctx)
	for name, was := range before {
		message, spared := named[name]
		if lost := content.Lost(was, after[name]); len(lost) > 0 {
			r.t.Errorf("%s lost %v (I3); it was\n%s", name, lost, was)
		}
		if !spared && !strings.Contains(string(after[name]), `"apiVersion":"`+r.group+"/"+r.storage+`"`) {
			r.t.Errorf("%s is neither rewritten nor named (I4)", name)
		}
		if spared && string(was) != string(after[name]) {
			r.t.Errorf("%s is named and was written all the same", name)
		}
		if spared && !r.vague[name] && r.endpoint == r.storage {
			answer := r.do(http.MethodPatch, r.endpoint, "/"+name+"?dryRun=All", []byte("{}"))
			if len(content.Lost(was, answer)) == 0 {
				r.t.Errorf("%s would lose nothing and is left alone: %s\n%s", name, message, was)
			}
		}
	}
}

// raw returns what etcd holds, by name.
func (r *randomResource) raw(ctx context.Context) map[string][]byte {
	r.t.Helper()
	held := map[string][]byte{}
	err := r.cluster.EachRaw(ctx, path.Dir(r.key("x"))+"/", func(key string, value []byte, _ int64) {
		held[path.Base(key)] = slices.Clone(value)
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return held
}
