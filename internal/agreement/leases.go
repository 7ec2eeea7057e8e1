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
	"github.com/kube-migrator/kube-migrator/internal/identity"
)

const (
	leasesPath = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?labelSelector="
	// addressAnnotation contains host:port.
	addressAnnotation = "kubernetes.io/peer-advertise-address"
)

// leases are the live servers according to the identity Leases of kube-apiservers. The zero value knows none.
type leases struct {
	// known means that they could be read; why says why not.
	known bool
	why   string
	// live are the servers that renewed recently, gone those that crashed or hang, both sorted by holderIdentity.
	live, gone []server
	// uncertain are servers that have departed and cannot be asked whether they still serve; see departed.go.
	uncertain []server
	// doubled is the name of a Lease that two processes renew; see fleet.noteRenewals.
	doubled string
	// alike says why the addresses do not belong to one server each; see alike.go.
	alike string
	// others are live servers of other kinds that have identity Leases, by the name of the Lease.
	others []server
	// readAt is when the Leases had been read, by this machine's clock.
	readAt time.Time
}

// server is one process of a kube-apiserver. Its times are by its own clock, because it writes its Lease itself.
type server struct {
	// name is the name of the Lease: the same for every process on a machine. kind is the label of the Lease.
	name, kind string
	// holder is the holderIdentity. It changes with every start of a process on servers from 1.35 on. An older server
	// takes over the Lease of its predecessor and does not change the holderIdentity.
	holder string
	// host is the name of the machine. address is where other servers reach it, or "" if it is not published.
	host, address string
	// created is the start of the process, from 1.35 on, in whole seconds.
	created, renewed time.Time
	// expired is when its Lease stopped counting as fresh, by this machine's clock; zero while it counts.
	expired time.Time
	// departed means that it no longer has a fresh Lease and can still write; see departed.go.
	departed bool
}

// readLeases lists the identity Leases, including those of other API servers. A list without a resourceVersion is read
// from etcd, no matter which server answers.
func readLeases(ctx context.Context, c *client) (leases, error) {
	body, date, err := c.get(bounded.WithLimit(ctx, identityBytes), leasesPath+url.QueryEscape(identity.Label))
	switch {
	case statusOf(err) == http.StatusForbidden:
		return leases{why: "reading the identity Leases of the API servers in kube-system is forbidden"}, nil
	case err != nil:
		return leases{}, fmt.Errorf("list identity Leases: %w", err)
	}
	return parseLeases(body, date, time.Now())
}

// parseLeases distinguishes live from gone by serverNow, the clock of the server that answered, because the clock of
// this machine may be wrong by hours.
func parseLeases(body []byte, serverNow, now time.Time) (leases, error) {
	var list struct {
		Items bounded.List[struct {
			Metadata objectMeta `json:"metadata"`
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
			kind:    meta.Labels[identity.Label],
			holder:  cmp.Or(spec.HolderIdentity, meta.Name),
			host:    meta.Labels[identity.HostLabel],
			address: meta.Annotations[addressAnnotation],
			created: meta.CreationTimestamp.Time,
			renewed: spec.RenewTime.Time,
		}
		age := serverNow.Sub(s.renewed) - identity.FreshFor
		stale := age > 0
		if stale {
			s.expired = now.Add(-age)
		}
		switch {
		case s.kind != "" && s.kind != identity.KubeAPIServer:
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

// names returns the names of the live kube-apiservers' Leases, sorted.
func (l leases) names() []string { return namesOf(l.live) }

// kin returns the names of the Leases of live servers of the same kind as the server with the given Lease, sorted.
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

// hostOf returns, for people, the name of the server with a given Lease.
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

// nameOf returns the name of the server at an address, including its host if a Lease has that address.
func (l leases) nameOf(address string) string {
	for _, s := range l.live {
		if s.address == address && s.host != "" {
			return fmt.Sprintf("%s (%s)", s.host, address)
		}
	}
	return address
}
