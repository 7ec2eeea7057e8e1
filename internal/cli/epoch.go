// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-migrator/kube-migrator/agreement"
	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const (
	statesPath = "/apis/migration.k8s.io/v1alpha1/storagestates"
	leasesPath = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	// stateFresh is how long a StorageState speaks for the present. The controller asks the API servers every 10 minutes.
	stateFresh = 15 * time.Minute
)

// apiServers are the processes that can write, by the holders of their identity Leases.
type apiServers struct {
	holders []string // sorted
	unknown string   // why they cannot be known; empty where they are
}

// readAPIServers reads the identity Leases.
func (q *requests) readAPIServers(ctx context.Context) (apiServers, error) {
	var list coordinationv1.LeaseList
	err := q.send(ctx, q.client.Get().AbsPath(leasesPath).Param("labelSelector", "apiserver.kubernetes.io/identity=kube-apiserver"), &list)
	switch {
	case apierrors.IsForbidden(err):
		return apiServers{unknown: "the identity Leases of the API servers in kube-system may not be read"}, nil
	case err != nil:
		return apiServers{}, q.explain("list identity Leases", err)
	}
	return serversOf(list.Items), nil
}

// serversOf tells live servers from dead ones by the newest renewal: the clock of this machine may be wrong by hours. It is pure.
func serversOf(leases []coordinationv1.Lease) apiServers {
	renewed := func(l coordinationv1.Lease) time.Time {
		if l.Spec.RenewTime == nil {
			return time.Time{}
		}
		return l.Spec.RenewTime.Time
	}
	var newest time.Time
	for _, l := range leases {
		if at := renewed(l); at.After(newest) {
			newest = at
		}
	}
	var s apiServers
	for _, l := range leases {
		if newest.Sub(renewed(l)) > agreement.FreshFor {
			continue
		}
		name := l.Name
		if l.Spec.HolderIdentity != nil {
			name = cmp.Or(*l.Spec.HolderIdentity, name)
		}
		s.holders = append(s.holders, name)
	}
	slices.Sort(s.holders)
	if len(s.holders) == 0 {
		s.unknown = "the API servers have no identity Leases"
	}
	return s
}

// readStates reads the StorageStates, by name. A user who may not, and an installation that has none, get none: then the epoch
// decides.
func (q *requests) readStates(ctx context.Context) (map[string]v1alpha1.StorageState, error) {
	var list v1alpha1.StorageStateList
	err := q.send(ctx, q.client.Get().AbsPath(statesPath), &list)
	if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		return nil, q.explain("list StorageStates", err)
	}
	states := map[string]v1alpha1.StorageState{}
	for _, state := range list.Items {
		states[state.Name] = state
	}
	return states, nil
}

// still judges a resource whose last migration was to the version that discovery shows: whether nothing can have written
// another version since (I4). The hash alone does not tell: API servers may have been upgraded and rolled back meanwhile.
func (s seen) still(m *v1alpha1.StorageVersionMigration, r inventory.Resource) (render.Verdict, string) {
	for _, name := range r.Names() {
		state, ok := s.states[name]
		if !ok {
			continue
		}
		if verdict, why := stored(state.Status, r); verdict != render.Safe {
			return verdict, why
		}
		if s.now.Sub(state.Status.LastHeartbeatTime.Time) <= stateFresh {
			return render.Safe, ""
		}
	}
	if why := s.lost(m.Status.Epoch, r); why != "" {
		return render.Undetermined, why
	}
	return render.Safe, ""
}

// stored judges a resource by what is recorded of it.
func stored(state v1alpha1.StorageStateStatus, r inventory.Resource) (render.Verdict, string) {
	persisted := state.PersistedStorageVersionHashes
	switch {
	case len(persisted) == 0:
		return render.Undetermined, "its StorageState does not say yet what is stored"
	case slices.Contains(persisted, v1alpha1.Unknown):
		return render.Undetermined, "its StorageState says that versions may be stored that nobody can name"
	case state.CurrentStorageVersionHash == v1alpha1.Unknown || state.CurrentStorageVersionHash == "":
		return render.Undetermined, "its StorageState says that the API servers do not agree on a version"
	case len(persisted) > 1:
		return render.WorkLeft, "its StorageState says that these versions may be stored: " + strings.Join(persisted, ", ")
	case persisted[0] != state.CurrentStorageVersionHash || persisted[0] != r.StorageVersionHash:
		return render.WorkLeft, "its StorageState says that another version is stored than discovery shows now"
	}
	return render.Safe, ""
}

// lost says why it is not known that an epoch has lasted until now; empty where it has.
func (s seen) lost(epoch *v1alpha1.Epoch, r inventory.Resource) string {
	const since = "; what was written since is not known"
	switch {
	case epoch == nil:
		return "it succeeded, but does not say in which epoch" + since
	case r.CRD != nil:
		if epoch.CRDUID != string(r.CRD.UID) || epoch.CRDGeneration != r.CRD.Generation {
			return "its definition has changed since it succeeded" + since
		}
		return ""
	case len(epoch.Servers) == 0:
		return "nothing shows whether the API servers that store it were started since it succeeded" + since
	case epoch.Evidence != migrate.Observed.String() && epoch.Evidence != migrate.Declared.String():
		return fmt.Sprintf("the evidence is %s, which does not show whether API servers were started since it succeeded%s", epoch.Evidence, since)
	case s.servers.unknown != "":
		return s.servers.unknown + since
	case !slices.Equal(epoch.Servers, s.servers.holders):
		return "API servers were started or stopped since it succeeded" + since
	}
	return ""
}
