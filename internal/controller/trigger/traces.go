// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// freshness is how long after its last renewal an identity Lease is that of a living process.
const freshness = time.Minute

// readTraces returns what API servers leave behind for longer than they live, sorted: the generation of each EndpointSlice that lists them,
// and each Lease that is not renewed any more. It is never empty, and read before the look that it is recorded with:
// what comes later is new to the next.
func readTraces(ctx context.Context, client rest.Interface) ([]string, error) {
	type object struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     struct {
			HolderIdentity string           `json:"holderIdentity"`
			RenewTime      metav1.MicroTime `json:"renewTime"`
		} `json:"spec"`
	}
	list := func(path, selector string) ([]object, error) {
		raw, err := client.Get().AbsPath(path).Param("labelSelector", selector).SetHeader("Accept", "application/json").Do(ctx).Raw()
		if err != nil {
			return nil, fmt.Errorf("list traces at %s: %w", path, err)
		}
		var found struct {
			Items []object `json:"items"`
		}
		if err := json.Unmarshal(raw, &found); err != nil {
			return nil, fmt.Errorf("decode traces at %s: %w", path, err)
		}
		return found.Items, nil
	}
	listed, err := list("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", apiServerSlices)
	if err != nil {
		return nil, err
	}
	traces := []string{fmt.Sprintf("endpointslices %d", len(listed))}
	for _, s := range listed {
		traces = append(traces, fmt.Sprintf("endpointslice %s %s generation %d", s.Metadata.Name, s.Metadata.UID, s.Metadata.Generation))
	}
	leases, err := list("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", identitySelector)
	if err != nil {
		return nil, err
	}
	for _, l := range leases {
		if time.Since(l.Spec.RenewTime.Time) > freshness {
			traces = append(traces, fmt.Sprintf("lease %s last renewed %s", l.Spec.HolderIdentity, l.Spec.RenewTime.UTC().Format(time.RFC3339Nano)))
		}
	}
	slices.Sort(traces)
	return traces, nil
}
