// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/crdlife"
)

// crdOf writes a manifest: each version is name, "s" where it is served and "*" where it is stored, then its
// schema of spec; conversion is empty or JSON.
func crdOf(t *testing.T, conversion string, versions ...[3]string) *crdlife.CRD {
	t.Helper()
	var list []string
	for _, v := range versions {
		list = append(list, fmt.Sprintf(`{"name":%q,"served":%t,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":%s}}}}`,
			v[0], strings.Contains(v[1], "s"), strings.Contains(v[1], "*"), v[2]))
	}
	if conversion == "" {
		conversion = `{"strategy":"None"}`
	}
	m, err := crdlife.Parse("crds.yaml, document 2", []byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.demo.example.com"},
		"spec":{"group":"demo.example.com","names":{"plural":"widgets","kind":"Widget"},"versions":[`+strings.Join(list, ",")+`],"conversion":`+conversion+`}}`))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const (
	color   = `{"type":"object","properties":{"color":{"type":"string"}}}`
	webhook = `{"strategy":"Webhook","webhook":{"clientConfig":{"service":{"name":"a","namespace":"b"}}}}`
)

func TestApplyingACRDMustNotStrandWhatIsStored(t *testing.T) {
	of1 := func(conversion string, versions ...[3]string) *crdlife.CRD {
		return crdOf(t, conversion, versions...)
	}
	claims := func(c *crdlife.CRD, stored ...string) *crdlife.CRD { c.Status.StoredVersions = stored; return c }
	bare, inEtcd := question(), question()
	bare.Installed, inEtcd.Etcd = false, true
	v1, v2 := [3]string{"v1", "s*", color}, [3]string{"v2", "s*", color}
	v1Served, v2Served := [3]string{"v1", "s", color}, [3]string{"v2", "s", color}
	both := claims(of1("", v1Served, v2), "v1", "v2")
	const (
		diff    = "kube-migrator upgrade-crd -f crds.yaml"
		request = "kube-migrator request widgets.demo.example.com"
		migrate = "kube-migrator migrate widgets.demo.example.com"
	)
	const only = ", and it has only v2"
	for name, test := range map[string]struct {
		question Question
		proposed *crdlife.CRD
		live     *crdlife.CRD
		facts    Facts
		want     verdict
		stranded []string
	}{
		"it is new": {bare, of1("", v1), nil, Facts{},
			verdict{Safe, "the cluster does not have it yet: nothing is stored", "", ByNothing}, nil},
		"nothing changes": {bare, of1("", v1Served, v2), both, Facts{},
			verdict{Safe, "every stored version stays readable", "", ByStoredVersions}, nil},
		"a version comes": {bare, of1("", v1, v2Served), claims(of1("", v1), "v1"), Facts{},
			verdict{Safe, "every stored version stays readable", "", ByStoredVersions}, nil},
		"a stored version goes": {bare, of1("", v2), both, Facts{},
			verdict{Unsafe, "status.storedVersions says that objects are stored as v1" + only, migrate,
				ByStoredVersions}, []string{"v1"}},
		"a version goes that is not stored": {bare, of1("", v2), claims(of1("", v1Served, v2), "v2"), Facts{},
			verdict{Safe, "every stored version stays readable", "", ByStoredVersions}, nil},
		"storedVersions forgot it, the StorageState did not": {question(), of1("", v2),
			claims(of1("", v1Served, v2), "v2"), widgets("v1", "v2"),
			verdict{Unsafe, "the StorageState or status.storedVersions says that objects may be stored as v1" + only,
				request, ByStorageState}, []string{"v1"}},
		"a version goes, and the StorageState says Unknown": {question(), of1("", v2),
			claims(of1("", v1Served, v2), "v2"), widgets("Unknown", "v2"),
			verdict{Undetermined, "it removes v1, and its StorageState says Unknown: objects may be stored in " +
				"versions that no one knows", request, ByStorageState}, nil},
		"no version goes, and the StorageState says Unknown": {question(), of1("", v1Served, v2), both,
			widgets("Unknown", "v2"), verdict{Safe, "every stored version stays readable", "", ByStorageState}, nil},
		"the storage version goes": {bare, of1("", v2), claims(of1("", v1, v2Served), "v1"), Facts{},
			verdict{Unsafe, "status.storedVersions says that objects are stored as v1" + only +
				"; keep v1 until everything is migrated to another version", diff, ByStoredVersions}, []string{"v1"}},
		"the storage version moves": {bare, of1("", v1Served, v2), claims(of1("", v1, v2Served), "v1"), Facts{},
			verdict{Safe, "every stored version stays readable; the storage version moves from v1 to v2, so migrate " +
				"afterwards", migrate, ByStoredVersions}, nil},
		"no storage version": {bare, of1("", v1Served), both, Facts{},
			verdict{Unsafe, "it marks 0 versions as the storage version, want 1", "kubectl diff --server-side -f crds.yaml", ByNothing}, nil},
		"two storage versions": {bare, of1("", v1, v2), both, Facts{},
			verdict{Unsafe, "it marks 2 versions as the storage version, want 1", "kubectl diff --server-side -f crds.yaml", ByNothing}, nil},
		"a webhook without an address": {bare, of1(`{"strategy":"Webhook"}`, v1), both, Facts{},
			verdict{Unsafe, "its conversion webhook has neither a URL nor a service", "kubectl diff --server-side -f crds.yaml", ByNothing}, nil},
		"the webhook goes": {bare, of1("", v1Served, v2), claims(of1(webhook, v1Served, v2), "v1", "v2"), Facts{},
			verdict{Unsafe, "it takes the conversion webhook away, and objects may be stored in a version that the webhook " +
				"converts", diff, ByStoredVersions}, nil},
		"the webhook goes, and no object needs it": {bare, of1("", v1Served, v2), claims(of1(webhook, v1Served, v2), "v2"),
			Facts{}, verdict{Safe, "every stored version stays readable", "", ByStoredVersions}, nil},
		"the webhook goes with the other versions": {bare, of1("", v2), claims(of1(webhook, v1Served, v2), "v2"),
			Facts{}, verdict{Safe, "every stored version stays readable", "", ByStoredVersions}, nil},
		"3 objects lose a field": {bare, of1("", v1Served, v2), both, Facts{},
			verdict{Unsafe, "1 object would lose fields that the schema of v2 does not keep, and that they have as far as " +
				"managedFields tell: a/b (spec.color); upgrade-crd --accept-field-loss=widgets.demo.example.com accepts that",
				"kubectl get widgets.demo.example.com --all-namespaces -o yaml > widgets.demo.example.com.yaml",
				ByStoredVersions}, nil},
		"objects cannot be listed": {bare, of1("", v1Served, v2), both, Facts{},
			verdict{Undetermined, "whether objects need what it drops is not known: no such version",
				"kubectl describe customresourcedefinition widgets.demo.example.com", ByStoredVersions}, nil},
		"etcd holds what the records forgot": {inEtcd, of1("", v2), claims(of1("", v1Served, v2), "v2"),
			func() Facts { f := widgets("v2"); f.Held = []Held{held("v1", 3), held("v2", 1)}; return f }(),
			verdict{Unsafe, "etcd holds 3 objects as v1" + only, request, ByEtcd}, []string{"v1"}},
		"etcd holds less than the records claim": {inEtcd, of1("", v2), both,
			func() Facts { f := widgets("v1", "v2"); f.Held = []Held{held("v2", 1)}; return f }(),
			verdict{Safe, "every stored version stays readable", "", ByEtcd}, nil},
		"etcd holds objects of a CRD that is gone": {inEtcd, of1("", v2), nil,
			Facts{Resource: schema.GroupResource{Group: "demo.example.com", Resource: "widgets"},
				Held: []Held{held("v1", 1)}},
			verdict{Unsafe, "etcd holds 1 object as v1" + only, request, ByEtcd}, []string{"v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			life := crdlife.Facts{Live: test.live, Found: crdlife.Found{Objects: 3}}
			if strings.HasPrefix(name, "3 objects lose") {
				life.Found.Losses.Add(&metav1.ObjectMeta{Namespace: "a", Name: "b"}, []string{"spec.color"})
			}
			if strings.HasPrefix(name, "objects cannot be listed") {
				life.Unreadable = "no such version"
			}
			got := test.question.JudgeCRD(test.proposed, life, test.facts)
			if diff := cmp.Diff(test.want, of(got)); diff != "" {
				t.Errorf("finding (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.stranded, got.Stranded); diff != "" {
				t.Errorf("stranded (-want +got):\n%s", diff)
			}
		})
	}
}
