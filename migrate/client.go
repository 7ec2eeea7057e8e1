// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/internal/pace"
)

// WithSharedBackoff returns a copy of config whose clients share one backoff: after an API server has answered one of
// them with 429 or 503 and Retry-After, none of them sends a request to that address until that time is over, at most a
// minute (I7). Configure everything that belongs to one sweep with the returned config: New, and agreement.New.
//
// These clients read no answer beyond the limit of its kind (I6, ErrAnswerTooLarge).
func WithSharedBackoff(config *rest.Config) *rest.Config {
	c := bounded.Config(config)
	c.Wrap(new(pace.Gates).Wrap)
	return c
}
