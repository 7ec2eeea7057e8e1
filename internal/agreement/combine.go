// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/migrate"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// Disagreement is the error of a look that found servers which write different versions or, for a custom resource,
// another version than its CRD requires. errors.Is(err, migrate.ErrDisagreement) holds.
type Disagreement struct {
	Resource schema.GroupResource
	// Hashes are all hashes that were seen, sorted, without "".
	Hashes []string
	// Said contains one clause for each server, or for several servers that cannot be told apart: "api-1
	// (192.0.2.11:6443) writes …".
	Said []string
}

// Error names every server.
func (d *Disagreement) Error() string {
	return fmt.Sprintf("%v about %s: %s", migrate.ErrDisagreement, d.Resource, strings.Join(d.Said, ", "))
}

// Is makes a Disagreement a migrate.ErrDisagreement.
func (d *Disagreement) Is(target error) bool { return target == migrate.ErrDisagreement }

// Explanation says how an agreement is known, for people.
type Explanation struct {
	Evidence migrate.Evidence `json:"evidence"`
	// Version is the storage version that the hash stands for, or "" if no candidate has this hash.
	Version string `json:"version,omitempty"`
	// Servers is the number of live API servers; 0 means that it is unknown.
	Servers int `json:"servers,omitempty"`
	// How says how they were asked. Reason says why the evidence is not stronger; it is "" if the evidence is Observed.
	How    string `json:"how"`
	Reason string `json:"reason,omitempty"`
}

// Of returns the explanation of a run whose looks have e, with the evidence that the run has.
func (e Explanation) Of(run migrate.Evidence) Explanation {
	if e.Evidence = run; run == migrate.Verified {
		e.How += ", and a second pass a settle time later found every object in this version"
	}
	return e
}

// String returns the explanation on one line.
func (e Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", e.Evidence)
	if e.Servers > 0 {
		fmt.Fprintf(&b, "%s, ", phrase.Count(e.Servers, "API server", "API servers"))
	}
	b.WriteString(e.How)
	if e.Reason != "" {
		fmt.Fprintf(&b, "; not stronger because %s", e.Reason)
	}
	return b.String()
}

// conclusion is what the findings show: an epoch without its Since, and how it is known.
type conclusion struct {
	epoch       migrate.Epoch
	explanation Explanation
}

// combine decides. The answers of all sources count against agreement; the evidence of the strongest source counts for
// it.
func combine(f findings) (conclusion, error) {
	var answers []answer
	best := report{}
	var whys []string
	declared := f.declared()
	for _, r := range append(slices.Clip(f.reports), declared) {
		if f.crd == nil && declared.evidence == migrate.Declared && r.declared == "" {
			r.answers = shown(r.answers)
		}
		answers = append(answers, r.answers...)
		if r.evidence > best.evidence {
			best = r
		}
		if r.why != "" {
			whys = append(whys, r.why)
		}
	}
	if len(answers) == 0 {
		return conclusion{}, fmt.Errorf("determine the storage version of %s: no API server was asked",
			f.target.GroupResource())
	}
	if !slices.ContainsFunc(answers, func(a answer) bool { return a.served }) {
		return conclusion{}, fmt.Errorf("%s in %s: %w", f.target.Resource.Resource,
			f.target.Resource.GroupVersion(), snapshot.ErrNotServed)
	}
	hash, err := agreedHash(f, answers)
	if err != nil {
		return conclusion{}, err
	}
	v := conclusion{epoch: migrate.Epoch{Hash: hash, Servers: f.holders(), Declared: best.declared,
		Evidence: best.evidence}}
	if d := f.crd; d != nil {
		v.epoch.CRDUID, v.epoch.CRDGeneration = d.Metadata.UID, d.Metadata.Generation
		v.epoch.ConversionWebhook = d.ConvertsByWebhook()
	}
	v.explanation = Explanation{
		Evidence: best.evidence,
		Version:  readable(hash, candidates(f.target, f.crd)),
		Servers:  f.live(),
		How:      best.how,
	}
	if n := f.leaving(); n > 0 {
		v.explanation.How += fmt.Sprintf("; %d of them no longer listed, but still serving", n)
	}
	if best.evidence < migrate.Observed {
		v.explanation.Reason = strings.Join(whys, "; ")
	}
	return v, nil
}

// holders identifies the processes that can write the target, sorted; nil if they are unknown. A process with an
// address and without a Lease changes the set too, although its identity is unknown.
func (f findings) holders() []string {
	if f.target.Origin == migrate.Aggregated {
		return f.service.Holders()
	}
	holders := f.leases.Holders()
	if n := len(f.endpoints.Addresses) - len(holders); f.endpoints.Known && f.leases.Known && n > 0 {
		holders = append(holders, phrase.Count(n, "API server", "API servers")+" without an identity Lease")
		slices.Sort(holders)
	}
	return holders
}

// live is the number of processes that can write the target; 0 means that it is unknown.
func (f findings) live() int {
	if f.target.Origin != migrate.Aggregated {
		return len(f.leases.Live)
	}
	return len(f.service.All())
}

// shown removes the answers of servers that serve the resource and show no hash, which is optional. The versions that
// these servers write are declared.
func shown(answers []answer) []answer {
	return slices.DeleteFunc(slices.Clone(answers), func(a answer) bool { return a.served && a.hash == "" })
}

// agreedHash returns the one hash on which all answers agree.
//
// For a custom resource it has to be that of the CRD's storage version: a server that shows another hash lags behind
// the CRD. If the storage version is not served, discovery shows no hash.
func agreedHash(f findings, answers []answer) (string, error) {
	want, shown := answers[0].hash, answers[0].hash
	if d := f.crd; d != nil {
		want = storageversion.Hash(storageKind(d))
		shown = want
		if !d.Served(d.StorageVersion()) {
			shown = ""
		}
	}
	for _, a := range answers {
		if !a.served || a.hash != shown {
			return "", disagreement(f, answers)
		}
	}
	if want == "" {
		return "", fmt.Errorf("determine the storage version of %s: %w", f.target.GroupResource(), errNoHash)
	}
	return want, nil
}

var errNoHash = errors.New("discovery shows no storageVersionHash, and no StorageVersion declares what each API " +
	"server writes: " +
	"the resource is not stored, or the feature gate StorageVersionHash of the API servers is off")

func disagreement(f findings, answers []answer) error {
	d := &Disagreement{Resource: f.target.GroupResource()}
	known := candidates(f.target, f.crd)
	for _, a := range answers {
		said := a.server + " does not serve " + f.target.Resource.GroupVersion().String()
		switch {
		case a.served && a.hash == "" && f.crd != nil:
			said = a.server + " shows no storageVersionHash in discovery, which every API server does once it has seen the CRD"
		case a.served:
			said = a.server + " writes " + describe(a.hash, known)
		}
		d.Said = append(d.Said, said)
		if a.hash != "" {
			d.Hashes = append(d.Hashes, a.hash)
		}
	}
	if def := f.crd; def != nil {
		d.Said = append(d.Said, "the CustomResourceDefinition says "+storageKind(def).GroupVersion().String())
	}
	slices.Sort(d.Said)
	d.Said = slices.Compact(d.Said)
	slices.Sort(d.Hashes)
	d.Hashes = slices.Compact(d.Hashes)
	return d
}

func storageKind(d *crd.CRD) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: d.Spec.Group, Version: d.StorageVersion(), Kind: d.Spec.Names.Kind}
}

// leaving counts the departed servers that are known to be able to write.
func (f findings) leaving() int { return len(f.absent.Serving) }
