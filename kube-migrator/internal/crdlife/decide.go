// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crdlife

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/refusal"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
)

// Decide returns the plan for the CRD in a file. It is pure.
func (want Intent) Decide(next *CRD, f Facts) Plan {
	if refused := next.Unfit(); refused != nil {
		return Plan{Refusal: refused}
	}
	if f.Live == nil {
		return Plan{Steps: []Step{{Create, "create it with " + list(next.VersionNames())}}}
	}
	p := Plan{Keep: Keep(next, f), Losses: f.Found.Losses}
	for _, rule := range []func(*CRD, Facts, Plan) *refusal.Error{want.terminating, want.stranded,
		want.unreadable, want.unserved,
		want.nothingInCommon, want.losing, want.convertible, want.independent} {
		if refused := rule(next, f, p); refused != nil {
			p.Refusal = refused
			return p
		}
	}
	p.Steps = want.steps(next, f, p)
	return p
}

// unhooks reports whether objects cannot be read because the conversion webhook fails, although the CRD in the file has
// none, and no object can lose a field where only its apiVersion changes. Then the webhook goes first, and the next plan
// knows the objects.
func unhooks(next *CRD, f Facts) bool {
	return f.Live.Webhook() && !next.Webhook() && strings.Contains(f.Unreadable, "conversion webhook") &&
		slices.ContainsFunc(next.VersionNames(), f.Live.has) && len(ruleOf(next, f.Live, false, true).Possible()) == 0
}

// Stored returns the versions in which objects may be stored: those in status.storedVersions, which the API server
// maintains, and those in the StorageState. If the StorageState contains Unknown, these are all versions of the CRD.
func (f Facts) Stored() []string {
	stored := slices.Clone(f.Live.Status.StoredVersions)
	more := slices.Clone(f.Recorded)
	if f.Unknown {
		more = append(more, f.Live.VersionNames()...)
	}
	for _, version := range more {
		if !slices.Contains(stored, version) {
			stored = append(stored, version)
		}
	}
	return stored
}

// Keep returns the versions that the CRD in the file does not have, and that the CRD in the cluster needs until no
// object is stored in them and no managedFields entry names them: once a version is removed, the API server refuses
// every server-side apply to an object with such an entry.
func Keep(next *CRD, f Facts) (keep []string) {
	stored := f.Stored()
	for _, v := range Removed(next, f.Live) {
		if slices.Contains(stored, v) || f.Found.Naming[v] > 0 {
			keep = append(keep, v)
		}
	}
	return keep
}

// Removed returns the versions of the CRD in the cluster that the CRD in the file does not have.
func Removed(next, live *CRD) []string {
	return slices.DeleteFunc(live.VersionNames(), next.has)
}

// Rewrites reports whether objects have to be rewritten before the CRD in the file can be applied.
func (p Plan) Rewrites() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Name == Migrate })
}

// unserved returns the versions that the CRD in the cluster serves, and the CRD in the file does not.
func unserved(next, live *CRD) []string {
	return slices.DeleteFunc(live.VersionNames(), func(v string) bool { return !live.Served(v) || next.Served(v) })
}

// losesWebhook reports whether the CRD in the file has no conversion webhook any more although objects may be stored
// that need it, even if their version remains.
func losesWebhook(next *CRD, f Facts) bool {
	return f.Live.Webhook() && !next.Webhook() && len(moving(next, f)) > 0
}

// moving returns the versions in which objects may be stored, without the storage version of the CRD in the file.
func moving(next *CRD, f Facts) []string {
	return slices.DeleteFunc(f.Stored(), func(v string) bool { return v == next.StorageVersion() })
}

func (want Intent) terminating(_ *CRD, f Facts, _ Plan) *refusal.Error {
	for _, c := range f.Live.Status.Conditions {
		if c.Type == "Terminating" && c.Status == "True" {
			return refusal.New(Terminating, "kubectl wait --for=delete customresourcedefinition "+f.Live.Name(),
				"the cluster is deleting it: %s", c.Message)
		}
	}
	return nil
}

// stranded refuses if objects may be stored in a version that neither CRD has: they cannot be read, so nothing can be
// proven about them.
func (want Intent) stranded(next *CRD, f Facts, _ Plan) *refusal.Error {
	for _, v := range f.Live.Status.StoredVersions {
		if !f.Live.has(v) && !next.has(v) {
			return refusal.New(Stranded, want.Program+" retire "+f.Live.Name()+" --version="+v+" --rescue",
				"status.storedVersions names %s, which neither the cluster's CRD (%s) nor the file (%s) has: objects "+
					"that are stored in it cannot be read",
				v, list(f.Live.VersionNames()), list(next.VersionNames()))
		}
	}
	return nil
}

func (want Intent) unreadable(next *CRD, f Facts, _ Plan) *refusal.Error {
	if f.Unreadable == "" || unhooks(next, f) {
		return nil
	}
	return refusal.New(Unreadable, retire.Remedy(want.Program, f.Live.Name(), f.Live.VersionNames(), f.Unreadable),
		"whether objects need what it drops is not known: %s", f.Unreadable)
}

// unserved refuses if objects have to be rewritten and the CRD serves no version.
func (want Intent) unserved(next *CRD, f Facts, p Plan) *refusal.Error {
	if next.Endpoint() != "" || len(p.Keep) == 0 && !losesWebhook(next, f) {
		return nil
	}
	return refusal.New(Invalid, "kubectl diff --server-side -f "+next.File(),
		"it serves no version, and objects have to be rewritten: nothing could read them")
}

