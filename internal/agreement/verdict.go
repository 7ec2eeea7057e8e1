// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/migrate"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// Verdict is what a round found out about one resource that is stored, or may be.
type Verdict struct {
	Resource schema.GroupResource
	// Kind is "" if no server serves the resource.
	Kind   string
	Origin migrate.Origin
	// Versions are the versions that at least one server serves, sorted.
	Versions []string
	// Servers are all processes that may write the resource, by ID: those of fresh Leases, of endpoints, of the
	// endpoints of an APIService, and of entries in StorageVersion objects; and those that are no longer listed but
	// still answer, or may still be serving. IDs are unique.
	Servers []Server
	// Hashes are all hashes that any server showed or published, sorted: each of these versions may have been written.
	Hashes []string
	// Traces are marks that processes of an aggregated API server leave behind and that outlast them, read before the
	// first of the processes was asked: the identities and generations of the APIServices and of their services'
	// EndpointSlices, sorted. A process that came and went since an earlier round has changed one of them. Traces is
	// empty for other resources, and if they cannot be read.
	//
	// The state of the StorageVersion is a trace, too: a process that is not behind the service may have published,
	// written and crashed, and another program may have removed its entry.
	Traces []string
	// Published identifies the StorageVersion of migration.k8s.io in the state that was read before the first request: its
	// UID, "/" and its resourceVersion. It is "" if there is none. Hashes contains the versions of all its entries.
	Published string
	// CRD is that of a custom resource, nil for others.
	CRD *CRD
	// Epoch is the epoch of the agreement, or nil if there is none.
	Epoch *migrate.Epoch
	// Disagree means that the servers were asked and do not agree. If it is false and there is no epoch, the look found
	// out nothing.
	Disagree bool
	// Why says, in one clause for people, why there is no epoch, or why the evidence is not stronger. It is "" if
	// neither applies.
	Why string
	// Version is the group/version of the epoch's hash, or "" if it is unknown.
	Version string
	// Evidence is that of the epoch, or 0 without an epoch.
	Evidence migrate.Evidence
	// OnlyDecodable means that the evidence is Declared, and every server that can write declares that it can decode
	// only the version that it writes. None of them can read an object that is stored in another version, so a sweep
	// could not rewrite it either.
	OnlyDecodable bool
}

// Server is what one process shows of one resource.
type Server struct {
	// ID is the name of the server's identity Lease, or its address.
	ID string
	// Process is the holderIdentity, or "" if no fresh Lease is known to belong to the server. For a process behind an
	// APIService it is address and pod.
	Process string
	// Hash is the hash that the server shows or, if it shows none, the hash that it publishes. It is "" if the server
	// did not answer, does not serve the resource, or does not show the hash.
	Hash string
	// Version is the group/version of the hash, or "" if it is unknown. If the server publishes a version of a resource
	// whose kind, and so whose hash, is unknown, Version is that version.
	Version string
	// Answered means that the server itself was asked and answered.
	Answered bool
	// Declared means that a StorageVersion object has an entry for the ID. The entry may be that of an earlier process
	// with the same ID.
	Declared bool
}

// CRD is the part of a CustomResourceDefinition that concerns storage.
type CRD struct {
	UID        types.UID
	Generation int64
	// Storage is the version that spec marks as the storage version.
	Storage string
	// StoredVersions are the versions in status.storedVersions.
	StoredVersions []string
	// Hashes are the hashes of all versions in spec and in StoredVersions, by version.
	Hashes map[string]string
}

