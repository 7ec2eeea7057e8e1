// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"context"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// source is one way to learn in which version API servers write.
type source interface {
	// ask returns what the servers answered, and what the answers are worth if they agree. An error says that
	// nothing was learnt and that the look is void; what this source can never know is a report without answers.
	ask(ctx context.Context, q question) (report, error)
}

// question is what a source is asked: about which resource, and which servers are known to live.
type question struct {
	target    migrate.Target
	leases    leases
	endpoints endpoints
}

// report is what one source learnt.
type report struct {
	answers []answer
	// evidence is what the answers amount to if they agree; 0: nothing.
	evidence migrate.Evidence
	// restartsSeen: every server that answered gives itself a new identity Lease when it starts.
	restartsSeen bool
	// how says in a few words how the answers were got; why, why they are no stronger evidence.
	how, why string
}

// answer is what one server, or one connection to some server, showed.
type answer struct {
	// server names it for people.
	server string
	served bool
	hash   string
}

// findings is all that one look gathered.
type findings struct {
	target     migrate.Target
	definition *crd.Definition // nil unless the target is a custom resource
	leases     leases
	endpoints  endpoints
	reports    []report
	// moved: servers came or went during the look.
	moved bool
}
