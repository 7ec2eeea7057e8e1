// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/request"
)

// An operator that finds its children by the owner that an index holds, and an admission server that knows its requests
// by resource and kind. All of it compiles after the move, and none of it finds what says the new version.
var usesOfTheVersion = map[string]string{
	"internal/controller/children.go": `package controller

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cachev1 "github.com/test-org/cache-operator/api/v1"
)

var (
	ownerKey = ".metadata.controller"
	apiGVStr = cachev1.GroupVersion.String()
)

const memcachedKind = "Memcached"

// ownerOf is the function of an index.
func ownerOf(object metav1.Object) []string {
	owner := metav1.GetControllerOf(object)
	if owner == nil {
		return nil
	}
	if owner.APIVersion != apiGVStr || owner.Kind != memcachedKind {
		return nil
	}
	return []string{ownerKey, owner.Name}
}

func isOurs(owner metav1.OwnerReference) bool {
	return owner.APIVersion == cachev1.GroupVersion.String() && owner.Kind == "Memcached"
}

func isBackup(owner metav1.OwnerReference) bool {
	return owner == metav1.OwnerReference{APIVersion: cachev1.GroupVersion.String(), Kind: "Backup"}
}

func isAnyOf(owner metav1.OwnerReference) bool {
	return owner.APIVersion == cachev1.APIVersion || owner.APIVersion == cachev1.Of("Memcached").GroupVersion().String()
}
`,
	"internal/admission/server.go": `package admission

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	cachev1 "github.com/test-org/cache-operator/api/v1"
)

const groupName = "cache.example.com"

var group = "cache.example.com"

var (
	resource = metav1.GroupVersionResource{Group: groupName, Version: "v1", Resource: "memcacheds"}
	kinds    = []*schema.GroupVersionKind{{Group: "cache.example.com", Version: "v1", Kind: "Memcached"}}
	variable = schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Memcached"}
	asked    = schema.GroupVersionKind{Group: askedGroup(), Version: "v1", Kind: "Memcached"}
	pods     = schema.GroupVersionResource{Group: askedGroup(), Version: "v1", Resource: "pods"}
	with     = schema.GroupKind{Group: "cache.example.com", Kind: "Memcached"}.WithVersion("v1")
	without  = schema.GroupKind{Group: "cache.example.com", Kind: "Backup"}.WithVersion("v1")
	folded   = groupName + "/v1"
	served   = cachev1.GroupVersion.WithResource("memcacheds")
	backups  = []any{cachev1.GroupVersion.WithResource("backups"), cachev1.GroupVersion.WithKind("Backup")}
	groups   = []any{cachev1.GroupVersion.Group, cachev1.GroupVersion.WithKind("Memcached").GroupKind()}
)

func askedGroup() string { return group }
`,
	"api/v1/names.go": `package v1

import "k8s.io/apimachinery/pkg/runtime/schema"

// APIVersion is what objects say.
var APIVersion = GroupVersion.String()

// Of is a kind of this version.
func Of(kind string) schema.GroupVersionKind { return GroupVersion.WithKind(kind) }
`,
}

func TestUsesOfTheOldVersionThatStayOrChangeAreReportedWithPlaceAndReason(t *testing.T) {
	t.Parallel()
	dir := fixture(t, "kubebuilder")
	write(t, dir, usesOfTheVersion)
	commit(t, dir, "with uses of the version")
	plan := planned(t, dir, memcachedRequest)
	if len(plan.Blockers) > 0 {
		t.Fatalf("blockers: %v", plan.Blockers)
	}
	var got []string
	for _, finding := range plan.Findings {
		file, _, _ := strings.Cut(finding.Where, ":")
		if _, ok := usesOfTheVersion[file]; ok && !strings.Contains(finding.Text, "as a guess") {
			got = append(got, finding.String())
		}
	}
	stays := func(what string) string {
		return what + " still means cache.example.com/v1: it does not match objects, ownerReferences and requests " +
			"that say cache.example.com/v1beta2. " +
			"Compare the group and the kind alone, or take both versions"
	}
	want := []string{
		"api/v1/names.go:6: " + stays("GroupVersion"),
		"api/v1/names.go:9: " + stays("GroupVersion"),
		"internal/controller/children.go:11: " + stays("cachev1.GroupVersion"),
		"internal/controller/children.go:29: cachev1.GroupVersion becomes the new version's: " +
			"it does not match objects, ownerReferences and requests that still say cache.example.com/v1. Compare " +
			"the group and the kind alone, or take both versions",
		"internal/controller/children.go:37: " + stays("cachev1.APIVersion"),
		"internal/controller/children.go:37: " + stays("cachev1.Of"),
		"internal/admission/server.go:15: builds a group, version and kind or resource of cache.example.com/v1 by " +
			"hand: it does not match requests and objects of the new version; so do the lines 16, 17, 20",
		"internal/admission/server.go:18: may build a group, version and kind or resource of cache.example.com/v1, " +
			"which no compiler tells",
		"internal/admission/server.go:22: has cache.example.com/v1 in a string, which no compiler checks",
		"internal/admission/server.go:23: " + stays("cachev1.GroupVersion"),
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestUsesOfTheOldGroupAreReportedWhereAKindMovesToAnother(t *testing.T) {
	t.Parallel()
	const file = "internal/controller/children.go"
	dir := fixture(t, "kubebuilder")
	write(t, dir, map[string]string{file: `package controller

import cachev1 "github.com/test-org/cache-operator/api/v1"

var (
	group   = cachev1.GroupVersion.Group
	version = cachev1.GroupVersion.String()
	backup  = cachev1.GroupVersion.WithKind("Backup").GroupKind()
	moved   = cachev1.GroupVersion.WithKind("Memcached").GroupKind()
)
`})
	commit(t, dir, "with uses of the group")
	asked := memcachedRequest
	asked.To = "storage.example.com/v1"
	var got []string
	for _, finding := range planned(t, dir, asked).Findings {
		if strings.HasPrefix(finding.Where, file) {
			got = append(got, finding.String())
		}
	}
	want := []string{
		file + ":6: cachev1.GroupVersion still means cache.example.com: it does not match objects, ownerReferences " +
			"and requests that say storage.example.com. Decide which one is meant",
		file + ":7: cachev1.GroupVersion still means cache.example.com/v1: it does not match objects, " +
			"ownerReferences and requests that say storage.example.com/v1. Decide which one is meant",
		file + ":9: cachev1.GroupVersion becomes the new version's: it does not match objects, ownerReferences and " +
			"requests that still say cache.example.com. Decide which one is meant",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestUsesOfTheOldVersionAreReportedWhereImportersAreLeftAlone(t *testing.T) {
	t.Parallel()
	const file = "internal/controller/children.go"
	dir := fixture(t, "kubebuilder")
	write(t, dir, map[string]string{file: usesOfTheVersion[file],
		"api/v1/names.go": usesOfTheVersion["api/v1/names.go"]})
	commit(t, dir, "with uses of the version")
	asked := memcachedRequest
	asked.Consumers = []string{request.ConsumersNone}
	lines := map[string]bool{}
	for _, finding := range planned(t, dir, asked).Findings {
		if strings.Contains(finding.Text, "still means cache.example.com/v1:") {
			lines[finding.Where] = true
		}
	}
	for _, line := range []string{":11", ":29", ":37"} {
		if !lines[file+line] {
			t.Errorf("no finding in line %s; there are %v", line, lines)
		}
	}
}
