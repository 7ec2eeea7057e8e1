// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crdlife

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/refusal"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
)

// crdOf makes a CRD from words such as "v1alpha1", "v1:served", "v2:served,storage" and "webhook"; "-color" takes a
// field from the version before it, which otherwise has spec.color and spec.size.
func crdOf(t *testing.T, words string) *CRD {
	t.Helper()
	var versions []map[string]any
	conversion := map[string]any{"strategy": "None"}
	for word := range strings.FieldsSeq(words) {
		switch name, flags, _ := strings.Cut(word, ":"); {
		case word == "webhook":
			conversion = map[string]any{"strategy": "Webhook",
				"webhook": map[string]any{"clientConfig": map[string]any{"url": "https://convert"}}}
		case word == "lostwebhook":
			conversion = map[string]any{"strategy": "Webhook"}
		case word[0] == '-':
			delete(specOf(versions[len(versions)-1]), word[1:])
		default:
			text := map[string]any{"type": "string"}
			versions = append(versions, map[string]any{
				"name": name, "served": strings.Contains(flags, "served"),
				"storage": strings.Contains(flags, "storage"),
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object",
					"properties": map[string]any{
						"spec": map[string]any{"type": "object",
							"properties": map[string]any{"color": text, "size": text}},
					}}},
			})
		}
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets.demo.example.com", "uid": "u", "resourceVersion": "7"},
		"spec": map[string]any{
			"group": "demo.example.com", "scope": "Namespaced",
			"names":    map[string]any{"plural": "widgets", "kind": "Widget"},
			"versions": versions, "conversion": conversion,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse("crds.yaml, document 1", raw)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func specOf(version map[string]any) map[string]any {
	root := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)["properties"].(map[string]any)
	return root["spec"].(map[string]any)["properties"].(map[string]any)
}

// situation is what the cluster has.
type situation struct {
	live    string // words of crdOf; empty for no CRD
	stored  string
	facts   Facts
	objects int64
	// color is how many objects have spec.color, by their managedFields.
	color  int64
	accept bool
}

// plan decides as Run does: the losses are computed, and their counts found.
func (s situation) plan(t *testing.T, next string) (Plan, *CRD, Facts) {
	t.Helper()
	file, f := crdOf(t, next), s.facts
	if s.live != "" {
		f.Live = crdOf(t, s.live)
		f.Live.Status.StoredVersions = strings.Fields(s.stored)
		f.Found.Objects = s.objects
		j, written := judgeOf(file, f), append(f.Live.Status.StoredVersions, "v1")[0]
		for i := range s.objects {
			field := "size"
			if i < s.color {
				field = "color"
			}
			f.Found.Losses.Add(&metav1.ObjectMeta{Name: fmt.Sprint("w", i)}, j.Lost(owning(written, field)))
		}
	}
	q := Intent{Program: "kube-migrator", Again: "kube-migrator upgrade-crd --filename=crds.yaml"}
	if s.accept {
		q.AcceptFieldLoss = []string{"widgets.demo.example.com"}
		q.AcceptOtherMeaning = q.AcceptFieldLoss
	}
	return q.Decide(file, f), file, f
}

func pointedAt(objects int64) Facts {
	return Facts{Dependents: map[string]retire.Dependents{"v1": {Objects: objects}}}
}

