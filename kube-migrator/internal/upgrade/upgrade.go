// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package upgrade decides whether an upgrade, a downgrade or a new CustomResourceDefinition is safe: whether the API
// servers that will read the stored objects can decode them.
//
// It owns the rules, and the table of what each Kubernetes release can decode. It is pure: it takes values and returns
// verdicts with their reasons. It never reads a cluster, a file or etcd.
//
// Invariants:
//   - Versions are compared by their hashes; names are for users.
//   - A version that is known to be stored or written, and that the target cannot decode, is Unsafe, whatever else is
//     unknown.
//   - Otherwise anything unknown is Undetermined: a missing, empty or outdated record, or one with Unknown among its
//     versions (I1).
//   - A record counts together with the versions that the API servers show they write now (I1).
//   - The success of a migration proves nothing by itself: only the StorageState says what it has proven (I2).
//   - What etcd holds outweighs every record, and a record that contains less is named. A snapshot outweighs only what
//     was recorded before it was taken: later records count in addition.
//
// `check` and `progress` show these verdicts and decide nothing themselves.
package upgrade

import (
	"cmp"
	"slices"

	"github.com/kube-migrator/kube-migrator/internal/phrase"
)

// Verdict says whether something is safe. The set is closed.
type Verdict string

// The verdicts.
const (
	Safe         Verdict = "Safe"
	Unsafe       Verdict = "Unsafe"
	Undetermined Verdict = "Undetermined"
)

// Source is what a verdict relies on. The set is closed.
type Source string

// The sources.
const (
	ByStorageState   Source = "StorageState"
	ByStoredVersions Source = "storedVersions" // of a CustomResourceDefinition
	ByEtcd           Source = "etcd"
	ByCount          Source = "count" // the API server counted no object
	ByNothing        Source = ""
)

// sampled is the evidence of looks that could not ask every API server.
const sampled = "Sampled"

// Finding is the answer for one resource.
type Finding struct {
	// Resource is resource.group: "widgets.demo.example.com", "secrets".
	Resource string  `json:"resource"`
	Verdict  Verdict `json:"verdict"`
	// Why is the reason, for users.
	Why string `json:"why"`
	// Next is the command that helps. It is empty if nothing has to be done.
	Next string `json:"next,omitempty"`
	// Source is what the verdict relies on.
	Source Source `json:"source,omitempty"`
	// Evidence is that of the migration, if the verdict relies on a StorageState of API servers that could not all be asked.
	Evidence string `json:"evidence,omitempty"`
	// Stored are the versions that may be stored: "v1", or group/version if it is the version of another group, or a
	// hash if no known version has it, or "Unknown".
	Stored []string `json:"stored,omitempty"`
	// Current is the version that the API servers write now.
	Current string `json:"current,omitempty"`
	// Stranded are those of Stored that could not be decoded.
	Stranded []string `json:"stranded,omitempty"`
	// MayLose are fields that objects may have and would lose, so that a migration leaves them alone, as schemas show.
	MayLose []string `json:"mayLose,omitempty"`
	// Migration is the name of the StorageVersionMigration that counts, or empty. Run is how far it is.
	Migration string `json:"migration,omitempty"`
	Run       Run    `json:"run,omitempty"`
	// From names the file and document of the CustomResourceDefinition that the finding is about.
	From string `json:"from,omitempty"`
}

// Understatement is a record that contains fewer versions than etcd holds.
type Understatement struct {
	// Record is the name of the record in kubectl's syntax: "storagestates.migration.k8s.io/widgets.demo.example.com".
	Record string `json:"record"`
	// Claims are the versions that the record contains.
	Claims []string `json:"claims"`
	// Missing are the versions that etcd holds in addition.
	Missing []string `json:"missing"`
	// Objects is how many objects are stored in the missing versions.
	Objects int64 `json:"objects"`
	// Next is the command that helps.
	Next string `json:"next"`
}

// Report is the answer about all resources.
type Report struct {
	Verdict Verdict `json:"verdict"`
	// Sentence is the verdict with its reason, for users.
	Sentence string `json:"sentence"`
	// Target is what has to decode the stored objects. It is empty for the present API servers.
	Target string `json:"target,omitempty"`
	// Findings are sorted: the unsafe first, then what cannot be determined, then the safe; each by name.
	Findings []Finding `json:"resources"`
	// Understated are records that contain less than etcd holds. They make the whole report Unsafe, because others rely
	// on them.
	Understated []Understatement `json:"understated,omitempty"`
	// NotLookedAt are the parts of the cluster that could not be read, and why.
	NotLookedAt []string `json:"notLookedAt,omitempty"`
	// Excluded are resources that the installation excludes and that the user did not name. The report says nothing
	// about them.
	Excluded []string `json:"excluded,omitempty"`
}

// Scope is what a report is about.
type Scope struct {
	// NotLookedAt and Excluded are those of the Report.
	NotLookedAt, Excluded []string
	// Named means that the user named the resources.
	Named bool
}

// Report judges resources, and draws the conclusion.
func (q Question) Report(facts []Facts, s Scope) Report {
	var findings []Finding
	var understated []Understatement
	for _, f := range facts {
		findings = append(findings, q.Judge(f))
		understated = append(understated, q.Understated(f)...)
	}
	return q.Conclude(findings, understated, s)
}

// Conclude combines findings. The worst one decides: unsafe, then undetermined, then safe.
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
		r.Verdict, r.Sentence = Unsafe, q.not()+": "+phrase.Few(unsafe)+"."
	case len(understated) > 0:
		r.Verdict, r.Sentence = Unsafe, q.not()+": a record claims less than etcd holds."
	case len(unknown) > 0:
		r.Verdict, r.Sentence = Undetermined, q.whether()+" cannot be determined for "+phrase.Few(unknown)+"."
	case len(s.NotLookedAt) > 0:
		r.Verdict, r.Sentence = Undetermined, q.whether()+
			" cannot be determined: a part of the cluster could not be read."
	default:
		what := "everything"
		if s.Named {
			what += " of " + phrase.Few(r.with(Safe))
		}
		r.Verdict, r.Sentence = Safe, q.yes(what)
		if i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Evidence != "" }); i >= 0 {
			r.Sentence += " Not every API server could be asked (" + r.Findings[i].Evidence + ")."
		}
	}
	if len(s.Excluded) > 0 {
		r.Sentence += " Not judged, because the installation excludes them: " + phrase.Few(s.Excluded) + "."
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
