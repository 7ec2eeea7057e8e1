// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func TestARollingUpgradeOfServersThatDeclareWhatTheyStore(t *testing.T) {
	t.Parallel()
	r := roll(t, deviceClasses, declaring(heldBack), declaring(heldBack), declaring(heldBack))
	r.start()
	r.ends(deviceOld)
	for i := range r.cluster.Servers {
		r.become(i, declaring(upgraded))
	}
	r.ends(deviceNew)
	if s := r.state(deviceClasses.kind.Name()); s.Status.Evidence != "Declared" {
		t.Errorf("the evidence is %s, want Declared", s.Status.Evidence)
	}
}

func TestARollingUpgradeWhereOneServerDeclaresWhatItStores(t *testing.T) {
	t.Parallel()
	r := roll(t, deviceClasses, declaring(heldBack), heldBack, heldBack)
	r.start()
	r.ends(deviceOld)
	r.become(0, declaring(upgraded))
	r.become(1, upgraded)
	r.become(2, upgraded)
	r.ends(deviceNew)
	if s := r.state(deviceClasses.kind.Name()); s.Status.Evidence != "Observed" {
		t.Errorf("the evidence is %s, want Observed", s.Status.Evidence)
	}
}

func TestServersThatCrashReturnAndPassBy(t *testing.T) {
	t.Parallel()
	r := roll(t, deviceClasses, heldBack, heldBack, heldBack)
	name := deviceClasses.kind.Name()
	r.start()
	r.ends(deviceOld)
	r.become(0, upgraded)
	r.known(2)
	r.holders[2] = r.holder(2)
	crashed := r.cluster.Servers[2]
	crashed.Kill()
	r.watch.ended(crashed)
	r.become(1, upgraded)
	r.ends(deviceNew) // once nothing expects the crashed one any more

	// It returns as it was.
	r.watch.begins(crashed, deviceOld)
	if err := crashed.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.untilState(name, "in doubt again", func(s *v1alpha1.StorageState) bool {
		return slices.Contains(s.Status.PersistedStorageVersionHashes, deviceClasses.kind.Hash(deviceOld))
	})
	r.become(2, upgraded)
	r.ends(deviceNew)

	// One starts, writes and dies before the trigger can have looked twice.
	r.end(2)
	r.passBy(r.cluster.Servers[2], heldBack)
	r.untilState(name, "in doubt once more", func(s *v1alpha1.StorageState) bool { return !persistedOnly("v1")(s) })
	r.watch.ended(r.cluster.Servers[2]) // not earlier: the trigger notices it by the Lease that it leaves
	r.ends(deviceNew)
}

// passBy starts a server, writes through it as soon as it has its identity Lease, and kills it. Before that no load
// balancer sends anything to it, and it would leave no trace.
func (r *rolling) passBy(s *testbed.Server, as testbed.Edition) {
	r.Helper()
	before := r.identities()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var work sync.WaitGroup
	r.watch.begins(s, as.Stores)
	work.Go(func() {
		if err := s.RestartWith(ctx, as.Options()); err != nil && ctx.Err() == nil {
			r.Logf("the server that passes by: %v", err)
		}
	})
	eventually(r.T, "the server that passes by has a Lease", func() bool {
		return slices.ContainsFunc(r.identities(), func(id string) bool { return !slices.Contains(before, id) })
	})
	wrote := r.write(ctx, s, r.what, http.MethodPatch, "first-0")
	s.Kill()
	cancel()
	work.Wait()
	if held := stored(r.T, r.cluster, r.what.kind.Prefix); !wrote || held[as.Stores] == 0 {
		r.Errorf("etcd holds %v: the server that passed by wrote nothing", held)
	}
}

// identities are the holders of the identity Leases.
func (r *rolling) identities() (holders []string) {
	r.Helper()
	var leases struct {
		Items []struct {
			Spec struct {
				HolderIdentity string `json:"holderIdentity"`
			} `json:"spec"`
		} `json:"items"`
	}
	get(r.T, r.cluster, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?labelSelector=apiserver.kubernetes.io/identity=kube-apiserver", &leases)
	for _, l := range leases.Items {
		holders = append(holders, l.Spec.HolderIdentity)
	}
	return holders
}
