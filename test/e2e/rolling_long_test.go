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

func TestARollingUpgradeAndADowngradeInTheMiddle(t *testing.T) {
	t.Parallel()
	r := roll(t, nil, heldBack, heldBack, heldBack)
	r.ends(deviceOld)
	r.become(0, upgraded)
	r.become(1, upgraded)
	r.become(0, heldBack)
	r.become(1, heldBack)
	r.ends(deviceOld)
	for i := range r.cluster.Servers {
		r.become(i, upgraded)
	}
	r.ends(deviceNew)
}

func TestARollingUpgradeOfServersThatDeclareWhatTheyStore(t *testing.T) {
	t.Parallel()
	r := roll(t, declaring, heldBack, heldBack, heldBack)
	r.ends(deviceOld)
	for i := range r.cluster.Servers {
		r.become(i, upgraded)
	}
	r.ends(deviceNew)
	if s := r.state(deviceName); s.Status.Evidence != "Declared" {
		t.Errorf("the evidence is %s, want Declared", s.Status.Evidence)
	}
}

func TestARollingUpgradeWhereOneServerDeclaresWhatItStores(t *testing.T) {
	t.Parallel()
	r := roll(t, nil, slices.Concat(heldBack, declaring), heldBack, heldBack)
	r.ends(deviceOld)
	r.become(0, declaring)
	r.become(1, upgraded)
	r.become(2, upgraded)
	r.ends(deviceNew)
	if s := r.state(deviceName); s.Status.Evidence != "Observed" {
		t.Errorf("the evidence is %s, want Observed", s.Status.Evidence)
	}
}

func TestServersThatCrashReturnAndPassBy(t *testing.T) {
	t.Parallel()
	r := roll(t, nil, heldBack, heldBack, heldBack)
	r.ends(deviceOld)
	crashed := r.cluster.Servers[2]
	r.become(0, upgraded)
	crashed.Kill()
	r.become(1, upgraded)
	r.ends(deviceNew) // once nobody expects the crashed one any more

	// It returns as it was.
	r.watch.starting(crashed)
	if err := crashed.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.watch.started(crashed)
	r.untilState(deviceName, "in doubt again", func(s *v1alpha1.StorageState) bool {
		return slices.Contains(s.Status.PersistedStorageVersionHashes, deviceKind.Hash(deviceOld))
	})
	r.become(2, upgraded)
	r.ends(deviceNew)

	// One starts, writes and dies before anybody can have looked twice.
	passing := r.cluster.Servers[2]
	passing.Kill()
	r.watch.starting(passing)
	r.passBy(passing, heldBack)
	r.untilState(deviceName, "in doubt once more", func(s *v1alpha1.StorageState) bool {
		return !persistedOnly("v1")(s)
	})
	r.ends(deviceNew)
}

// passBy starts a server, writes through it as soon as it has its identity Lease, and kills it. Before that no load balancer sends
// anybody to it, and nothing would be left to notice.
func (r *rolling) passBy(s *testbed.Server, flags []string) {
	r.Helper()
	before := r.identities()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var work sync.WaitGroup
	work.Go(func() {
		if err := s.RestartWith(ctx, testbed.ServerOptions{Flags: slices.Concat(r.extra, flags)}); err != nil && ctx.Err() == nil {
			r.Logf("the server that passes by: %v", err)
		}
	})
	eventually(r.T, "the server that passes by has a Lease", func() bool {
		return slices.ContainsFunc(r.identities(), func(id string) bool { return !slices.Contains(before, id) })
	})
	r.watch.passes(deviceKind.Hash(deviceOld))
	wrote := r.write(ctx, s, http.MethodPatch, "first-0")
	s.Kill()
	cancel()
	work.Wait()
	if held := stored(r.T, r.cluster, deviceKind.Prefix); !wrote || held[deviceOld] == 0 {
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
