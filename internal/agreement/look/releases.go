// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/waitgroup"
)

// releases asks every kube-apiserver for its release. It asks again in every round: a kube-apiserver before 1.35 keeps
// the identity of its predecessor, which may have been of a newer release. A process that does not answer is of the
// release that it has shown before.
func (o *Looker) releases(ctx context.Context, l snapshot.Leases, e snapshot.Endpoints) (r snapshot.Releases) {
	var (
		wg             waitgroup.Group
		addresses, why = o.observed.addresses(l, e)
		asked          = len(addresses)
	)
	if why != "" {
		asked = min(max(roundSamples, len(l.Live)), maxServers)
	}
	shown, errs := make([]string, asked), make([]error, asked)
	for i := range asked {
		wg.Go(func() {
			if why != "" {
				shown[i], errs[i] = parseRelease(o.client.getFresh(ctx, versionPath))
			} else {
				shown[i], errs[i] = o.observed.releaseNow(ctx, addresses[i], l.Holders())
			}
		})
	}
	wg.Wait()
	for i, release := range shown {
		if errs[i] != nil {
			r.Unread = errs[i].Error()
		} else {
			r.All = append(r.All, release)
		}
	}
	slices.Sort(r.All)
	r.All = slices.Compact(r.All)
	return r
}

// releaseNow asks the server at an address.
func (o *observed) releaseNow(ctx context.Context, address string, holders []string) (string, error) {
	release, err := "", fmt.Errorf("%s does not answer", address)
	if channel, ok := o.channel(address); ok {
		release, _, err = channel.readRelease(ctx)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.follow(holders)
	if err == nil {
		o.versions[address] = release
	} else if known := o.versions[address]; snapshot.ShowsRestarts(known) {
		return known, nil
	}
	return release, err
}

// versionPath answers every client that may use discovery.
const versionPath = "/version"

// parseRelease returns the release in an answer to versionPath.
func parseRelease(body []byte, err error) (string, error) {
	if err != nil {
		return "", err
	}
	var info struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(body, &info); err != nil {
		return "", fmt.Errorf("decode version: %w", err)
	}
	return info.GitVersion, nil
}