// allOf sorts what was read by resource. The result is sorted.
//
// As far as can be determined, a resource is not stored if no server shows a hash, no CRD or StorageVersion names it,
// and its objects cannot be listed and written again.
func allOf(s *snapshot.Snapshot) []findings {
	by := map[schema.GroupResource]*gathered{}
	at := func(r schema.GroupResource) *gathered {
		if by[r] == nil {
			by[r] = &gathered{target: migrate.Target{Resource: r.WithVersion(""), Origin: migrate.BuiltIn}}
		}
		return by[r]
	}
	for r := range s.CRDs {
		g := at(r)
		g.stored, g.target.Origin = true, migrate.Custom
	}
	for r := range s.StorageVersions {
		at(r).stored = true
	}
	for gv, i := range s.Inquiries {
		for name, stored := range i.Resources() {
			g := at(schema.GroupResource{Group: gv.Group, Resource: name})
			g.versions = append(g.versions, gv.Version)
			g.stored = g.stored || stored
			if s.Services[gv] != nil { // an APIService hides a CRD
				g.target.Origin = migrate.Aggregated
			}
		}
	}
	var list []findings
	for _, g := range by {
		if g.stored {
			list = append(list, wholeOf(s, g))
		}
	}
	slices.SortFunc(list, func(a, b findings) int {
		x, y := a.target.Resource, b.target.Resource
		return cmp.Or(strings.Compare(x.Group, y.Group), strings.Compare(x.Resource, y.Resource))
	})
	return list
}

// gathered says where one resource was found, and whether it may be stored.
type gathered struct {
	target   migrate.Target
	versions []string
	stored   bool
}

// wholeOf joins what was read about a resource in all its versions.
func wholeOf(s *snapshot.Snapshot, g *gathered) findings {
	slices.Sort(g.versions)
	resource := &g.target.Resource
	for _, v := range slices.Backward(g.versions) {
		resource.Version = v
		g.target.Kind = cmp.Or(s.Inquiries[resource.GroupVersion()].KindOf(resource.Resource), g.target.Kind)
	}
	if g.target.Origin == migrate.Custom {
		g.target.Kind = s.CRDs[g.target.GroupResource()].Spec.Names.Kind
	}
	f := findingsOf(s, g.target, g.versions...)
	for gv, i := range s.Inquiries {
		if gv.Group == g.target.Resource.Group && i.Err != nil && f.failed == nil {
			f.failed = i.Err
		}
	}
	return f
}

// findingsOf joins what was read about a resource in some versions.
func findingsOf(s *snapshot.Snapshot, target migrate.Target, versions ...string) findings {
	f := findings{
		target: target, versions: versions, leases: s.Leases, endpoints: s.Endpoints, moved: s.Moved, ended: s.Ended,
		declarations: s.StorageVersions[target.GroupResource()], notPublishing: s.NotPublishing,
		publishing: s.NotPublishing == "", absent: s.Absent,
		hidden: target.Origin != migrate.Aggregated && s.HidesRestarts(),
	}
	if target.Origin == migrate.Custom {
		f.crd = s.CRDs[target.GroupResource()]
	}
	var inquiries []snapshot.Inquiry
	for _, v := range versions {
		gv := schema.GroupVersion{Group: target.Resource.Group, Version: v}
		inquiries = append(inquiries, s.Inquiries[gv])
		if one := s.Services[gv]; one != nil && target.Origin == migrate.Aggregated {
			f.moved = f.service != nil && f.moved || !slices.Equal(one.Listed(), s.ServicesAfter[gv].Listed())
			f.traces = joinTraces(f.service, f.traces, one)
			f.service, f.absent = one, s.AbsentBehind[gv]
		}
	}
	f.traces = f.tracesAnd(f.traces)
	for _, l := range s.Leases.Live {
		if s.Moved && !slices.Contains(s.Before.Holders(), l.Holder) {
			f.newcomers = append(f.newcomers, l.Holder)
		}
	}
	f.reports = reportsOf(inquiries, target.Resource.Resource)
	return f
}

// joinTraces adds the traces of s, the service of the next version, to those of the versions before it; before is the
// service of the last of these, or nil for the first version. If the versions come from several services, it returns
// nil: the resource is listed with the processes of one of them, so no traces cover all processes.
func joinTraces(before *snapshot.Service, traces []string, s *snapshot.Service) []string {
	own := s.Traces()
	if before != nil && (len(traces) == 0 || before.Namespace != s.Namespace ||
		before.Service != s.Service) || len(own) == 0 {
		return nil
	}
	traces = slices.Concat(traces, own)
	slices.Sort(traces)
	return slices.Compact(traces)
}

