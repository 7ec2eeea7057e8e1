// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/crdlife"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/refusal"
)

// JudgeCRD decides whether applying a CRD would strand stored objects, or would cost them fields. It asks the plan that
// upgrade-crd follows, and knows more of what is stored: what etcd holds, and what the StorageState says.
func (q Question) JudgeCRD(proposed *crdlife.CRD, life crdlife.Facts, f Facts) Finding {
	finding := Finding{Resource: proposed.Resource().String(), From: proposed.From}
	upgrade := q.Program + " upgrade-crd -f " + proposed.File()
	live := life.Live
	switch unfit := proposed.Unfit(); {
	case unfit != nil:
		return finding.is(Unsafe, unfit.Message, unfit.Try)
	case live == nil && len(f.Held) == 0:
		return finding.is(Safe, "the cluster does not have it yet: nothing is stored", "")
	case live == nil:
		live = new(crdlife.CRD)
	}
	if m := f.Migration(); m != nil {
		finding.Migration, finding.Run = m.Name, RunOf(m)
	}
	b := q.storedOf(live, f)
	finding.Source, finding.Stored, finding.Current = b.source, names(b.stored), live.StorageVersion()
	gone := slices.DeleteFunc(slices.Clone(b.stored), func(s stored) bool { return proposed.Defines(s.hash) })
	removed := crdlife.Removed(proposed, live)
	named := slices.DeleteFunc(slices.Clone(removed), func(v string) bool { return life.Found.Naming[v] == 0 })
	plan := crdlife.Intent{Program: q.Program, Again: upgrade}.Decide(proposed, life)
	switch {
	case len(gone) > 0:
		finding.Stranded = names(gone)
		if slices.Contains(finding.Stranded, live.StorageVersion()) {
			return finding.is(Unsafe, b.stillStored(gone, proposed)+"; keep "+live.StorageVersion()+
				" until everything is migrated to another version", upgrade)
		}
		return q.migrated(f, finding, Unsafe, b.stillStored(gone, proposed))
	case b.disagree != "" && len(removed) > 0:
		return finding.is(Unsafe, removes(removed)+b.disagree,
			"kubectl describe storagestates.migration.k8s.io "+finding.Resource)
	case b.unknown != "" && len(removed) > 0:
		return q.migrated(f, finding, Undetermined, removes(removed)+b.unknown)
	case plan.Refusal != nil:
		return finding.is(verdictOf(plan.Refusal.Reason), plan.Refusal.Message, plan.Refusal.Try)
	case len(named) > 0:
		return finding.is(Unsafe, removes(named)+"managedFields name it: the API server would refuse every server-side apply "+
			"to these objects", upgrade)
	case life.Unreadable != "": // upgrade-crd makes them readable first
		return finding.is(Undetermined, "the objects cannot be read before it is applied: "+life.Unreadable, upgrade)
	case crdlife.WebhookKeptBy(proposed, life.Live) != "":
		return finding.is(Unsafe, "it has no conversion webhook, of which "+crdlife.WebhookKeptBy(proposed, life.Live)+
			" owns a part in the cluster: the API server would keep that, and refuse the CRD", upgrade)
	case plan.Rewrites() && live.Webhook() && !proposed.Webhook():
		return finding.is(Unsafe, "it takes the conversion webhook away, and objects may be stored in a version that the "+
			"webhook converts", upgrade)
	case live.StorageVersion() != "" && live.StorageVersion() != proposed.StorageVersion():
		return finding.is(Safe, fmt.Sprintf("every stored version stays readable; the storage version moves from %s "+
			"to %s, so migrate afterwards",
			live.StorageVersion(), proposed.StorageVersion()), q.migrate(finding.Resource))
	}
	return finding.is(Safe, "every stored version stays readable", "")
}

// Refused returns the finding about a CRD that the API server does not accept.
func (f Finding) Refused(why, try string) Finding {
	return f.is(Unsafe, "the API server refuses it: "+why, try)
}

// Unasked returns the finding about a CRD of which the API server did not say whether it accepts it.
func (f Finding) Unasked(why, try string) Finding {
	return f.is(Undetermined, "whether the API server accepts it is not known: "+why, try)
}

// verdictOf returns what a reason of upgrade-crd to refuse means for applying the CRD by other means: what could not be
// read is not known, and everything else would do harm.
func verdictOf(reason refusal.Reason) Verdict {
	switch reason {
	case crdlife.Unreadable, crdlife.Terminating, crdlife.UnreadOwners:
		return Undetermined
	}
	return Unsafe
}

func removes(versions []string) string {
	return "it removes " + strings.Join(versions, ", ") + ", and "
}

// storedOf returns the versions that may be stored, from the strongest source, and why there may be others.
func (q Question) storedOf(live *crdlife.CRD, f Facts) (b basis) {
	d := &CRD{Group: live.Spec.Group, Kind: live.Spec.Names.Kind, Versions: live.VersionNames(),
		StorageVersion: live.StorageVersion(), StoredVersions: live.Status.StoredVersions,
		ResourceVersion: live.Metadata.ResourceVersion, ClaimedBy: live.ClaimedBy()}
	if f.CRD != nil {
		d.UID, d.Generation = f.CRD.UID, f.CRD.Generation
	}
	f.CRD = d
	opaque := slices.ContainsFunc(f.Held, func(h Held) bool { return h.Opaque })
	switch {
	case q.Etcd && !opaque:
		b = q.byEtcd(f)
	case f.State != nil:
		b = q.byState(f)
		b.stored = f.byStoredVersions().and(b, "").stored
	default:
		b = f.byStoredVersions()
	}
	b.stored = slices.DeleteFunc(b.stored, func(s stored) bool { return s.hash == v1alpha1.Unknown })
	b.unknown = cmp.Or(b.unknown, b.unsure)
	return b
}

func (b basis) stillStored(gone []stored, proposed *crdlife.CRD) string {
	what := strings.Join(names(gone), ", ")
	switch b.source {
	case ByEtcd:
		what = b.inEtcd(gone)
	case ByStorageState:
		what = "the StorageState or status.storedVersions says that objects may be stored as " + what
	case ByStoredVersions, ByCount, ByNothing:
		what = "status.storedVersions says that objects are stored as " + what
	}
	return what + ", and it has only " + strings.Join(proposed.VersionNames(), ", ")
}
