// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

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

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
)

const endpointsPath = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dkubernetes"

func readEndpoints(ctx context.Context, c *client) (snapshot.Endpoints, error) {
	body, _, err := c.get(bounded.WithLimit(ctx, identityBytes), endpointsPath)
	switch {
	case statusOf(err) == http.StatusForbidden:
		return snapshot.Endpoints{Why: "reading the EndpointSlice default/kubernetes is forbidden"}, nil
	case err != nil:
		return snapshot.Endpoints{}, fmt.Errorf("list EndpointSlices of default/kubernetes: %w", err)
	}
	return parseEndpoints(body)
}

func parseEndpoints(body []byte) (snapshot.Endpoints, error) {
	var list struct {
		Items bounded.List[endpointSlice] `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return snapshot.Endpoints{}, fmt.Errorf("decode EndpointSlices: %w", err)
	}
	e := snapshot.Endpoints{Known: true}
	timed := len(list.Items) > 0
	for i := range list.Items {
		slice := &list.Items[i]
		port := portOf(slice)
		for _, ep := range slice.Endpoints {
			for _, a := range ep.Addresses {
				// A server that is not ready counts too: it may still write.
				e.Addresses = append(e.Addresses, net.JoinHostPort(a, port))
			}
		}
		changed := time.Time{}
		for _, m := range slice.Metadata.ManagedFields {
			if m.Time != nil && m.Time.After(changed) {
				changed = m.Time.Time
			}
		}
		timed = timed && !changed.IsZero()
		if changed.After(e.Changed) {
			e.Changed = changed
		}
	}
	if !timed {
		e.Changed = time.Time{}
	}
	slices.Sort(e.Addresses)
	e.Addresses = slices.Compact(e.Addresses)
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