func TestThePlanFollowsFromWhatIsStored(t *testing.T) {
	const (
		old    = "v1:served,storage"
		both   = "v1:served v2:served,storage"
		next   = "v2:served,storage"
		halfIn = "v2:served,storage v1"
	)
	naming := func(n int64) Facts { return Facts{Found: Found{Naming: map[string]int64{"v1": n}}} }
	proven := func(f Facts) Facts { f.Proven = true; return f }
	full := func(objects string) []string {
		return []string{
			"intermediate: apply it with v2, and keep v1, unserved", "migrate: rewrite " + objects +
				" as v2, and prove that nothing else is stored",
			"prune: reduce status.storedVersions to [v2]", "apply: apply it with v2",
		}
	}
	for name, test := range map[string]struct {
		situation
		next string
		want []string
		why  refusal.Reason
	}{
		"the cluster does not have it": {situation{}, next, []string{"create: create it with v2"}, ""},
		"nothing changes": {situation{live: both, stored: "v1 v2", objects: 3}, both,
			[]string{"apply: apply it with v1, v2"}, ""},
		"a version comes": {situation{live: old, stored: "v1", objects: 3}, old +
			" v2:served", []string{"apply: apply it with v1, v2"}, ""},
		"the storage version moves": {situation{live: old, stored: "v1", objects: 3}, both,
			[]string{"apply: apply it with v1, v2"}, ""},
		"a version goes that nothing names": {situation{live: both, stored: "v2", objects: 3}, next,
			[]string{"apply: apply it with v2"}, ""},
		"a stored version goes": {situation{live: both, stored: "v1 v2", objects: 3}, next,
			full("3 objects"), ""},
		"a stored version goes without any object": {situation{live: both, stored: "v1 v2"}, next,
			full("0 objects"), ""},
		"the storage version goes, a new one stays": {situation{live: "v1:served,storage v2:served", stored: "v1",
			objects: 1}, next, full("1 object"), ""},
		"the StorageState remembers more": {situation{live: both, stored: "v2", objects: 3,
			facts: Facts{Recorded: []string{"v1", "v2"}}}, next, full("3 objects"), ""},
		"the StorageState does not know": {situation{live: both, stored: "v2", objects: 3,
			facts: Facts{Unknown: true}}, next, full("3 objects"), ""},
		"it does not know, and no version goes": {situation{live: both, stored: "v2", objects: 3,
			facts: Facts{Unknown: true}}, both, []string{"apply: apply it with v1, v2"}, ""},
		"it does not know what was proven": {situation{live: halfIn, stored: "v2", objects: 3,
			facts: proven(Facts{Unknown: true})}, next, []string{"apply: apply it with v2"}, ""},
		"the intermediate CRD is there": {situation{live: halfIn, stored: "v1 v2", objects: 3}, next,
			full("3 objects")[1:], ""},
		"the intermediate CRD still serves it": {situation{live: "v2:served,storage v1:served", stored: "v1 v2",
			objects: 3}, next, full("3 objects"), ""},
		"the intermediate CRD does not serve the new": {situation{live: "v2:storage v1", stored: "v1 v2", objects: 0,
			accept: true}, next, full("0 objects"), ""},
		"it is proven": {situation{live: halfIn, stored: "v1 v2", objects: 3, facts: proven(Facts{})},
			next, full("")[2:], ""},
		"it is proven and pruned": {situation{live: halfIn, stored: "v2", objects: 3, facts: proven(Facts{})},
			next, full("")[3:], ""},
		"it is pruned, and managedFields name it": {situation{live: halfIn, stored: "v2", objects: 3,
			facts: proven(naming(2))}, next,
			[]string{"managedFields: move the managedFields entries of 2 objects from v1 to v2",
				"apply: apply it with v2"}, ""},
		"managedFields alone name what goes": {situation{live: both, stored: "v2", objects: 3, facts: naming(2)}, next,
			append(full("3 objects")[:3:3], "managedFields: move the managedFields entries of 2 objects from v1 to v2",
				"apply: apply it with v2"), ""},
		"two stored versions go": {situation{live: "v0:served v1:served v2:served,storage",
			stored: "v0 v1 v2", objects: 3}, next,
			append([]string{"intermediate: apply it with v2, and keep v0, v1, unserved"},
				full("3 objects")[1:]...), ""},
		"one goes of which the other stays": {situation{live: "v0:served v1:served v2:served,storage",
			stored: "v0 v1 v2", objects: 3}, both,
			[]string{"intermediate: apply it with v1, v2, and keep v0, unserved", full("3 objects")[1], full("")[2],
				"apply: apply it with v1, v2"}, ""},
		"the file brings a lost version back": {situation{live: next, stored: "v1 v2"}, both,
			[]string{"apply: apply it with v1, v2"}, ""},
		"the webhook goes, and its versions stay": {situation{live: both + " webhook",
			stored: "v1 v2", objects: 3}, both,
			[]string{full("3 objects")[1], full("")[2], "apply: apply it with v1, v2"}, ""},
		"the webhook goes as the storage version moves": {situation{live: "v1:served,storage v2:served webhook",
			stored: "v1", objects: 3}, both,
			[]string{"intermediate: apply it with v1, v2, with the conversion webhook that the cluster has",
				full("3 objects")[1], full("")[2], "apply: apply it with v1, v2"}, ""},
		"the webhook goes, and it is proven": {situation{live: both, stored: "v2", objects: 3, facts: proven(Facts{})},
			both, []string{"apply: apply it with v1, v2"}, ""},
		"the webhook goes with the stored version": {situation{live: both + " -size webhook", stored: "v1 v2",
			objects: 3}, next,
			append([]string{"intermediate: apply it with v2, and keep v1, unserved, with the conversion webhook that " +
				"the cluster has"}, full("3 objects")[1:]...), ""},
		"a webhook moves what a narrower schema drops": {situation{live: both + " webhook", stored: "v1 v2", objects: 3},
			both + " -color webhook", nil, FieldLoss},
		"the webhook goes, and clients lose fields without it": {situation{live: "v1:served -color v2:served,storage -size webhook",
			stored: "v2", objects: 3}, "v1:served -color v2:served,storage -size", nil, FieldLoss},
		"a version that objects are stored in loses a field that the storage version never had": {situation{
			live: both + " -color", stored: "v1 v2", objects: 3, color: 1}, "v1:served -color v2:served,storage -color", nil, FieldLoss},
		"nothing in common, and no object": {situation{live: old, stored: "v1"}, next, full("0 objects"), ""},
		"nothing in common, and a webhook": {situation{live: old, stored: "v1", objects: 3}, next +
			" -color webhook", full("3 objects"), ""},
		"nothing in common": {situation{live: old, stored: "v1", objects: 3},
			next, nil, NothingInCommon},
		"nothing in common, accepted": {situation{live: old, stored: "v1", objects: 3, color: 3,
			accept: true}, next + " -color", full("3 objects"), ""},
		"objects lose a field": {situation{live: both, stored: "v1 v2", objects: 3, color: 2},
			next + " -color", nil, FieldLoss},
		"objects lose a field half way": {situation{live: halfIn, stored: "v1 v2", objects: 3, color: 2},
			next + " -color", nil, FieldLoss},
		"objects lose a field, accepted": {situation{live: both, stored: "v1 v2", objects: 3, color: 2,
			accept: true}, next + " -color", full("3 objects"), ""},
		"no object has the field": {situation{live: both, stored: "v1 v2", objects: 3}, next +
			" -color", full("3 objects"), ""},
		"a field goes as the storage version moves": {situation{live: old, stored: "v1", objects: 3, color: 2}, both +
			" -color", nil, FieldLoss},
		"objects lose a field that no webhook can move": {situation{live: old, stored: "v1", objects: 3, color: 3}, next +
			" -color webhook", nil, FieldLoss},
		"the cluster's storage version lacks a field that the file's has": {situation{live: "v2:served,storage -color v1",
			stored: "v1", objects: 3}, next, full("3 objects"), ""},
		"the cluster's storage version has a field that the file's lacks": {situation{live: halfIn, stored: "v2",
			objects: 3, color: 2, facts: naming(1)}, next + " -color", nil, FieldLoss},
		"a field that moved before": {situation{live: both + " -color", stored: "v1 v2", objects: 3,
			color: 2}, both + " -color", []string{"apply: apply it with v1, v2"}, ""},
		"no storage version": {situation{live: old, stored: "v1"}, "v1:served", nil, Invalid},
		"two storage versions": {situation{live: old, stored: "v1"},
			"v1:served,storage v2:storage", nil, Invalid},
		"a version goes that ownerReferences name": {situation{live: both, stored: "v2", objects: 3,
			facts: pointedAt(2)}, next, nil, HasDependents},
		"a version that ownerReferences name is not served": {situation{live: both, stored: "v2", objects: 3,
			facts: pointedAt(2)}, "v1 v2:served,storage", nil, HasDependents},
		"a version that they name was not served": {situation{live: "v1 v2:served,storage", stored: "v2", objects: 3,
			facts: pointedAt(2)}, next, []string{"apply: apply it with v2"}, ""},
		"ownerReferences that cannot be read": {situation{live: both, stored: "v2", objects: 3,
			facts: Facts{Dependents: map[string]retire.Dependents{"v1": {Unread: []retire.Unread{{Resource: "x"}}}}}},
			next, nil, UnreadOwners},
		"a webhook without an address": {situation{live: old, stored: "v1"}, old +
			" lostwebhook", nil, Invalid},
		"nothing is served and a version goes": {situation{live: both, stored: "v1 v2"}, "v2:storage", nil, Invalid},
		"a version that no CRD has is stored":  {situation{live: next, stored: "v1 v2"}, next, nil, Stranded},
		"objects cannot be listed": {situation{live: both, stored: "v1 v2",
			facts: Facts{Unreadable: "no such version"}}, next, nil, Unreadable},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, _ := test.plan(t, test.next)
			var steps []string
			for _, s := range got.Steps {
				steps = append(steps, fmt.Sprintf("%s: %s", s.Name, s.What))
			}
			if diff := cmp.Diff(test.want, steps); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			var why refusal.Reason
			if got.Refusal != nil {
				why = got.Refusal.Reason
			}
			if why != test.why {
				t.Errorf("refused: %q (%v), want %q", why, got.Refusal, test.why)
			}
		})
	}
}

