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
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/internal/bounded"
)

const endpointsPath = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dkubernetes"

// endpoints are the addresses of the kube-apiservers, from EndpointSlice default/kubernetes. The servers maintain it
// themselves: a server adds its address when it starts, removes it when it shuts down, and is removed within half a
// minute after a crash.
type endpoints struct {
	// known means that they could be read; why says why not.
	known bool
	why   string
	// addresses are host:port, sorted.
	addresses []string
	// changed is when the set last changed, by the clock of the server that changed it, in whole seconds. It is zero if
	// that is unknown.
	changed time.Time
}

func readEndpoints(ctx context.Context, c *client) (endpoints, error) {
	body, _, err := c.get(bounded.WithLimit(ctx, identityBytes), endpointsPath)
	switch {
	case statusOf(err) == http.StatusForbidden:
		return endpoints{why: "reading the EndpointSlice default/kubernetes is forbidden"}, nil
	case err != nil:
		return endpoints{}, fmt.Errorf("list EndpointSlices of default/kubernetes: %w", err)
	}
	return parseEndpoints(body)
}

func parseEndpoints(body []byte) (endpoints, error) {
	var list struct {
		Items bounded.List[endpointSlice] `json:"items"`
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
				// A server that is not ready counts too: it may still write.
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

// endpointSlice contains the fields that are read of an EndpointSlice.
type endpointSlice struct {
	Metadata  objectMeta `json:"metadata"`
	Endpoints bounded.List[struct {
		Addresses bounded.List[string] `json:"addresses"`
		TargetRef struct {
			UID string `json:"uid"`
		} `json:"targetRef"`
	}] `json:"endpoints"`
	Ports bounded.List[struct {
		Name string `json:"name"`
		Port int    `json:"port"`
	}] `json:"ports"`
}

// objectMeta contains the fields that are read of the metadata of a Lease or an EndpointSlice. All others may be of any
// size.
type objectMeta struct {
	Name              string            `json:"name"`
	UID               types.UID         `json:"uid"`
	Generation        int64             `json:"generation"`
	CreationTimestamp metav1.Time       `json:"creationTimestamp"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
	ManagedFields     bounded.List[struct {
		Time *metav1.Time `json:"time"`
	}] `json:"managedFields"`
}

// identityBytes bounds a list of Leases or of EndpointSlices before it is decoded (I6). Their objects have about 1 KiB
// each.
const identityBytes = 4 << 20

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
