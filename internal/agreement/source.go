// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"context"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// source is one way to find out from discovery documents which version API servers write.
type source interface {
	// ask returns what the servers answered, and how strong the evidence is if they agree. An error voids the look,
	// even if some servers have answered. A source that can never answer the query returns a survey without
	// readings.
	ask(ctx context.Context, q query) (survey, error)
}

// query says which document to request, and which servers are known to live.
type query struct {
	path      string
	leases    leases
	endpoints endpoints
	// service serves the document if that is an aggregated API server.
	service *service
	// samples is how many connections to make if servers cannot be told apart. 0 leaves it to the source.
	samples int
}

// survey is what one source found out from one document.
type survey struct {
	readings []reading
	// evidence is the strength of the readings if they agree; 0 means that they are no evidence.
	evidence migrate.Evidence
	// restartsSeen means that every server that answered creates a new identity Lease when it starts.
	restartsSeen bool
	// how says in a few words how the servers were asked; why says why the evidence is not stronger.
	how, why string
}

// reading is the document of one server, or of one connection to an unknown server.
type reading struct {
	// server is the name of the server for people.
	server string
	// address is host:port if the server was asked at its own address, else "".
	address string
	// anonymous means that the answer came from one of the servers behind a shared address.
	anonymous bool
	document  document
}

// reportOf returns what a survey says about one resource.
func reportOf(s survey, resource string) report {
	r := report{evidence: s.evidence, restartsSeen: s.restartsSeen, how: s.how, why: s.why}
	for _, one := range s.readings {
		l, served := one.document.find(resource)
		r.answers = append(r.answers, answer{server: one.server, address: one.address, anonymous: one.anonymous,
			served: served, hash: l.Hash})
	}
	return r
}

// report is what one source found out about one resource. Its fields are those of a survey.
type report struct {
	answers      []answer
	evidence     migrate.Evidence
	restartsSeen bool
	how, why     string
	// declared identifies the StorageVersion object that the report comes from; "" for other sources.
	declared string
}

// answer is what one server, or one connection to an unknown server, showed.
type answer struct {
	server, address string
	anonymous       bool
	served          bool
	hash            string
}

// findings is everything that was gathered about one resource.
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
	// publishing means that each live kube-apiserver was asked and publishes StorageVersions; notPublishing says why it
	// is false.
	publishing    bool
	notPublishing string
	// failed is why the reports are incomplete, or nil.
	failed error
	// newcomers are processes that started after the look began: an answer may or may not be theirs.
	newcomers []string
	// moved means that servers came or went during the look, which ended at ended.
	moved bool
	ended time.Time
	// absent are the servers that are no longer listed and can still write. Those that answer are also in leases,
	// endpoints and service.
	absent absent
}

// seen is what the findings say about the servers.
func (f findings) seen() seen {
	return seen{leases: f.leases, endpoints: f.endpoints, crd: f.crd, traces: f.traces,
		restartsSeen: restartsSeen(f.reports)}
}

func restartsSeen(reports []report) bool {
	for _, r := range reports {
		if r.evidence >= migrate.Observed && r.restartsSeen {
			return true
		}
	}
	return false
}