func TestARefusalSaysWhatIsLostAndWhatHelps(t *testing.T) {
	for name, test := range map[string]struct {
		situation
		next string
		want refusal.Error
	}{
		"nothing in common": {situation{live: "v1:served,storage", stored: "v1", objects: 3, color: 2},
			"v2:served,storage -color", refusal.Error{
				Reason: NothingInCommon,
				Message: "the cluster has v1, the file v2, and no conversion between them: only the apiVersion of 3 objects " +
					"would be changed, and their fields may mean something else; " +
					"upgrade-crd --accept-other-meaning=widgets.demo.example.com accepts that",
				Try: "kubectl get widgets.demo.example.com --all-namespaces -o yaml > widgets.demo.example.com.yaml",
			}},
		"a field goes from the version that stays": {situation{live: "v1:served,storage", stored: "v1", objects: 3, color: 2},
			"v1:served,storage -color", refusal.Error{
				Reason: FieldLoss,
				Message: "2 objects would lose fields that the schema of v1 does not keep, and that they have as far as " +
					"managedFields tell: w0 (spec.color), w1 (spec.color); upgrade-crd --accept-field-loss=widgets.demo.example.com accepts that",
				Try: "kubectl get widgets.demo.example.com --all-namespaces -o yaml > widgets.demo.example.com.yaml",
			}},
		"stranded": {situation{live: "v2:served,storage", stored: "v1 v2"}, "v2:served,storage", refusal.Error{
			Reason: Stranded,
			Message: "status.storedVersions names v1, which neither the cluster's CRD (v2) nor the file (v2) has: " +
				"objects " +
				"that are stored in it cannot be read",
			Try: "kube-migrator retire widgets.demo.example.com --version=v1 --rescue",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, _ := test.plan(t, test.next)
			if diff := cmp.Diff(&test.want, got.Refusal); diff != "" {
				t.Errorf("refusal (-want +got):\n%s", diff)
			}
		})
	}
}

