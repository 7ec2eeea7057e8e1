// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
)

// basis is what a verdict relies on.
type basis struct {
	source Source
	stored []stored
	// disagree says that the API servers write different versions at the moment, or is empty.
	disagree string
	// unknown says why unknown versions may be stored, or is empty.
	unknown string
	// unsure says why the record may be out of date.
	unsure string
	// later names the records that count in addition to a snapshot, because the snapshot may be older.
	later string
}

// Judge decides about one resource. A known problem is Unsafe, even if more is unknown; otherwise anything unknown is
// Undetermined.
func (q Question) Judge(f Facts) Finding {
	finding := Finding{Resource: f.Resource.String(), Current: f.current()}
	if m := f.Migration(); m != nil {
		finding.Migration, finding.Run = m.Name, RunOf(m)
	}
	if f.NotStored && len(f.Held) == 0 {
		return finding.is(Safe, "nothing is stored", "")
	}
	if f.Gone && f.State == nil && len(f.Held) > 0 {
		return q.stray(f, finding)
	}
	b := q.basis(f)
	finding.Source, finding.Stored = b.source, names(b.stored)
	switch {
	case b.source == ByNothing:
		return q.withoutRecord(f, finding)
	case b.disagree != "":
		return finding.is(Unsafe, b.disagree, "kubectl describe storagestates.migration.k8s.io "+finding.Resource)
	}
	bad, unnamed := q.undecodable(f, b.stored), q.unnamed(f, b.stored)
	empty := q.Target != nil && f.Empty
	switch {
	case len(bad) > 0 && !empty:
		finding.Stranded = names(bad)
		return q.unsafe(f, finding, b, bad)
	case f.Gone:
		return q.gone(f, finding)
	case b.unknown != "":
		return q.migrated(f, finding, Undetermined, b.unknown)
	case empty && (len(bad) > 0 || unnamed != ""):
		finding.Source = ByCount
		return finding.is(Safe, "there are no objects", "")
	case unnamed != "":
		return finding.is(Undetermined, unnamed, q.snapshot(f))
	case f.CurrentHash == "":
		return finding.is(Undetermined, "its API server does not show in which version it stores it", q.snapshot(f))
	case f.Unreadable != "":
		try := "kubectl get " + finding.Resource + " --all-namespaces"
		if f.CRD != nil {
			try = retire.Remedy(q.Program, finding.Resource, f.CRD.Versions, f.Unreadable)
		}
		return finding.is(Undetermined, "its objects cannot be listed: "+f.Unreadable, try)
	case b.unsure != "":
		return finding.is(Undetermined, b.unsure,
			"kubectl get pods --all-namespaces -l app.kubernetes.io/name=kube-migrator")
	}
	why := q.safe(f, b)
	if b.source == ByStorageState && f.State.Evidence == sampled {
		finding.Evidence = sampled
		if m := f.Migration(); m != nil && m.Status.Epoch != nil && m.Status.Epoch.Evidence != "" {
			finding.Evidence = m.Status.Epoch.Evidence // of the run that proved it
		}
		why += " (" + finding.Evidence + ": not every API server could be asked)"
	}
	return finding.is(Safe, why, "")
}

func (f Finding) is(v Verdict, why, next string) Finding {
	f.Verdict, f.Why, f.Next = v, why, next
	return f
}

// basis chooses the strongest source: what etcd holds, then the StorageState, then, if no StorageState can be expected,
// the CRD's storedVersions, then the absence of objects.
func (q Question) basis(f Facts) basis {
	opaque := slices.ContainsFunc(f.Held, func(h Held) bool { return h.Opaque })
	switch {
	case q.Etcd && !opaque:
		return q.byEtcd(f)
	case f.State != nil:
		return q.byState(f)
	case f.CRD != nil && len(f.CRD.StoredVersions) > 0 && (!q.Installed || f.Unfit != ""):
		return f.byStoredVersions()
	case f.Empty && !q.Installed:
		return basis{source: ByCount, stored: f.withCurrent(nil)}
	}
	return basis{}
}

// withCurrent adds the version that the API server shows it writes now (I1).
func (f Facts) withCurrent(all []stored) []stored {
	if f.CurrentHash == "" {
		return all
	}
	return add(all, f.named(f.CurrentHash, ""))
}

func (f Facts) byStoredVersions() basis {
	b := basis{source: ByStoredVersions}
	for _, v := range f.CRD.StoredVersions {
		b.stored = add(b.stored, stored{hash: f.CRD.hash(v), name: v})
	}
	b.stored = f.withCurrent(b.stored)
	if f.CRD.ClaimedBy != "" {
		b.unknown = inventory.Claimed(f.CRD.ClaimedBy)
	}
	return b
}