// reportsOf joins what each source reported about a resource in several versions. Servers may serve different versions:
// if all of them list the resource in one version, it does not matter that other versions are missing on some.
func reportsOf(inquiries []snapshot.Inquiry, resource string) []report {
	var reports []report
	for n := 0; ; n++ {
		var of []report
		everywhere := false
		for _, i := range inquiries {
			if n < len(i.Surveys) {
				r := reportOf(i.Surveys[n], resource)
				of = append(of, r)
				everywhere = everywhere || len(r.answers) > 0 &&
					!slices.ContainsFunc(r.answers, func(a answer) bool { return !a.served })
			}
		}
		if len(of) == 0 {
			return reports
		}
		reports = append(reports, join(of, everywhere))
	}
}

// join combines several reports into one. Its evidence is the weakest of theirs.
func join(of []report, everywhere bool) report {
	joined := of[0]
	joined.answers = nil
	for _, r := range of {
		if r.evidence < joined.evidence {
			joined.evidence, joined.restartsSeen, joined.how, joined.why = r.evidence, r.restartsSeen, r.how, r.why
		}
		for _, a := range r.answers {
			if (a.served || !everywhere) && (a.anonymous || !slices.Contains(joined.answers, a)) {
				joined.answers = append(joined.answers, a)
			}
		}
	}
	return joined
}

// verdict judges everything that was gathered about one resource. It sets all fields but Since.
func (f findings) verdict() Verdict {
	v := Verdict{
		Resource: f.target.GroupResource(), Kind: f.target.Kind, Origin: f.target.Origin, Versions: f.versions,
		Servers: f.servers(), Hashes: f.hashes(), Traces: f.traces, Published: f.published(),
		CRD: crdOf(f.crd),
	}
	judged, err := combine(f)
	switch {
	case f.moved:
		err = errors.New("API servers came or went during the look")
	case f.hidden && !errors.Is(err, migrate.ErrDisagreement):
		err = errHidden
	case len(f.versions) == 0 && f.failed == nil:
		err = errors.New("no API server serves it")
	case f.failed != nil && (err == nil || !errors.Is(err, migrate.ErrDisagreement)):
		err = f.failed
	}
	if err != nil {
		v.Disagree, v.Why = errors.Is(err, migrate.ErrDisagreement), err.Error()
		return v
	}
	v.Epoch, v.Evidence = &judged.epoch, judged.epoch.Evidence
	v.OnlyDecodable = f.onlyDecodable()
	v.Version, v.Why = judged.explanation.Version, judged.explanation.Reason
	if v.Why == "" && v.Evidence < migrate.Declared {
		v.Why = f.declared().why
	}
	return v
}

// hashes returns all hashes that were shown or published, sorted.
func (f findings) hashes() []string {
	var list []string
	for _, r := range f.reports {
		for _, a := range r.answers {
			list = append(list, a.hash)
		}
	}
	for _, d := range f.declarations {
		for _, e := range d.Entries {
			list = append(list, e.Hash(f.target.Kind))
		}
	}
	list = slices.DeleteFunc(list, func(h string) bool { return h == "" })
	slices.Sort(list)
	return slices.Compact(list)
}

// tracesAnd adds the state of the StorageVersion to the traces of a service, unless they cannot be read.
func (f findings) tracesAnd(traces []string) []string {
	if published := f.published(); published != "" && len(traces) > 0 {
		return append(slices.Clone(traces), "storageversion "+published)
	}
	return traces
}

// published identifies the StorageVersion of migration.k8s.io as it was read.
func (f findings) published() string {
	for _, d := range f.declarations {
		if d.API == snapshot.OurAPI {
			return d.ID
		}
	}
	return ""
}

func crdOf(d *crd.CRD) *CRD {
	if d == nil {
		return nil
	}
	own := &CRD{
		UID: d.Metadata.UID, Generation: d.Metadata.Generation, Storage: d.StorageVersion(),
		StoredVersions: d.Status.StoredVersions, Hashes: map[string]string{},
	}
	versions := slices.Clone(d.Status.StoredVersions)
	for _, v := range d.Spec.Versions {
		versions = append(versions, v.Name)
	}
	for _, v := range versions {
		own.Hashes[v] = storageversion.Hash(schema.GroupVersionKind{Group: d.Spec.Group, Version: v,
			Kind: d.Spec.Names.Kind})
	}
	return own
}