func TestACRDThatIsBeingDeletedIsLeftAlone(t *testing.T) {
	live := crdOf(t, "v1:served,storage")
	if err := json.Unmarshal(
		[]byte(`{"conditions":[{"type":"Terminating","status":"True","message":"instances remain"}]}`), &live.Status,
	); err != nil {
		t.Fatal(err)
	}
	got := Intent{}.Decide(crdOf(t, "v1:served,storage"), Facts{Live: live})
	if got.Refusal == nil || got.Refusal.Reason != Terminating || len(got.Steps) > 0 {
		t.Errorf("plan %+v, want it refused as Terminating", got)
	}
}

func TestTheIntermediateCRDIsTheNewOneWithWhatIsStored(t *testing.T) {
	type version struct {
		Name            string
		Served, Storage bool
	}
	for name, test := range map[string]struct {
		live, next string
		keep       []string
		want       []version
		webhook    bool
	}{
		"a version that goes": {"v1:served,storage v0:served", "v2:served,storage", []string{"v1"},
			[]version{{"v2", true, true}, {"v1", false, false}}, false},
		"the webhook of the file": {"v1:served,storage", "v2:served,storage webhook", []string{"v1"},
			[]version{{"v2", true, true}, {"v1", false, false}}, true},
		"the webhook of the cluster": {"v1:served,storage v2:served webhook", "v2:served,storage", []string{"v1"},
			[]version{{"v2", true, true}, {"v1", false, false}}, true},
		"a webhook that does not know": {"v1:served,storage webhook", "v2:served,storage", []string{"v1"},
			[]version{{"v2", true, true}, {"v1", false, false}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			next, live := crdOf(t, test.next), crdOf(t, test.live)
			before := crdOf(t, test.next).object
			body, err := applicable(between(next, live, test.keep), live)
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Metadata map[string]any
				Spec     struct {
					Versions   []version
					Conversion struct{ Strategy string }
				}
				Status any
			}
			if err := json.Unmarshal(body, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.Spec.Versions); diff != "" {
				t.Errorf("versions (-want +got):\n%s", diff)
			}
			if webhook := got.Spec.Conversion.Strategy == "Webhook"; webhook != test.webhook {
				t.Errorf("conversion by a webhook: %v, want %v", webhook, test.webhook)
			}
			if diff := cmp.Diff(map[string]any{"name": "widgets.demo.example.com", "uid": "u", "resourceVersion": "7"},
				got.Metadata); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, next.object); diff != "" {
				t.Errorf("the CRD of the file has changed (-want +got):\n%s", diff)
			}
			made, err := Parse("", body)
			if err != nil {
				t.Fatal(err)
			}
			if !intermediate(next, made, test.keep) {
				t.Error("the next plan does not see that it is there")
			}
		})
	}
}