// byState relies on the StorageState. A version that the API servers were seen to write counts as stored, even if it is
// not recorded.
func (q Question) byState(f Facts) basis {
	status := f.State
	b := basis{source: ByStorageState}
	for i, hash := range status.PersistedStorageVersionHashes {
		recorded := ""
		if len(status.PersistedVersions) == len(status.PersistedStorageVersionHashes) {
			recorded = status.PersistedVersions[i]
		}
		if hash == v1alpha1.Unknown {
			recorded = v1alpha1.Unknown
		}
		b.stored = add(b.stored, f.named(hash, recorded))
	}
	recorded := len(b.stored)
	if hash := status.CurrentStorageVersionHash; hash != "" && hash != v1alpha1.Unknown {
		b.stored = add(b.stored, f.named(hash, status.CurrentVersion))
	}
	b.stored = f.withCurrent(f.withServers(b.stored))
	b.disagree, b.unknown = f.disagreement()
	switch {
	case slices.Contains(status.PersistedStorageVersionHashes, v1alpha1.Unknown):
		b.unknown = "its StorageState says Unknown: objects may be stored in versions that no one knows"
	case recorded == 0:
		b.unknown = "its StorageState records no version yet"
	}
	b.unsure = q.outdated(f)
	return b
}

// withServers adds the versions that API servers were seen to write (I1).
func (f Facts) withServers(all []stored) []stored {
	for _, s := range f.State.ServerStorageVersions {
		if s.EncodingVersionHash != "" {
			all = add(all, f.named(s.EncodingVersionHash, s.EncodingVersion))
		}
	}
	return all
}

// disagreement says that the API servers write different versions, or why it is unknown whether they do. Both results
// are empty if the servers agree.
func (f Facts) disagreement() (disagree, unknown string) {
	var shown []stored
	for _, server := range f.withServers(nil) {
		shown = add(shown, server)
	}
	message := ""
	equal := condition(f.State.Conditions, v1alpha1.ConditionAllEncodingVersionsEqual)
	// else migrated says so
	if evidence, _ := weakEvidence(f.State); equal != nil && equal.Status != metav1.ConditionTrue && evidence == "" {
		message = behind(equal.Message)
	}
	switch {
	case equal != nil && equal.Status == metav1.ConditionFalse,
		f.State.CurrentStorageVersionHash == v1alpha1.Unknown && len(shown) > 1:
		return "the API servers disagree" + message, ""
	case f.State.CurrentStorageVersionHash == v1alpha1.Unknown:
		return "", "its StorageState does not say that the API servers agree on a version" + message
	}
	return "", ""
}

// lateness is how late a heartbeat may be: the time to ask all API servers and to record their answers. By as much the
// clocks of the controller and of this machine may differ.
const lateness = 2 * time.Minute

// maxAge is how old the heartbeat of a StorageState can become while a controller renews it: a heartbeat younger than
// half a period is not renewed, and the next look is a period later.
func (q Question) maxAge(status *v1alpha1.StorageStateStatus) time.Duration {
	if q.MaxAge != 0 {
		return q.MaxAge
	}
	period := time.Duration(status.HeartbeatPeriodSeconds) * time.Second
	if period == 0 {
		period = v1alpha1.DefaultHeartbeatPeriod
	}
	return period + period/2 + lateness
}

// outdated says why a StorageState may be out of date, or returns "".
func (q Question) outdated(f Facts) string {
	status := f.State
	age := q.Now.Sub(status.LastHeartbeatTime.Time)
	switch recorded := status.Definition; {
	case q.AnyAge:
		return ""
	case status.LastHeartbeatTime.IsZero():
		return "its StorageState does not say when the API servers were last asked"
	case age < -lateness:
		return fmt.Sprintf("its StorageState was last renewed %s in the future: the clock of this machine or of the "+
			"controller is wrong, and whether the controller still works is unknown", minutes(-age))
	case age > q.maxAge(status):
		return fmt.Sprintf("its StorageState was last renewed %s ago, and at most %s was expected: what happened "+
			"since is unknown", minutes(age), minutes(q.maxAge(status)))
	case recorded != nil && f.CRD != nil && f.CRD.UID != "" &&
		(recorded.UID != f.CRD.UID || recorded.Generation != f.CRD.Generation):
		return "its CustomResourceDefinition has changed since the StorageState was renewed"
	}
	return ""
}

