// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const endpointsPath = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dkubernetes"

// endpoints is where the kube-apiservers are, as EndpointSlice default/kubernetes tells. They keep it themselves: a
// server enters on start, leaves on an orderly stop, and is taken out within half a minute of a crash.
type endpoints struct {
	// known is whether they could be read; why says why not.
	known bool
	why   string
	// addresses are host:port, sorted.
	addresses []string
	// changed is when the set changed last, by the clock of the server that changed it, in whole seconds; zero: unknown.
	changed time.Time
}

func readEndpoints(ctx context.Context, c *client) (endpoints, error) {
	body, _, err := c.get(ctx, endpointsPath)
	switch {
	case statusOf(err) == http.StatusForbidden:
		return endpoints{why: "the EndpointSlice default/kubernetes may not be read"}, nil
	case err != nil:
		return endpoints{}, fmt.Errorf("list EndpointSlices of default/kubernetes: %w", err)
	}
	return parseEndpoints(body)
}

func parseEndpoints(body []byte) (endpoints, error) {
	var list struct {
		Items []endpointSlice `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return endpoints{}, fmt.Errorf("decode EndpointSlices: %w", err)
	}
	e := endpoints{known: true}
	timed := len(list.Items) > 0
	for i := range list.Items {
		slice := &list.Items[i]
		port := portOf(slice)
		for _, ep := range slice.Endpoints {
			for _, a := range ep.Addresses {
				// One that is not ready counts too: it may still write.
				e.addresses = append(e.addresses, net.JoinHostPort(a, port))
			}
		}
		changed := time.Time{}
		for _, m := range slice.Metadata.ManagedFields {
			if m.Time != nil && m.Time.After(changed) {
				changed = m.Time.Time
			}
		}
		timed = timed && !changed.IsZero()
		if changed.After(e.changed) {
			e.changed = changed
		}
	}
	if !timed {
		e.changed = time.Time{}
	}
	slices.Sort(e.addresses)
	e.addresses = slices.Compact(e.addresses)
	return e, nil
}

// endpointSlice is what is read of one.
type endpointSlice struct {
	Metadata  metav1.ObjectMeta `json:"metadata"`
	Endpoints []struct {
		Addresses []string `json:"addresses"`
		TargetRef struct {
			UID string `json:"uid"`
		} `json:"targetRef"`
	} `json:"endpoints"`
	Ports []struct {
		Name string `json:"name"`
		Port int    `json:"port"`
	} `json:"ports"`
}

// portOf returns the port named https, or the first.
func portOf(slice *endpointSlice) string {
	port := 443
	for i, p := range slice.Ports {
		if i == 0 || p.Name == "https" {
			port = p.Port
		}
	}
	return strconv.Itoa(port)
}
