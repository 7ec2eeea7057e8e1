// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// snapshot is everything that one look has read.
type snapshot struct {
	// began and ended enclose the look, by this machine's clock.
	began, ended time.Time
	// listed are the identity Leases before the first question. before are these with the servers that have departed
	// and can still write, and leases the same after the last answer.
	listed, before, leases leases
	// moved means that kube-apiservers came or went during the look.
	moved         bool
	endpoints     endpoints
	crds          map[schema.GroupResource]*crd.CRD
	services      map[schema.GroupVersion]*service // as before the first question
	servicesAfter map[schema.GroupVersion]*service
	declarations  map[schema.GroupResource][]declaration
	// notPublishing is why it is unknown whether each live kube-apiserver publishes StorageVersions; "" if each does.
	notPublishing string
	releases      Releases
	inquiries     map[schema.GroupVersion]inquiry
	// absent are the departed kube-apiservers that can still write, absentBehind the departed processes behind
	// services.
	absent       absent
	absentBehind map[schema.GroupVersion]absent
	// failed is why the CRD or the StorageVersion of a resource could not be read.
	failed map[schema.GroupResource]error
}

// inquiry contains the surveys of one group-version's documents. If err is set, they are not sufficient.
type inquiry struct {
	surveys []survey
	err     error
}

// leaving reports whether any server that has departed can still write.
func (s *snapshot) leaving() bool {
	leaving := s.absent.any()
	for _, a := range s.absentBehind {
		leaving = leaving || a.any()
	}
	return leaving
}

// unread returns why the look found out nothing about a resource, or nil.
func (s *snapshot) unread(target migrate.Target) error {
	if err := s.failed[target.GroupResource()]; err != nil {
		return err
	}
	return s.inquiries[target.Resource.GroupVersion()].err
}

// incomplete reports whether anything could not be read.
func (s *snapshot) incomplete() bool {
	for _, i := range s.inquiries {
		if i.err != nil {
			return true
		}
	}
	return len(s.failed) > 0
}

// resources returns the resources that any server listed, and whether it may store them.
func (i inquiry) resources() map[string]bool {
	found := map[string]bool{}
	for _, s := range i.surveys {
		for _, r := range s.readings {
			for _, l := range r.document.Resources {
				found[l.Name] = found[l.Name] || l.stored()
			}
		}
	}
	return found
}

// kindOf returns the kind of a resource in a group-version, or "".
func (i inquiry) kindOf(resource string) string {
	for _, s := range i.surveys {
		for _, r := range s.readings {
			if l, ok := r.document.find(resource); ok && l.Kind != "" {
				return l.Kind
			}
		}
	}
	return ""
}