// minutes formats a duration for users.
func minutes(d time.Duration) string {
	if d < time.Minute {
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// withoutRecord judges a resource without a record.
func (q Question) withoutRecord(f Facts, finding Finding) Finding {
	switch {
	case q.Etcd:
		return q.migrated(f, finding, Undetermined,
			"etcd holds objects that are encrypted or cannot be decoded, and no StorageState says in which version")
	case f.Gone:
		return q.gone(f, finding)
	case f.Unfit != "":
		return finding.is(Undetermined, "it cannot be migrated: "+f.Unfit, q.snapshot(f))
	case q.Installed:
		return q.migrated(f, finding, Undetermined, "it has no StorageState: no one has recorded what is stored")
	case f.CRD != nil:
		return finding.is(Undetermined, "its CustomResourceDefinition claims no stored version yet", q.snapshot(f))
	}
	return finding.is(Undetermined, "nothing records in which versions it is stored", q.snapshot(f))
}

// gone judges a resource that the API server does not serve. A migration of it can never succeed.
func (q Question) gone(f Facts, finding Finding) Finding {
	next := ""
	if m := f.Migration(); m != nil {
		next = q.Program + " cancel " + m.Name
	}
	return finding.is(Undetermined, "the API server does not serve it: what is still stored is unknown", next)
}

// snapshot returns the command that reads etcd, unless etcd has been read.
func (q Question) snapshot(f Facts) string {
	if q.Etcd {
		return ""
	}
	return q.Program + " check " + f.Resource.String() + " --snapshot FILE"
}

// undecodable returns the versions that the target cannot decode; without a target, all versions but the current one.
func (q Question) undecodable(f Facts, all []stored) (bad []stored) {
	known := slices.DeleteFunc(slices.Clone(all), func(s stored) bool { return s.hash == v1alpha1.Unknown })
	declared, _ := q.declared(f)
	for _, s := range known {
		ok := s.hash == f.CurrentHash || f.CurrentHash == "" && len(known) == 1
		switch {
		case declared != nil:
			ok = f.decodes(declared, s) || s.name == s.hash // a hash of no known version: see unnamed
		case q.Target != nil && !f.Aggregated:
			ok = q.Target.decodes(f, s.hash)
		}
		if !ok {
			bad = append(bad, s)
		}
	}
	return bad
}

// why says what is wrong with the versions that cannot be decoded.
func (q Question) why(f Facts, b basis, bad []stored) string {
	what := strings.Join(names(bad), ", ")
	if b.source == ByEtcd {
		what = b.inEtcd(bad)
	} else {
		what = map[Source]string{
			ByStorageState:   "its StorageState says that objects may be stored as ",
			ByStoredVersions: "its CustomResourceDefinition claims that objects are stored as ",
			ByCount:          "it is written as ",
		}[b.source] + what
	}
	if q.Target == nil {
		return what + ", not only as " + f.current()
	}
	if declared, at := q.declared(f); declared != nil {
		return what + ", which its API servers" + at + " do not declare that they can decode"
	}
	if f.Aggregated {
		return what + ", not only as " + f.current() + "; its API server is not a part of Kubernetes"
	}
	return what + ", " + q.Target.cannot(f)
}

func objects(all []stored) (n int64) {
	for _, s := range all {
		n += s.objects
	}
	return n
}

// unsafe answers if versions are stored, or written, that cannot be decoded. A migration helps, unless the version that
// is written now is itself the problem.
func (q Question) unsafe(f Facts, finding Finding, b basis, bad []stored) Finding {
	current := slices.ContainsFunc(bad, func(s stored) bool { return s.hash == f.CurrentHash })
	switch why := q.why(f, b, bad); {
	case f.Gone:
		return finding.is(Unsafe, why, "")
	case current || f.Unfit != "":
		return finding.is(Unsafe, why, "kubectl get "+finding.Resource+" --all-namespaces -o yaml")
	default:
		return q.migrated(f, finding, Unsafe, why)
	}
}

// migrate returns the command that migrates a resource: through the controller, if there is one.
func (q Question) migrate(resource string) string {
	if q.Installed {
		return q.Program + " request " + resource
	}
	return q.Program + " migrate " + resource
}

func (q Question) safe(f Facts, b basis) string {
	declared, at := q.declared(f)
	switch {
	case b.source == ByCount:
		return "there are no objects"
	case declared != nil && at == "":
		return "its API servers declare that they can decode " + strings.Join(names(b.stored), ", ") +
			"; they are not a part of Kubernetes"
	case declared != nil:
		return "its API servers" + at + " declare that they can decode " + strings.Join(names(b.stored), ", ")
	case q.Target != nil && f.Aggregated:
		return "everything is stored as " + f.current() + "; its API server is not a part of Kubernetes"
	case q.Target != nil && f.CRD != nil:
		return "its CustomResourceDefinition has " + strings.Join(names(b.stored), ", ")
	case q.Target != nil:
		return q.Target.Name + " can decode " + strings.Join(names(b.stored), ", ")
	}
	return "everything is stored as " + f.current()
}
