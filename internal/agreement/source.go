// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"context"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// source is one way to learn in which version API servers write, from their discovery documents.
type source interface {
	// ask returns what the servers answered, and what the answers are worth if they agree. An error says that the look
	// is void, although some servers may have answered; what this source can never know is a survey without readings.
	ask(ctx context.Context, q question) (survey, error)
}

// question is what a source is asked for: which document, and which servers are known to live.
type question struct {
	path      string
	leases    leases
	endpoints endpoints
	// service is what serves the document, where that is an aggregated API server.
	service *service
	// samples is how many connections are made where no server can be told from another; 0: as many as the source
	// thinks good.
	samples int
}

// survey is what one source learnt from one document.
type survey struct {
	readings []reading
	// evidence is what the readings amount to if they agree; 0: nothing.
	evidence migrate.Evidence
	// restartsSeen: every server that answered gives itself a new identity Lease when it starts.
	restartsSeen bool
	// how says in a few words how the answers were got; why, why they are no stronger evidence.
	how, why string
}

// reading is the document of one server, or of one connection to some server.
type reading struct {
	// server names it for people.
	server string
	// address is host:port where the server was asked at its own address, or "".
	address string
	// anonymous: some server behind a shared address.
	anonymous bool
	document  document
}

// about is what a survey says about one resource.
func (s survey) about(resource string) report {
	r := report{evidence: s.evidence, restartsSeen: s.restartsSeen, how: s.how, why: s.why}
	for _, one := range s.readings {
		l, served := one.document.find(resource)
		r.answers = append(r.answers, answer{server: one.server, address: one.address, anonymous: one.anonymous,
			served: served, hash: l.Hash})
	}
	return r
}

// report is what one source learnt about one resource; its fields are those of a survey.
type report struct {
	answers      []answer
	evidence     migrate.Evidence
	restartsSeen bool
	how, why     string
	// declared identifies the StorageVersion object that the report is from; "" for other sources.
	declared string
}

// answer is what one server, or one connection to some server, showed.
type answer struct {
	server, address string
	anonymous       bool
	served          bool
	hash            string
}

// findings is all that was gathered about one resource.
type findings struct {
	target    migrate.Target
	versions  []string // that are served; for a view
	crd       *crd.CRD // nil unless the target is a custom resource
	leases    leases
	endpoints endpoints
	service   *service // nil unless the target is aggregated
	traces    []string // of the target's services; for a view
	reports   []report
	// declarations are the StorageVersion objects of the resource.
	declarations []declaration
	// publishing: each live kube-apiserver was asked, and publishes StorageVersions; notPublishing says why not.
	publishing    bool
	notPublishing string
	// failed is why the reports are not all; nil where they are.
	failed error
	// silent is migrate.ErrSilent about a server that should have answered itself; nil where all did.
	silent error
	// newcomers are processes that were not there when the look began: whether an answer is theirs is not known.
	newcomers []string
	// moved: servers came or went during the look.
	moved bool
	// absent are the servers that are not listed any more, and can still write; those that answer are among leases,
	// endpoints and service.
	absent absent
}
