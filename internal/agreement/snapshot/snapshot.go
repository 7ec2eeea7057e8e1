// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package snapshot is everything that one look at API servers has read, as plain values: which servers live, where they
// are, what each of them answers, and what tells them what to write. A Snapshot goes to JSON and back, so that what was
// concluded from it can be concluded again elsewhere. The package decides nothing and does no I/O.
package snapshot

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// Snapshot is everything that one look has read.
type Snapshot struct {
	// Began and Ended enclose the look, by this machine's clock.
	Began, Ended time.Time
	// Listed are the identity Leases before the first question. Before are these with the servers that have departed
	// and can still write, and Leases the same after the last answer.
	Listed, Before, Leases Leases
	// Moved means that kube-apiservers came or went during the look.
	Moved     bool
	Endpoints Endpoints
	// Started is when the processes at addresses, or at the other ends of connections, started; zero for releases whose
	// Leases show that a process was replaced.
	Started map[string]time.Time `json:",omitempty"`
	// Assumed means that Started is that of an earlier look, because not every API server could be asked: a process may
	// have been replaced since.
	Assumed bool `json:",omitempty"`
	CRDs    map[schema.GroupResource]*crd.CRD
	// Services are those behind APIServices before the first question, ServicesAfter after the last answer.
	Services, ServicesAfter map[schema.GroupVersion]*Service
	StorageVersions         map[schema.GroupResource][]StorageVersion
	// NotPublishing is why it is unknown whether each live kube-apiserver publishes StorageVersions; "" if each does.
	NotPublishing string
	Releases      Releases
	Inquiries     map[schema.GroupVersion]Inquiry
	// Absent are the departed kube-apiservers that can still write, AbsentBehind the departed processes behind
	// services.
	Absent       Absent
	AbsentBehind map[schema.GroupVersion]Absent
	// Failed is why the CRD or the StorageVersion of a resource could not be read.
	Failed map[schema.GroupResource]error
}

// Inquiry contains the surveys of one group-version's documents. If Err is set, they are not sufficient.
type Inquiry struct {
	Surveys []Survey
	Err     error
}

// Leaving reports whether any server that has departed can still write.
func (s *Snapshot) Leaving() bool {
	leaving := s.Absent.Any()
	for _, a := range s.AbsentBehind {
		leaving = leaving || a.Any()
	}
	return leaving
}

// Unread returns why the look found out nothing about a resource, or nil.
func (s *Snapshot) Unread(target migrate.Target) error {
	if err := s.Failed[target.GroupResource()]; err != nil {
		return err
	}
	return s.Inquiries[target.Resource.GroupVersion()].Err
}

// Incomplete reports whether anything could not be read.
func (s *Snapshot) Incomplete() bool {
	for _, i := range s.Inquiries {
		if i.Err != nil {
			return true
		}
	}
	return len(s.Failed) > 0
}

// Resources returns the resources that any server listed, and whether it may store them.
func (i Inquiry) Resources() map[string]bool {
	found := map[string]bool{}
	for _, s := range i.Surveys {
		for _, r := range s.Answers {
			for _, l := range r.Document.Resources {
				found[l.Name] = found[l.Name] || l.Stored()
			}
		}
	}
	return found
}

// KindOf returns the kind of a resource in a group-version, or "".
func (i Inquiry) KindOf(resource string) string {
	for _, s := range i.Surveys {
		for _, r := range s.Answers {
			if l, ok := r.Document.Find(resource); ok && l.Kind != "" {
				return l.Kind
			}
		}
	}
	return ""
}

// ErrNotServed reports that the API servers do not serve the resource at the requested version.
var ErrNotServed = errors.New("resource is not served")
