// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/internal/identity"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/ledger"
)

// object contains the fields that are read of an EndpointSlice or a Lease.
type object struct {
	Metadata struct {
		Name       string    `json:"name"`
		UID        types.UID `json:"uid"`
		Generation int64     `json:"generation"`
	} `json:"metadata"`
	Spec struct {
		HolderIdentity string           `json:"holderIdentity"`
		RenewTime      metav1.MicroTime `json:"renewTime"`
	} `json:"spec"`
	Endpoints bounded.List[struct {
		Addresses []string `json:"addresses"`
	}] `json:"endpoints"`
}

// traces are what API servers leave behind, and the position of etcd.
type traces struct {
	left []string
	// resourceVersion is that of the identity Leases, or 0 if it is unknown.
	resourceVersion uint64
}

// traceBytes bounds each of the two lists. Their objects have about 1 KiB each (I6).
const traceBytes = 4 << 20

// readTraces returns, sorted, what API servers leave behind that outlasts them: the generation of each EndpointSlice
// that lists them, and each Lease that is no longer renewed. They have to be read before the look that records them, so
// that later traces are new to the next look.
func readTraces(ctx context.Context, client rest.Interface) (traces, error) {
	list := func(path, selector string) (items []object, resourceVersion string, err error) {
		var found struct {
			Metadata metav1.ListMeta      `json:"metadata"`
			Items    bounded.List[object] `json:"items"`
		}
		err = apiserver.Send(bounded.WithLimit(ctx, traceBytes),
			client.Get().AbsPath(path).Param("labelSelector", selector), &found)
		if err != nil {
			return nil, "", fmt.Errorf("list traces at %s: %w", path, err)
		}
		return found.Items, found.Metadata.ResourceVersion, nil
	}
	endpointSlices, _, err := list("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", apiServerSlices)
	if err != nil {
		return traces{}, err
	}
	leases, version, err := list("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", identitySelector)
	if err != nil {
		return traces{}, err
	}
	t := traces{left: left(endpointSlices, leases)}
	t.resourceVersion, _ = strconv.ParseUint(version, 10, 64) // 0 means unknown
	return t, nil
}

// left returns the traces, sorted. EndpointSlices show processes that came and went only if they list the API servers
// themselves. They do not with --endpoint-reconciler-type=none, or if --advertise-address is the address of a load
// balancer. It is pure.
func left(endpointSlices, leases []object) []string {
	stale := abandoned(leases)
	list := append([]string{fmt.Sprintf("endpointslices %d", len(endpointSlices))}, stale...)
	addresses := map[string]bool{}
	for _, s := range endpointSlices {
		list = append(list, fmt.Sprintf("endpointslice %s %s generation %d", s.Metadata.Name, s.Metadata.UID,
			s.Metadata.Generation))
		for _, e := range s.Endpoints {
			for _, address := range e.Addresses {
				addresses[address] = true
			}
		}
	}
	if len(addresses) == 0 || len(addresses) < len(leases)-len(stale) {
		list = append(list, ledger.Untraced)
	}
	slices.Sort(list)
	return list
}

// abandoned returns the traces of the Leases that are no longer renewed. It measures their age by the newest renewal,
// because this machine's clock may be wrong, and then a live Lease would add a trace with every renewal. It is pure.
func abandoned(leases []object) (list []string) {
	var newest time.Time
	for _, l := range leases {
		if l.Spec.RenewTime.After(newest) {
			newest = l.Spec.RenewTime.Time
		}
	}
	for _, l := range leases {
		if newest.Sub(l.Spec.RenewTime.Time) > identity.FreshFor {
			list = append(list, expired(l.Spec.HolderIdentity)+l.Spec.RenewTime.UTC().Format(time.RFC3339Nano))
		}
	}
	return list
}

// expired returns the beginning of the trace of a process that no longer renews its Lease.
func expired(holder string) string { return "lease " + holder + " last renewed " }

// cameBack reports whether a process has left the trace of a Lease that it did not renew.
func cameBack(traces []string, process string) bool {
	return process != "" && slices.ContainsFunc(traces,
		func(trace string) bool { return strings.HasPrefix(trace, expired(process)) })
}
