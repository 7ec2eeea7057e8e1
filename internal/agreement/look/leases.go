// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

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

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/internal/identity"
)

const (
	leasesPath = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?labelSelector="
	// addressAnnotation contains host:port.
	addressAnnotation = "kubernetes.io/peer-advertise-address"
)

// readLeases lists the identity Leases, including those of other API servers. A list without a resourceVersion is read
// from etcd, no matter which server answers.
func readLeases(ctx context.Context, c *client) (snapshot.Leases, error) {
	body, date, err := c.get(bounded.WithLimit(ctx, identityBytes), leasesPath+url.QueryEscape(identity.Label))
	switch {
	case statusOf(err) == http.StatusForbidden:
		return snapshot.Leases{Why: "reading the identity Leases of the API servers in kube-system is forbidden"}, nil
	case err != nil:
		return snapshot.Leases{}, fmt.Errorf("list identity Leases: %w", err)
	}
	return parseLeases(body, date, time.Now())
}

// parseLeases distinguishes live from gone by serverNow, the clock of the server that answered, because the clock of
// this machine may be wrong by hours.
func parseLeases(body []byte, serverNow, now time.Time) (snapshot.Leases, error) {
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
		return snapshot.Leases{}, fmt.Errorf("decode identity Leases: %w", err)
	}
	l := snapshot.Leases{Known: true, ReadAt: now}
	for i := range list.Items {
		meta, spec := &list.Items[i].Metadata, list.Items[i].Spec
		s := snapshot.Server{
			Name:    meta.Name,
			Kind:    meta.Labels[identity.Label],
			Holder:  cmp.Or(spec.HolderIdentity, meta.Name),
			Host:    meta.Labels[identity.HostLabel],
			Address: meta.Annotations[addressAnnotation],
			Created: meta.CreationTimestamp.Time,
			Renewed: spec.RenewTime.Time,
		}
		age := serverNow.Sub(s.Renewed) - identity.FreshFor
		stale := age > 0
		if stale {
			s.Expired = now.Add(-age)
		}
		switch {
		case s.Kind != "" && s.Kind != identity.KubeAPIServer:
			if !stale {
				l.Others = append(l.Others, s)
			}
		case stale:
			l.Gone = append(l.Gone, s)
		default:
			l.Live = append(l.Live, s)
		}
	}
	byHolder := func(a, b snapshot.Server) int { return strings.Compare(a.Holder, b.Holder) }
	slices.SortFunc(l.Live, byHolder)
	slices.SortFunc(l.Gone, byHolder)
	return l, nil
}
