// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"context"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
)

// source is one way to find out from discovery documents which version API servers write.
type source interface {
	// ask returns what the servers answered, and how strong the evidence is if they agree. An error voids the look,
	// even if some servers have answered. A source that can never answer the query returns a survey without
	// readings.
	ask(ctx context.Context, q query) (snapshot.Survey, error)
}

// query says which document to request, and which servers are known to live.
type query struct {
	path      string
	leases    snapshot.Leases
	endpoints snapshot.Endpoints
	// service serves the document if that is an aggregated API server.
	service *snapshot.Service
	// samples is how many connections to make if servers cannot be told apart. 0 leaves it to the source.
	samples int
}
