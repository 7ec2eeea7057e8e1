// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/agreement"
)

// object is what is read of an EndpointSlice or a Lease.
type object struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		HolderIdentity string           `json:"holderIdentity"`
		RenewTime      metav1.MicroTime `json:"renewTime"`
	} `json:"spec"`
}

// traces is what API servers leave behind, and how far etcd is.
type traces struct {
	left []string
	// resourceVersion of the identity Leases; 0: not known.
	resourceVersion uint64
}

// readTraces returns what API servers leave behind for longer than they live, sorted: the generation of each EndpointSlice that lists them,
// and each Lease that is not renewed any more. It is never empty, and read before the look that it is recorded with:
// what comes later is new to the next.
func readTraces(ctx context.Context, client rest.Interface) (traces, error) {
	list := func(path, selector string) (items []object, resourceVersion string, err error) {
		raw, err := client.Get().AbsPath(path).Param("labelSelector", selector).SetHeader("Accept", "application/json").Do(ctx).Raw()
		if err != nil {
			return nil, "", fmt.Errorf("list traces at %s: %w", path, err)
		}
		var found struct {
			Metadata metav1.ListMeta `json:"metadata"`
			Items    []object        `json:"items"`
		}
		if err := json.Unmarshal(raw, &found); err != nil {
			return nil, "", fmt.Errorf("decode traces at %s: %w", path, err)
		}
		return found.Items, found.Metadata.ResourceVersion, nil
	}
	slices, _, err := list("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", apiServerSlices)
	if err != nil {
		return traces{}, err
	}
	t := traces{left: []string{fmt.Sprintf("endpointslices %d", len(slices))}}
	for _, s := range slices {
		t.left = append(t.left, fmt.Sprintf("endpointslice %s %s generation %d", s.Metadata.Name, s.Metadata.UID, s.Metadata.Generation))
	}
	leases, version, err := list("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", identitySelector)
	if err != nil {
		return traces{}, err
	}
	t.resourceVersion, _ = strconv.ParseUint(version, 10, 64) // 0 says nothing
	t.left = append(t.left, abandoned(leases)...)
	sort.Strings(t.left)
	return t, nil
}

// abandoned are the Leases that are not renewed any more, by the newest renewal: this machine's clock may be wrong, and a Lease that
// lives would be another trace with every renewal. Pure.
func abandoned(leases []object) (list []string) {
	var newest time.Time
	for _, l := range leases {
		if l.Spec.RenewTime.After(newest) {
			newest = l.Spec.RenewTime.Time
		}
	}
	for _, l := range leases {
		if newest.Sub(l.Spec.RenewTime.Time) > agreement.FreshFor {
			list = append(list, fmt.Sprintf("lease %s last renewed %s", l.Spec.HolderIdentity, l.Spec.RenewTime.UTC().Format(time.RFC3339Nano)))
		}
	}
	return list
}
