// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/internal/bounded"
)

const (
	leasesPath    = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?labelSelector="
	identityLabel = "apiserver.kubernetes.io/identity"
	kubeAPIServer = "kube-apiserver" // the label's value
	hostLabel     = "kubernetes.io/hostname"
	// addressAnnotation is host:port.
	addressAnnotation = "kubernetes.io/peer-advertise-address"
)

// FreshFor is how long after the last renewal of its identity Lease a kube-apiserver counts as live. They renew every
// 10 s; a Lease's own duration, an hour, is that of its garbage collection.
const FreshFor = time.Minute

// leases is who lives, as the identity Leases of kube-apiservers tell. The zero value knows nothing.
type leases struct {
	// known is whether they could be read; why says why not.
	known bool
	why   string
	// live are the servers that renewed lately, gone those that crashed or hang, both by holderIdentity.
	live, gone []server
	// uncertain are servers that departed and cannot be asked whether they serve still; see departed.go.
	uncertain []server
	// doubled names a Lease that two processes renew; see place.noteRenewals.
	doubled string
	// alike is why the addresses of servers are not their own; see alike.go.
	alike string
	// others are live servers of other kinds that keep identity Leases, by the Lease's name.
	others []server
	// readAt is when they had been read, by this machine's clock.
	readAt time.Time
}

// server is one process of a kube-apiserver. Its times are by its own clock: it writes its Lease itself.
type server struct {
	// name is that of the Lease: the same for every process of a machine. kind is what the Lease is labelled as.
	name, kind string
	// holder is the holderIdentity. It changes with every start of a process, on servers from 1.35 on; older ones
	// take over the Lease of the process before them and leave its holderIdentity as it is.
	holder string
	// host is the machine's name, address where other servers reach it ("" where not published).
	host, address string
	// created is the start of the process, from 1.35 on, in whole seconds.
	created, renewed time.Time
	// expired is when its Lease stopped counting as fresh, by this machine's clock; zero while it counts.
	expired time.Time
	// departed: it has no fresh Lease any more, and can still write; see departed.go.
	departed bool
}

// readLeases lists the identity Leases, those of other API servers too. Without a resourceVersion the list is as new as
// etcd, whoever answers.
func readLeases(ctx context.Context, c *client) (leases, error) {
	body, date, err := c.get(bounded.WithLimit(ctx, identityBytes), leasesPath+url.QueryEscape(identityLabel))
	switch {
	case statusOf(err) == http.StatusForbidden:
		return leases{why: "the identity Leases of the API servers in kube-system may not be read"}, nil
	case err != nil:
		return leases{}, fmt.Errorf("list identity Leases: %w", err)
	}
	return parseLeases(body, date, time.Now())
}

// parseLeases tells live from gone by serverNow, the clock of the server that answered: the clock of this machine
// may be wrong by hours.
func parseLeases(body []byte, serverNow, now time.Time) (leases, error) {
	var list struct {
		Items bounded.List[struct {
			Metadata identity `json:"metadata"`
			Spec     struct {
				HolderIdentity string           `json:"holderIdentity"`
				RenewTime      metav1.MicroTime `json:"renewTime"`
			} `json:"spec"`
		}] `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return leases{}, fmt.Errorf("decode identity Leases: %w", err)
	}
	l := leases{known: true, readAt: now}
	for i := range list.Items {
		meta, spec := &list.Items[i].Metadata, list.Items[i].Spec
		s := server{
			name:    meta.Name,
			kind:    meta.Labels[identityLabel],
			holder:  cmp.Or(spec.HolderIdentity, meta.Name),
			host:    meta.Labels[hostLabel],
			address: meta.Annotations[addressAnnotation],
			created: meta.CreationTimestamp.Time,
			renewed: spec.RenewTime.Time,
		}
		age := serverNow.Sub(s.renewed) - FreshFor
		stale := age > 0
		if stale {
			s.expired = now.Add(-age)
		}
		switch {
		case s.kind != "" && s.kind != kubeAPIServer:
			if !stale {
				l.others = append(l.others, s)
			}
		case stale:
			l.gone = append(l.gone, s)
		default:
			l.live = append(l.live, s)
		}
	}
	byHolder := func(a, b server) int { return strings.Compare(a.holder, b.holder) }
	slices.SortFunc(l.live, byHolder)
	slices.SortFunc(l.gone, byHolder)
	return l, nil
}

// holders identifies the live processes, sorted.
func (l leases) holders() []string {
	var names []string
	for _, s := range l.live {
		names = append(names, s.holder)
	}
	return names
}

// names are the names of the live kube-apiservers' Leases, sorted.
func (l leases) names() []string { return namesOf(l.live) }

// kin are the names of the Leases of the other live servers that are of the same kind as the one with that Lease,
// sorted.
func (l leases) kin(name string) []string {
	i := slices.IndexFunc(l.others, func(s server) bool { return s.name == name })
	if i < 0 {
		return nil
	}
	var same []server
	for _, s := range l.others {
		if s.kind == l.others[i].kind {
			same = append(same, s)
		}
	}
	return namesOf(same)
}

func namesOf(servers []server) []string {
	var names []string
	for _, s := range servers {
		names = append(names, s.name)
	}
	slices.Sort(names)
	return names
}

// hostOf names the server with a Lease of that name for people.
func (l leases) hostOf(name string) string {
	for _, s := range l.live {
		if s.name == name && s.host != "" {
			return s.host
		}
	}
	return name
}

func (l leases) sameServers(other leases) bool {
	return l.known == other.known && slices.Equal(l.holders(), other.holders())
}

// nameOf names the server at an address, with its host where its Lease tells which it is.
func (l leases) nameOf(address string) string {
	for _, s := range l.live {
		if s.address == address && s.host != "" {
			return fmt.Sprintf("%s (%s)", s.host, address)
		}
	}
	return address
}
