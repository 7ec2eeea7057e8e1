// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crdupgrade

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/refusal"
)

// Decide returns the plan for the CRD in a file. It is pure.
func (want Intent) Decide(next *CRD, f Facts) Plan {
	if refused := want.unfit(next); refused != nil {
		return Plan{Refusal: refused}
	}
	if f.Live == nil {
		return Plan{Steps: []Step{{Create, "create it with " + list(next.Versions())}}}
	}
	p := Plan{Keep: Keep(next, f), Losses: f.Found.Losses}
	for _, rule := range []func(*CRD, Facts, Plan) *refusal.Error{want.terminating, want.stranded,
		want.unreadable, want.unserved,
		want.nothingInCommon, want.losing} {
		if refused := rule(next, f, p); refused != nil {
			p.Refusal = refused
			return p
		}
	}
	p.Steps = want.steps(next, f, p)
	return p
}

// Stored returns the versions in which objects may be stored: those in status.storedVersions, which the API server
// maintains, and those in the StorageState. If the StorageState contains Unknown, these are all versions of the CRD.
func (f Facts) Stored() []string {
	stored := slices.Clone(f.Live.Status.StoredVersions)
	more := slices.Clone(f.Recorded)
	if f.Unknown {
		more = append(more, f.Live.Versions()...)
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
	return slices.DeleteFunc(live.Versions(), next.has)
}

// losesWebhook reports whether the CRD in the file has no conversion webhook any more although objects may be stored
// that need it, even if their version remains.
func losesWebhook(next *CRD, f Facts) bool {
	return f.Live.manifest.Webhook && !next.manifest.Webhook && len(moving(next, f)) > 0
}

// moving returns the versions in which objects may be stored, without the storage version of the CRD in the file.
func moving(next *CRD, f Facts) []string {
	return slices.DeleteFunc(f.Stored(), func(v string) bool { return v == next.StorageVersion() })
}

func (want Intent) unfit(next *CRD) *refusal.Error {
	storage := 0
	for _, v := range next.Spec.Versions {
		if v.Storage {
			storage++
		}
	}
	switch diff := "kubectl diff --server-side -f " + file(next.From); {
	case storage != 1:
		return refusal.New(Invalid, diff, "it marks %d versions as the storage version, want 1", storage)
	case next.manifest.Webhook && !next.manifest.Reachable:
		return refusal.New(Invalid, diff, "its conversion webhook has neither a URL nor a service")
	}
	return nil
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
				v, list(f.Live.Versions()), list(next.Versions()))
		}
	}
	return nil
}

func (want Intent) unreadable(_ *CRD, f Facts, _ Plan) *refusal.Error {
	if f.Unreadable == "" {
		return nil
	}
	return refusal.New(Unreadable, "kubectl get "+f.Live.Resource().String()+" --all-namespaces --chunk-size=1",
		"it drops versions that objects may be stored in, and %s", f.Unreadable)
}

// unserved refuses if objects have to be rewritten and the CRD serves no version.
func (want Intent) unserved(next *CRD, f Facts, p Plan) *refusal.Error {
	if next.Endpoint() != "" || len(p.Keep) == 0 && !losesWebhook(next, f) {
		return nil
	}
	return refusal.New(Invalid, "kubectl diff --server-side -f "+file(next.From),
		"it serves no version, and objects have to be rewritten: nothing could read them")
}

// nothingInCommon refuses to convert objects between versions that no release has together: the author of the CRD has
// not said how to convert them.
func (want Intent) nothingInCommon(next *CRD, f Facts, p Plan) *refusal.Error {
	if slices.ContainsFunc(next.Versions(), f.Live.has) || f.Found.Objects == 0 ||
		next.manifest.Webhook || len(want.AcceptFieldLoss) > 0 {
		return nil
	}
	return refusal.New(NothingInCommon, want.accepting(),
		"the cluster has %s, the file %s, and no conversion between them: only apiVersion would be changed; %s",
		list(f.Live.Versions()), list(next.Versions()), lost(p.Losses, f.Found.Objects))
}

// losing refuses if objects have, or may have, fields that would be dropped.
func (want Intent) losing(next *CRD, f Facts, p Plan) *refusal.Error {
	atAll := slices.ContainsFunc(p.Losses, func(l Loss) bool { return l.Objects+l.Possibly > 0 })
	if len(want.AcceptFieldLoss) > 0 || !atAll {
		return nil
	}
	return refusal.New(FieldLoss, want.accepting(), "objects may be stored in %s and would be stored as %s without a "+
		"conversion webhook; %s",
		list(lossy(p.Losses)), next.StorageVersion(), lost(p.Losses, f.Found.Objects))
}

func (want Intent) accepting() string { return want.Again + " --accept-field-loss" }

// steps returns the steps of a plan that no rule refuses.
func (want Intent) steps(next *CRD, f Facts, p Plan) (steps []Step) {
	apply := Step{Apply, "apply it with " + list(next.Versions())}
	if len(p.Keep) == 0 && !losesWebhook(next, f) {
		return append(steps, apply)
	}
	storage := next.StorageVersion()
	if !intermediate(next, f.Live, p.Keep) {
		what := fmt.Sprintf("apply it with %s", list(next.Versions()))
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
	if !f.Proven || !slices.Equal(f.Live.Status.StoredVersions, []string{storage}) {
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

// file returns the name of the file in CRD.From, which may be "crds.yaml, document 2".
func file(from string) string {
	name, _, _ := strings.Cut(from, ", document ")
	if strings.Contains(name, " ") || name == "" {
		return "FILE"
	}
	return name
}

func list(versions []string) string { return strings.Join(versions, ", ") }
