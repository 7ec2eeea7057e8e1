// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/crdlife"
)

// Projects whose releases dropped a version of a CRD, with conversion strategy None.
func TestCRDsOfOtherProjectsAreUpgraded(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{})
	t.Run("Knative Serving drops the storage version of DomainMapping",
		func(t *testing.T) { domainMappings(t, newCLI(t, cluster)) })
	t.Run("Flux drops v1beta2 of its sources", func(t *testing.T) { fluxSources(t, newCLI(t, cluster)) })
}

const domainMapping = `
apiVersion: serving.knative.dev/VERSION
kind: DomainMapping
metadata: {name: NAME.example.com, namespace: default}
spec:
  ref: {apiVersion: serving.knative.dev/v1, kind: Service, name: web, namespace: default}`

func domainMappings(t *testing.T, user *cli) {
	const folder, group = "config/core/300-resources", "serving.knative.dev"
	from, to := release(t, "knative.dev/serving@v0.30.0", folder), release(t, "knative.dev/serving@v0.42.2", folder)
	user.kubectl("apply", "-f", from)
	for _, name := range []string{"a", "b", "c"} {
		applyObject(t, user.cluster, "alice", "domainmappings", at(domainMapping, "v1beta1", name))
	}

	upgraded := user.upgradeCRDs(0, to)

	// Its owners wrote v1beta1, so no managedFields entry names v1alpha1.
	want := map[string]string{"domainmappings." + group: "intermediate migrate prune apply"}
	if diff := cmp.Diff(want, stepsOf(upgraded)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	user.wantReleased(to)
	wantStored(t, user.cluster, "/registry/"+group+"/domainmappings/", map[string]int{group + "/v1beta1": 3})
	applyObject(t, user.cluster, "alice", "domainmappings", at(domainMapping, "v1beta1", "a"))
}

const gitRepository = `
apiVersion: source.toolkit.fluxcd.io/VERSION
kind: GitRepository
metadata: {name: NAME, namespace: default}
spec: {interval: 1m, url: "https://example.com/NAME"}`

func fluxSources(t *testing.T, user *cli) {
	const folder, group = "config/crd/bases", "source.toolkit.fluxcd.io"
	const crd = "gitrepositories." + group
	from, to := release(t, "github.com/fluxcd/source-controller@v1.7.0", folder),
		release(t, "github.com/fluxcd/source-controller@v1.8.5", folder)
	user.kubectl("apply", "--server-side", "-f", from)
	// As in a cluster that has been there since v1beta2 was the storage version.
	if err := user.cluster.MoveStorage(t.Context(), crd, "v1beta2"); err != nil {
		t.Fatal(err)
	}
	applyObject(t, user.cluster, "alice", "gitrepositories", at(gitRepository, "v1beta2", "a"))
	applyObject(t, user.cluster, "alice", "gitrepositories",
		strings.Replace(at(gitRepository, "v1beta2", "b"), "spec: {",
			"spec: {accessFrom: {namespaceSelectors: [{}]}, ", 1))
	user.kubectl("apply", "--server-side", "--force-conflicts", "-f", from)

	refused := user.upgradeCRDs(2, to)[crd]

	if refused.Reason != crdlife.FieldLoss {
		t.Errorf("refused: %q (%s), want FieldLoss", refused.Reason, refused.Error)
	}
	if got := shownLosses(refused); got != "1 objects: spec.accessFrom" {
		t.Errorf("losses: %v", got)
	}
	upgraded := user.upgradeCRDs(0, to, "--accept-field-loss="+crd)
	if diff := cmp.Diff(map[string]string{crd: wholeUpgrade}, stepsOf(upgraded)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	user.wantReleased(to)
	wantStored(t, user.cluster, "/registry/"+group+"/gitrepositories/", map[string]int{group + "/v1": 2})
	applyObject(t, user.cluster, "alice", "gitrepositories", at(gitRepository, "v1", "a"))
}
