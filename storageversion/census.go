// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/identity"
)

// leasesPerList bounds one list of Leases (I6). Servers that it leaves out are asked for by name.
const leasesPerList = "500"

// census finds out which servers are members: those with an identity Lease that has not expired. In doubt a server is a
// member: its entry only delays a migration, and the loss of an entry of a live server would break I1.
type census struct {
	api       *client
	namespace string // of the identity Leases
	// everywhere makes it look for a server's Lease in all namespaces, if neither namespace nor kube-system has it.
	everywhere bool
	observed   observations

	// The present pass. members are the servers that were members at some moment of it, expired are the expired Leases
	// that it found, by path, and next is how long the Lease that expires first can still count.
	members map[string]bool
	listed  bool
	expired map[string]*coordinationv1.Lease
	next    time.Duration
}

// begin starts another pass.
func (c *census) begin() {
	c.observed.forget()
	c.members, c.listed, c.expired = map[string]bool{}, false, map[string]*coordinationv1.Lease{}
	c.next = 2 * identity.UnstatedDuration
}

// gone returns which of the servers are not members. It reads the Leases of these after it was called: a caller that
// has read an entry before, and writes under the resourceVersion of that, cannot drop an entry that a server with the
// same ID publishes later.
func (c *census) gone(ctx context.Context, servers []string) (gone []string, err error) {
	if len(servers) == 0 {
		return nil, nil
	}
	if !c.listed {
		if err := c.list(ctx); err != nil {
			return nil, err
		}
	}
	for _, id := range servers {
		if c.members[id] {
			continue
		}
		member, err := c.member(ctx, id)
		if err != nil {
			return nil, err
		}
		if member {
			c.members[id] = true
		} else {
			gone = append(gone, id)
		}
	}
	return gone, nil
}

// list notes the members that have labelled Leases in the namespace.
func (c *census) list(ctx context.Context) error {
	path, err := leasesPath(c.namespace)
	if err != nil {
		return err
	}
	var list coordinationv1.LeaseList
	query := url.Values{"labelSelector": {identity.Label}, "limit": {leasesPerList}}
	if err := c.api.do(ctx, http.MethodGet, path, query, nil, &list); err != nil {
		return err
	}
	for i := range list.Items {
		lease := &list.Items[i]
		if !c.hasExpired(lease) {
			c.members[lease.Name] = true
		} else if object, err := apipath.Join(path, lease.Name); err == nil {
			c.expired[object] = lease
		}
	}
	c.listed = true
	return nil
}

// member reads a server's Lease by its name: in the namespace of this server, and in that of kube-apiservers.
func (c *census) member(ctx context.Context, id string) (bool, error) {
	for _, namespace := range slices.Compact([]string{c.namespace, metav1.NamespaceSystem}) {
		leases, err := leasesPath(namespace)
		if err != nil {
			return false, err
		}
		path, err := apipath.Join(leases, id)
		if err != nil {
			return true, nil //nolint:nilerr // no Lease can have this name: another program wrote the entry
		}
		var lease coordinationv1.Lease
		err = c.api.do(ctx, http.MethodGet, path, nil, nil, &lease)
		switch {
		case hasStatus(err, http.StatusNotFound):
		case hasStatus(err, http.StatusForbidden) && namespace != c.namespace:
			return true, nil // unknown
		case err != nil:
			return false, err
		case !c.hasExpired(&lease):
			return true, nil
		}
	}
	if c.everywhere {
		return c.elsewhere(ctx, id)
	}
	return false, nil
}

// elsewhere reads the Leases of that name in all namespaces: a server may keep its own in any.
func (c *census) elsewhere(ctx context.Context, id string) (bool, error) {
	query := url.Values{"fieldSelector": {"metadata.name=" + id}, "limit": {leasesPerList}}
	var list coordinationv1.LeaseList
	if err := c.api.do(ctx, http.MethodGet, "/apis/coordination.k8s.io/v1/leases", query, nil, &list); err != nil {
		return false, err
	}
	for i := range list.Items {
		if !c.hasExpired(&list.Items[i]) {
			return true, nil
		}
	}
	return list.Continue != "", nil // unknown where there are more
}

// hasExpired notes a Lease as it was just read, and reports whether it has expired.
func (c *census) hasExpired(lease *coordinationv1.Lease) bool {
	left := c.observed.left(lease)
	if left > 0 {
		c.next = min(c.next, left)
	}
	return left <= 0
}
