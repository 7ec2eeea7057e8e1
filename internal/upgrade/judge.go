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
)

// basis is what a verdict rests on.
type basis struct {
	source Source
	stored []stored
	// doubt says why something else may be stored as well; empty where nothing may. next is the command against it.
	doubt, next string
	// unsure says why the record may be out of date.
	unsure string
}

// Judge decides for one resource.
func (q Question) Judge(f Facts) Finding {
	finding := Finding{Resource: f.Resource.String(), Current: f.current()}
	if f.NotStored && len(f.Held) == 0 {
		return finding.is(Safe, "nothing is stored", "")
	}
	b := q.basis(f)
	finding.Source, finding.Stored = b.source, names(b.stored)
	switch {
	case b.source == ByNothing:
		return q.withoutRecord(f, finding)
	case b.doubt != "":
		return finding.is(Unsafe, b.doubt, b.next)
	}
	if bad := q.undecodable(f, b.stored); len(bad) > 0 {
		if q.Target != nil && f.Empty {
			finding.Source = ByCount
			return finding.is(Safe, "there are no objects", "")
		}
		finding.Stranded = names(bad)
		return finding.is(Unsafe, q.why(f, b, bad), q.next(f, bad))
	}
	switch {
	case f.Gone:
		return finding.is(Undetermined, unserved, "")
	case f.CurrentHash == "":
		return finding.is(Undetermined, "its API server does not tell in which version it stores it", q.snapshot(f))
	case b.unsure != "":
		return finding.is(Undetermined, b.unsure, "kubectl get pods --all-namespaces -l app.kubernetes.io/name=kube-migrator")
	}
	return finding.is(Safe, q.safe(f, b), "")
}

func (f Finding) is(v Verdict, why, next string) Finding {
	f.Verdict, f.Why, f.Next = v, why, next
	return f
}

// basis chooses the strongest of what is known: what etcd holds, then the StorageState, then, where no StorageState can be
// expected, the definition's storedVersions, then that there are no objects.
func (q Question) basis(f Facts) basis {
	opaque := slices.ContainsFunc(f.Held, func(h Held) bool { return h.Opaque })
	switch {
	case q.Etcd && !opaque:
		return q.byEtcd(f)
	case f.State != nil:
		return q.byState(f)
	case f.Definition != nil && len(f.Definition.StoredVersions) > 0 && (!q.Installed || f.Unfit != ""):
		return f.byStoredVersions()
	case f.Empty && !q.Installed:
		return basis{source: ByCount, stored: f.withCurrent(nil)}
	}
	return basis{}
}

// withCurrent adds what the API server shows that it writes now (I1).
func (f Facts) withCurrent(all []stored) []stored {
	if f.CurrentHash == "" {
		return all
	}
	return add(all, f.named(f.CurrentHash, ""))
}

// byEtcd takes what etcd holds for the whole truth about the past. What is being written now is another matter: of that the
// StorageState tells, while it is fresh.
func (q Question) byEtcd(f Facts) basis {
	b := basis{source: ByEtcd}
	for _, h := range f.Held {
		b.stored = add(b.stored, f.held(h))
	}
	if f.State != nil && q.outdated(f.State) == "" {
		b.stored = f.withServers(b.stored)
		b.doubt, b.next = f.disagreement()
	}
	b.stored = f.withCurrent(b.stored)
	return b
}

func (f Facts) byStoredVersions() basis {
	b := basis{source: ByStoredVersions}
	for _, v := range f.Definition.StoredVersions {
		b.stored = add(b.stored, stored{hash: f.Definition.hash(v), name: v})
	}
	b.stored = f.withCurrent(b.stored)
	return b
}

// byState reads the StorageState. What the API servers were seen to write counts as stored, recorded or not.
func (q Question) byState(f Facts) basis {
	status := f.State
	request := q.Program + " request " + f.Resource.String()
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
	switch {
	case slices.Contains(status.PersistedStorageVersionHashes, v1alpha1.Unknown):
		b.doubt, b.next = "its StorageState says Unknown: objects may be stored in versions that nobody can name", request
	case recorded == 0:
		b.doubt, b.next = "its StorageState records no version yet", request
	default:
		b.doubt, b.next = f.disagreement()
	}
	b.unsure = q.outdated(status)
	return b
}

// withServers adds what each API server was seen to write (I1).
func (f Facts) withServers(all []stored) []stored {
	for _, s := range f.State.ServerStorageVersions {
		if s.EncodingVersionHash != "" {
			all = add(all, f.named(s.EncodingVersionHash, s.EncodingVersion))
		}
	}
	return all
}

// disagreement says that the API servers disagree, and the command that shows how; empty where they do not.
func (f Facts) disagreement() (doubt, next string) {
	next = "kubectl describe storagestates.migration.k8s.io " + f.Resource.String()
	switch equal := condition(f.State.Conditions, v1alpha1.AllEncodingVersionsEqual); {
	case equal != nil && equal.Status == metav1.ConditionFalse:
		return "the API servers disagree" + behind(equal.Message), next
	case f.State.CurrentStorageVersionHash == v1alpha1.Unknown:
		return "the API servers disagree", next
	}
	return "", ""
}