// nothingInCommon refuses to convert objects between versions that no release has together: the author of the CRD has
// not said how to convert them.
func (want Intent) nothingInCommon(next *CRD, f Facts, p Plan) *refusal.Error {
	if slices.ContainsFunc(next.VersionNames(), f.Live.has) || f.Found.Objects == 0 ||
		next.Webhook() || slices.Contains(want.AcceptOtherMeaning, next.Name()) {
		return nil
	}
	return refusal.New(NothingInCommon, save(next), "the cluster has %s, the file %s, and no conversion between them: only "+
		"the apiVersion of %s would be changed, and their fields may mean something else; upgrade-crd --accept-other-meaning=%s accepts "+
		"that",
		list(f.Live.VersionNames()), list(next.VersionNames()), phrase.Objects(f.Found.Objects), next.Name())
}

// losing refuses if objects have, or may have, fields that would be dropped.
func (want Intent) losing(next *CRD, f Facts, p Plan) *refusal.Error {
	if p.Losses.Objects == 0 || slices.Contains(want.AcceptFieldLoss, next.Name()) {
		return nil
	}
	return refusal.New(FieldLoss, save(next), "%s would lose fields that the schema of %s does not keep, and that they "+
		"have as far as managedFields tell: %s; upgrade-crd --accept-field-loss=%s accepts that", phrase.Objects(p.Losses.Objects),
		next.StorageVersion(), p.Losses, next.Name())
}

// convertible refuses to take the conversion webhook away where the versions that stay do not have the same fields: clients
// of one of them would not see, and would drop, what clients of the other have written.
func (want Intent) convertible(next *CRD, f Facts, _ Plan) *refusal.Error {
	if !f.Live.Webhook() || next.Webhook() || slices.Contains(want.AcceptFieldLoss, next.Name()) {
		return nil
	}
	for _, from := range next.schemas.Versions {
		for _, to := range next.schemas.Versions {
			if !from.Served && !from.Storage || !to.Served && !to.Storage {
				continue
			}
			if lost := from.Schema.Lost(to.Schema); len(lost) > 0 {
				return refusal.New(FieldLoss, save(next), "it takes the conversion webhook away, and without it %s of %s is lost where "+
					"an object is read or written as %s; upgrade-crd --accept-field-loss=%s accepts that", lost[0].Path, from.Name,
					to.Name, next.Name())
			}
		}
	}
	return nil
}

// independent refuses to stop serving a version that ownerReferences name, or may name: the garbage collector could not
// read the owners any more.
func (want Intent) independent(next *CRD, f Facts, _ Plan) *refusal.Error {
	for _, v := range unserved(next, f.Live) {
		d := f.Dependents[v]
		switch {
		case d.Objects > 0:
			fix := want.Program + " retire " + next.Name() + " --version=" + v + " --fix-owners"
			return refusal.New(HasDependents, fix, "it does not serve %s, which ownerReferences of %s name: %s; while it is not "+
				"served, the garbage collector leaves these objects behind when their owner is deleted; upgrade-crd --leave-owners "+
				"accepts that", v, phrase.Objects(d.Objects), d)
		case len(d.Unread) > 0:
			first := d.Unread[0]
			return refusal.New(UnreadOwners, cmp.Or(first.Try, "kubectl get "+first.Resource+" --all-namespaces"),
				"it does not serve %s, which ownerReferences may name in resources that cannot be listed: %s; upgrade-crd --leave-owners goes on without them", v, d.UnreadNames())
		}
	}
	return nil
}

// save is the command that saves the objects, which comes before every loss.
func save(next *CRD) string {
	return "kubectl get " + next.Name() + " --all-namespaces -o yaml > " + next.Name() + ".yaml"
}

// steps returns the steps of a plan that no rule refuses.
func (want Intent) steps(next *CRD, f Facts, p Plan) (steps []Step) {
	apply := Step{Apply, "apply it with " + list(next.VersionNames())}
	if unhooks(next, f) {
		return append(steps, Step{Unhook, "remove the conversion webhook, which fails: no object loses a field without it"}, apply)
	}
	if len(p.Keep) == 0 && !losesWebhook(next, f) {
		return append(steps, apply)
	}
	storage := next.StorageVersion()
	if !intermediate(next, f.Live, p.Keep) {
		what := fmt.Sprintf("apply it with %s", list(next.VersionNames()))
		if len(p.Keep) > 0 {
			what += fmt.Sprintf(", and keep %s, unserved", list(p.Keep))
		}
		if conversionOf(next, f.Live) != next {
			what += ", with the conversion webhook that the cluster has"
		}
		steps = append(steps, Step{Intermediate, what})
	}
	if !f.Proven {
		steps = append(steps, Step{Migrate, fmt.Sprintf("rewrite %s as %s, and prove that nothing else is stored",
			phrase.Objects(f.Found.Objects), storage)})
	}
	if !f.Proven || f.Live.ClaimedBy() != "" || !slices.Equal(f.Live.Status.StoredVersions, []string{storage}) {
		steps = append(steps, Step{Prune, "reduce status.storedVersions to [" + storage + "]"})
	}
	for _, v := range p.Keep {
		if n := f.Found.Naming[v]; n > 0 {
			steps = append(steps, Step{Owned, fmt.Sprintf("move the managedFields entries of %s from %s to %s",
				phrase.Objects(n), v, next.Endpoint())})
		}
	}
	return append(steps, apply)
}

func list(versions []string) string { return strings.Join(versions, ", ") }
