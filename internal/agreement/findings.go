// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"time"

	"github.com/kube-migrator/kube-migrator/internal/agreement/servers"
	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// reportOf returns what a survey says about one resource.
func reportOf(s snapshot.Survey, resource string) report {
	r := report{evidence: s.Evidence, restartsSeen: s.RestartsSeen, shared: s.Shared, how: s.How, why: s.Why}
	for _, one := range s.Answers {
		l, served := one.Document.Find(resource)
		r.answers = append(r.answers, answer{server: one.Server, address: one.Address, anonymous: one.Anonymous,
			served: served, hash: l.Hash})
	}
	return r
}

// report is what one source found out about one resource. Its fields are those of a survey.
type report struct {
	answers      []answer
	evidence     migrate.Evidence
	restartsSeen bool
	shared       bool // each server was asked over a connection of its own
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
	versions  []string // that are served; for a verdict
	crd       *crd.CRD // nil unless the target is a custom resource
	leases    snapshot.Leases
	endpoints snapshot.Endpoints
	service   *snapshot.Service // nil unless the target is aggregated
	traces    []string          // of the target's services; for a verdict
	reports   []report
	// declarations are the StorageVersion objects of the resource.
	declarations []snapshot.StorageVersion
	// publishing means that each live kube-apiserver was asked and publishes StorageVersions; notPublishing says why it
	// is false.
	publishing    bool
	notPublishing string
	// failed is why the reports are incomplete, or nil.
	failed error
	// hidden means that a process may have been replaced since an earlier look, although the Leases are the same.
	hidden bool
	// newcomers are processes that started after the look began: an answer may or may not be theirs.
	newcomers []string
	// moved means that servers came or went during the look, which ended at ended.
	moved bool
	ended time.Time
	// absent are the servers that are no longer listed and can still write. Those that answer are also in leases,
	// endpoints and service.
	absent snapshot.Absent
}

// seen is what the findings say about the servers.
func (f findings) seen() servers.Seen {
	return servers.Seen{Leases: f.leases, Endpoints: f.endpoints, CRD: f.crd, Traces: f.traces,
		RestartsSeen: restartsSeen(f.reports)}
}

func restartsSeen(reports []report) bool {
	for _, r := range reports {
		if r.evidence >= migrate.Observed && r.restartsSeen {
			return true
		}
	}
	return false
}