// outdated says why a StorageState may not tell how things are now; empty where it does.
func (q Question) outdated(status *v1alpha1.StorageStateStatus) string {
	switch age := q.Now.Sub(status.LastHeartbeatTime.Time); {
	case q.MaxAge == 0:
	case status.LastHeartbeatTime.IsZero():
		return "its StorageState does not tell when the API servers were last looked at"
	case age > q.MaxAge:
		return fmt.Sprintf("its StorageState is %s old: what happened since is not recorded", strings.TrimSuffix(age.Round(time.Minute).String(), "0s"))
	}
	return ""
}

func behind(message string) string {
	if message == "" {
		return ""
	}
	return ": " + strings.Join(strings.Fields(message), " ")
}

func condition(all []v1alpha1.Condition, t v1alpha1.ConditionType) *v1alpha1.Condition {
	for i := range all {
		if all[i].Type == t {
			return &all[i]
		}
	}
	return nil
}

// withoutRecord judges what nothing is recorded of.
func (q Question) withoutRecord(f Facts, finding Finding) Finding {
	switch {
	case q.Etcd:
		return finding.is(Undetermined, "etcd holds objects that are encrypted or not understood, and no StorageState tells their version", q.Program+" request "+finding.Resource)
	case f.Gone:
		return finding.is(Undetermined, unserved, "")
	case f.Unfit != "":
		return finding.is(Undetermined, "it cannot be migrated: "+f.Unfit, q.snapshot(f))
	case q.Installed:
		return finding.is(Unsafe, "it has no StorageState: nothing is known of what is stored", q.Program+" request "+finding.Resource)
	case f.Definition != nil:
		return finding.is(Undetermined, "its definition claims no stored version yet", q.snapshot(f))
	}
	return finding.is(Undetermined, "nothing records in which versions it is stored", q.snapshot(f))
}

const unserved = "the API server does not serve it, and nobody can tell what is still stored"

// snapshot is the command that looks into etcd, unless that has been done.
func (q Question) snapshot(f Facts) string {
	if q.Etcd {
		return ""
	}
	return q.Program + " check " + f.Resource.String() + " --snapshot FILE"
}

// undecodable are the versions that whoever comes cannot decode; without a target, all but the present one.
func (q Question) undecodable(f Facts, all []stored) (bad []stored) {
	for _, s := range all {
		if ok := s.hash == f.CurrentHash || f.CurrentHash == "" && len(all) == 1; q.Target == nil || f.Aggregated {
			if !ok {
				bad = append(bad, s)
			}
		} else if !q.Target.decodes(f, s.hash) {
			bad = append(bad, s)
		}
	}
	return bad
}

// why says what is wrong with the versions that cannot be decoded.
func (q Question) why(f Facts, b basis, bad []stored) string {
	what := strings.Join(names(bad), ", ")
	if b.source == ByEtcd {
		if n := objects(bad); n > 0 {
			what = fmt.Sprintf("etcd holds %s as %s", counted(n), what)
		} else {
			what += " is written now"
		}
	} else {
		what = map[Source]string{
			ByStorageState: "its StorageState says that objects may be stored as ", ByStoredVersions: "its definition claims that objects are stored as ",
			ByCount: "it is written as ",
		}[b.source] + what
	}
	switch {
	case q.Target == nil:
		return what + ", not only as " + f.current()
	case f.Aggregated:
		return what + ", not only as " + f.current() + "; its API server is no part of Kubernetes"
	}
	return what + ", " + q.Target.cannot(f)
}

// counted is a number of objects for people.
func counted(n int64) string {
	if n == 1 {
		return "1 object"
	}
	return fmt.Sprintf("%d objects", n)
}

func objects(all []stored) (n int64) {
	for _, s := range all {
		n += s.objects
	}
	return n
}

// next is the command that helps: migrating does, unless what is written now is itself the problem.
func (q Question) next(f Facts, bad []stored) string {
	current := slices.ContainsFunc(bad, func(s stored) bool { return s.hash == f.CurrentHash })
	switch name := f.Resource.String(); {
	case f.Gone:
		return ""
	case current || f.Unfit != "":
		return "kubectl get " + name + " --all-namespaces -o yaml"
	default:
		return q.migrate(name)
	}
}

// migrate is the command that has a resource migrated: by the controller, where there is one.
func (q Question) migrate(resource string) string {
	if q.Installed {
		return q.Program + " request " + resource
	}
	return q.Program + " migrate " + resource
}

func (q Question) safe(f Facts, b basis) string {
	switch {
	case b.source == ByCount:
		return "there are no objects"
	case q.Target != nil && f.Aggregated:
		return "everything is stored as " + f.current() + "; its API server is no part of Kubernetes"
	case q.Target != nil && f.Definition != nil:
		return "its CustomResourceDefinition has " + strings.Join(names(b.stored), ", ")
	case q.Target != nil:
		return q.Target.Name + " can decode " + strings.Join(names(b.stored), ", ")
	}
	return "everything is stored as " + f.current()
}
