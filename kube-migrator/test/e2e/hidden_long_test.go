// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e

import (
	"testing"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// docs/evidence.md promises these.
func TestEveryControlPlaneOfEveryReleaseIsMigratedWithoutAFlag(t *testing.T) {
	// anonymous servers have no identity Lease.
	anonymous := topology{1, []string{"--feature-gates=APIServerIdentity=false"}, ownAddress, migrate.Verified}
	for _, release := range []testbed.Release{testbed.V130, testbed.V132, testbed.V134, testbed.V136, testbed.V137} {
		all := map[string]topology{"single": single, "several": several, "balanced": balanced, "random": random,
			"proxied": proxied}
		if release < testbed.V136 {
			all["anonymous"] = anonymous
		}
		for name, one := range all {
			t.Run(string(release)+"/"+name, func(t *testing.T) { one.migrates(t, release) })
		}
	}
}

// Only the start of a process of 1.32 shows that it is another one: 1.30 takes over its Lease, and it the Lease of 1.30.
func TestAServerBehindTheBalancerThatIsAnotherOneForAMomentEndsTheEpochWhereLeasesDoNotShowIt(t *testing.T) {
	const group = "admissionregistration.k8s.io"
	replacedForAMoment(t, testbed.Edition{Release: testbed.V130, Stores: group + "/v1beta1"},
		testbed.Edition{Release: testbed.V132, Stores: group + "/v1"}, written{
			kind: testbed.Kind{Group: group, Version: "v1", Kind: "ValidatingAdmissionPolicyBinding",
				Plural: "validatingadmissionpolicybindings", Prefix: "/registry/validatingadmissionpolicybindings/"},
			path: "/apis/" + group + "/v1/validatingadmissionpolicybindings",
			spec: map[string]any{"policyName": "none.example.com", "validationActions": []string{"Deny"}},
		})
}

// The Lease of a server of 1.32 keeps its holder, and the EndpointSlice its address, when the server crashes and returns
// at once. It may have been another server in between.
func TestARestartOfAServerWhoseLeaseDoesNotShowItIsADoubt(t *testing.T) {
	cluster := testbed.New(t, testbed.Options{Release: testbed.V132, Isolated: true,
		Servers: make([]testbed.ServerOptions, 2)})
	wantListed(t, cluster)
	server := cluster.Servers[1] // the controller watches through the other one
	c := newControlled(t, cluster)
	c.triggering("--include=configmaps", "--include=secrets", "--discovery-period=2s")
	for _, name := range []string{"configmaps", "secrets"} {
		c.untilState(name, "proven", persistedOnly("v1"))
	}
	before := c.state("secrets").Status
	holder, err := server.Holder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		server.Kill()
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if again, err := server.Holder(t.Context()); err != nil || again != holder {
		t.Fatalf("the holder is %s (%v), was %s", again, err, holder)
	}
	after := c.untilState("secrets", "doubted, and proven again", func(s *v1alpha1.StorageState) bool {
		return persistedOnly("v1")(s) && s.Status.RequiredStartResourceVersion != before.RequiredStartResourceVersion
	}).Status
	if after.ServerStorageVersions[0].HolderIdentity == before.ServerStorageVersions[0].HolderIdentity {
		t.Errorf("the process is still %s", after.ServerStorageVersions[0].HolderIdentity)
	}
}
