// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package upgrade decides whether an upgrade, a downgrade or a new CustomResourceDefinition is safe: whether those who
// will read what is stored can decode it.
//
// It owns the rules, and the table of what each Kubernetes release can decode. It is pure: values in, verdicts with
// their reasons out. It never reads a cluster, a file or etcd.
//
// Invariants:
//   - versions are compared by their hashes; names are for people;
//   - a version that is known to be stored or written, and that a reader cannot decode, is Unsafe, whatever else is
//     unknown;
//   - otherwise anything unknown is Undetermined: no record, an empty one, one that is too old, or one with Unknown
//     among its versions (I1);
//   - a record counts together with what the API servers show that they write now (I1);
//   - a migration's success proves nothing by itself: only the StorageState says what it has proven (I2);
//   - what etcd holds outweighs every record, and a record that claims less is named.
//
// `check` and `progress` show its verdicts and decide nothing themselves.
package upgrade

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Verdict says whether something is safe; a closed set.
type Verdict string

// The verdicts.
const (
	Safe         Verdict = "Safe"
	Unsafe       Verdict = "Unsafe"
	Undetermined Verdict = "Undetermined"
)

// Source is what a verdict rests on; a closed set.
type Source string

// The sources.
const (
	ByStorageState   Source = "StorageState"
	ByStoredVersions Source = "storedVersions" // of a CustomResourceDefinition
	ByEtcd           Source = "etcd"
	ByCount          Source = "count" // the API server counted no object
	ByNothing        Source = ""
)

// Finding is the answer for one resource.
type Finding struct {
	// Resource is resource.group: "widgets.demo.example.com", "secrets".
	Resource string  `json:"resource"`
	Verdict  Verdict `json:"verdict"`
	// Why is the reason, for people.
	Why string `json:"why"`
	// Next is the command that helps; empty where nothing has to be done.
	Next string `json:"next,omitempty"`
	// Source is what the verdict rests on.
	Source Source `json:"source,omitempty"`
	// Stored are the versions that may be stored: "v1", or group/version of another group, a hash where it is that of
	// no known version, or "Unknown".
	Stored []string `json:"stored,omitempty"`
	// Current is the version that the API servers write now.
	Current string `json:"current,omitempty"`
	// Stranded are those of Stored that could not be decoded.
	Stranded []string `json:"stranded,omitempty"`
	// Migration is the name of the StorageVersionMigration that counts; empty where there is none. Run is how far it
	// is.
	Migration string `json:"migration,omitempty"`
	Run       Run    `json:"run,omitempty"`
	// From names the file and document of a CustomResourceDefinition that was asked about.
	From string `json:"from,omitempty"`
}

// Understatement is a record that claims fewer versions than etcd holds.
type Understatement struct {
	// Record is what kubectl calls it: "storagestates.migration.k8s.io/widgets.demo.example.com".
	Record string `json:"record"`
	// Claims are the versions that it names.
	Claims []string `json:"claims"`
	// Missing are versions that etcd holds besides.
	Missing []string `json:"missing"`
	// Objects is how many objects are stored in these.
	Objects int64 `json:"objects"`
	// Next is the command that helps.
	Next string `json:"next"`
}

// Report is the answer for everything.
type Report struct {
	Verdict Verdict `json:"verdict"`
	// Sentence is the verdict with its reason, for people.
	Sentence string `json:"sentence"`
	// Target is who is to decode what is stored; empty for the API servers of now.
	Target string `json:"target,omitempty"`
	// Findings are sorted: the unsafe first, then what cannot be determined, then the safe; each by name.
	Findings []Finding `json:"resources"`
	// Understated are records that claim less than etcd holds. They make the whole Unsafe: others will trust them.
	Understated []Understatement `json:"understated,omitempty"`
	// NotLookedAt are the parts of the cluster that could not be read, and why.
	NotLookedAt []string `json:"notLookedAt,omitempty"`
	// Excluded are resources that the installation excludes, and that no one named: nothing is said about them.
	Excluded []string `json:"excluded,omitempty"`
}

// Scope is what a report is about.
type Scope struct {
	// NotLookedAt and Excluded are those of the Report.
	NotLookedAt, Excluded []string
	// Named: the user named the resources.
	Named bool
}

// Report judges resources, and concludes.
func (q Question) Report(facts []Facts, s Scope) Report {
	var findings []Finding
	var understated []Understatement
	for _, f := range facts {
		findings = append(findings, q.Judge(f))
		understated = append(understated, q.Understated(f)...)
	}
	return q.Conclude(findings, understated, s)
}

// Conclude puts findings together. The worst decides: unsafe, then undetermined, then safe.
func (q Question) Conclude(findings []Finding, understated []Understatement, s Scope) Report {
	r := Report{Target: q.targetName(), Findings: slices.Clone(findings), Understated: understated,
		NotLookedAt: s.NotLookedAt, Excluded: s.Excluded}
	if r.Findings == nil {
		r.Findings = []Finding{}
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Verdict.order(), b.Verdict.order()), cmp.Compare(a.Resource, b.Resource))
	})
	unsafe, unknown := r.with(Unsafe), r.with(Undetermined)
	switch {
	case len(unsafe) > 0:
		r.Verdict, r.Sentence = Unsafe, q.not()+": "+few(unsafe)+"."
	case len(understated) > 0:
		r.Verdict, r.Sentence = Unsafe, q.not()+": a record claims less than etcd holds."
	case len(unknown) > 0:
		r.Verdict, r.Sentence = Undetermined, q.whether()+" cannot be determined for "+few(unknown)+"."
	case len(s.NotLookedAt) > 0:
		r.Verdict, r.Sentence = Undetermined, q.whether()+
			" cannot be determined: a part of the cluster could not be read."
	default:
		what := "everything"
		if s.Named {
			what += " of " + few(r.with(Safe))
		}
		r.Verdict, r.Sentence = Safe, q.yes(what)
	}
	if len(s.Excluded) > 0 {
		r.Sentence += " Not judged, because the installation excludes them: " + few(s.Excluded) + "."
	}
	return r
}

func (v Verdict) order() int { return slices.Index([]Verdict{Unsafe, Undetermined, Safe}, v) }

func (r Report) with(v Verdict) (names []string) {
	for _, f := range r.Findings {
		if f.Verdict == v && !slices.Contains(names, f.Resource) {
			names = append(names, f.Resource)
		}
	}
	return names
}

func (q Question) yes(what string) string {
	switch {
	case q.Applying:
		return "Applying is safe: every stored version stays readable."
	case q.Target != nil:
		return "Going to " + q.Target.Name + " is safe now: it can decode " + what + " that is stored."
	}
	return "An upgrade is safe now: " + what + " is stored in the version that the API servers write."
}

func (q Question) not() string {
	switch {
	case q.Applying:
		return "Applying is not safe"
	case q.Target != nil:
		return "Going to " + q.Target.Name + " is not safe now"
	}
	return "An upgrade is not safe now"
}

func (q Question) whether() string {
	switch {
	case q.Applying:
		return "Whether applying is safe"
	case q.Target != nil:
		return "Whether going to " + q.Target.Name + " is safe"
	}
	return "Whether an upgrade is safe"
}

// few names up to five.
func few(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
