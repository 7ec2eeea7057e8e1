// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/golden"
)

func TestAPlanIsWrittenInEveryFormat(t *testing.T) {
	plan := Plan{
		ObjectsPerSecond: 100,
		Resources: []PlannedResource{
			{
				Name: "widgets.demo.example.com", Group: "demo.example.com", Resource: "widgets", Kind: "Widget",
				Origin: "Custom", Namespaced: true,
				ServedVersions: []string{"v2", "v1"}, EndpointVersion: "v2", StorageVersion: "v2",
				StorageVersionHash: "q1aZmn6pPYg=",
				StoredVersions:     []string{"v1", "v2"}, Objects: new(int64(12345)), ObjectsEstimated: true,
				Migration: "yes", Why: "stored versions claim v1 too",
				Next: "kube-migrator migrate widgets.demo.example.com", DurationSeconds: new(123.45),
			},
			{
				Name: "relics.demo.example.com", Group: "demo.example.com", Resource: "relics",
				Kind: "Relic", Origin: "Custom",
				ServedVersions: []string{}, StorageVersion: "v2", StorageVersionHash: "q1aZmn6pPYh=",
				StoredVersions: []string{"v1", "v2"},
				Migration:      "yes", Why: "stored versions claim v1 too; but cannot: its CRD serves no version", Problem: "NotServed",
			},
			{
				Name: "events", Resource: "events", AlsoServedAs: []string{"events.events.k8s.io"}, Kind: "Event",
				Origin: "BuiltIn", Namespaced: true,
				ServedVersions: []string{"v1"}, EndpointVersion: "v1", StorageVersion: "v1",
				StorageVersionHash: "r2yiGXH7wu8=",
				Objects:            new(int64(1)), Migration: "unknown",
				Why:  "nothing records what is stored; audit reads it from etcd, and migrate makes it current",
				Next: "kube-migrator migrate events", DurationSeconds: new(0.01),
			},
			{
				Name: "secrets", Resource: "secrets", Kind: "Secret", Namespaced: true,
				ServedVersions: []string{"v1"}, EndpointVersion: "v1",
				StorageVersionHash: "S6u1pOWzb84=", CountError: "secrets is forbidden: you cannot list them",
				CountForbidden: true,
				Migration:      "unknown", Why: "nothing records what is stored; audit reads it from etcd, and " +
					"migrate makes it current", Next: "kube-migrator migrate secrets",
			},
			{
				Name: "gadgets.demo.example.com", Group: "demo.example.com", Resource: "gadgets", Kind: "Gadget",
				Origin: "Aggregated", Service: "ns/gadgets",
				ServedVersions: []string{"v1"}, EndpointVersion: "v1", StorageVersion: "v1",
				StorageVersionHash: "q1aZmn6pPYi=",
				CountError:         "conversion webhook failed", Migration: "unknown",
				Why: "nothing records what is stored; cannot list: conversion webhook failed",
			},
			{
				Name: "leases.coordination.k8s.io", Group: "coordination.k8s.io", Resource: "leases", Kind: "Lease",
				Origin: "BuiltIn", Namespaced: true,
				ServedVersions: []string{"v1"}, EndpointVersion: "v1", StorageVersion: "v1",
				StorageVersionHash: "gqkMMb/YqFM=",
				Objects:            new(int64(0)), Migration: "no", Why: "there are no objects",
			},
			{
				Name: "subjectaccessreviews.authorization.k8s.io", Group: "authorization.k8s.io",
				Resource: "subjectaccessreviews", Kind: "SubjectAccessReview",
				Origin: "BuiltIn", ServedVersions: []string{"v1"}, Migration: "no", Why: "nothing is stored",
				Problem: "NotPersisted", NotStored: true,
			},
		},
		Failures: []PlanFailure{{What: "down.example.com/v1", APIService: "v1.down.example.com",
			Service: "elsewhere/down", Reason: "no endpoints"}},
	}
	for _, format := range []Format{Table, Wide, JSON, YAML, Name} {
		t.Run(string(format), func(t *testing.T) {
			var out bytes.Buffer
			if err := plan.Write(&out, format); err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "testdata/plan."+string(format), out.String())
		})
	}
}

func TestAPlanCountsWhatItsTableLeavesOut(t *testing.T) {
	plan := Plan{Resources: []PlannedResource{{Name: "pods"}, {Name: "bindings", NotStored: true}}}
	if n := plan.NotStored(); n != 1 {
		t.Errorf("NotStored() = %d, want 1", n)
	}
}

func TestManyResourcesWithOneReasonShareOneLine(t *testing.T) {
	var p Plan
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		p.Resources = append(p.Resources, PlannedResource{Name: name, Migration: "unknown", Why: "nothing records it",
			Next: "kube-migrator migrate " + name})
	}
	var out bytes.Buffer
	if err := p.Write(&out, Table); err != nil {
		t.Fatal(err)
	}
	if _, got, _ := strings.Cut(out.String(),
		"\n\n"); got != "6 resources (unknown): nothing records it\n  Try: kube-migrator migrate --all\n" {
		t.Errorf("got %q", got)
	}
}

func TestReasonsNameEachResourceAndFitTheTerminal(t *testing.T) {
	const long = "mutatingadmissionpolicybindings.admissionregistration.k8s.io"
	many := []string{"a", "b", "c", "d", "e", long, long + ".x"}
	var all []reason
	for _, name := range many {
		all = append(all, reason{name, "", "no one knows", "kube-migrator request " + name})
	}
	all = append(all, reason{"g", "crds.yaml", "it lacks v1", "kubectl get g --all-namespaces"},
		reason{"h", "crds.yaml", "it lacks v1", "kubectl get h --all-namespaces"})
	var b strings.Builder
	writeReasons(&b, all, 0)
	want := "a, b, c, d, e, " + long + ",\n    " + long + ".x: no one knows\n  Try: kube-migrator request --all\n" +
		"g, h (crds.yaml): it lacks v1\n  Try: kubectl get g,h --all-namespaces\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}
