// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"context"
	"fmt"
	"slices"
)

// Verdict answers one question about a CRD.
type Verdict string

// The verdicts.
const (
	Yes Verdict = "yes"
	No  Verdict = "no"
	// NotAsked: the question does not arise, and Reasons says why.
	NotAsked Verdict = "not asked"
	// Undetermined: it cannot be said, and Reasons says why. It counts as No.
	Undetermined Verdict = "undetermined"
)

// Judgement is a verdict and what led to it.
type Judgement struct {
	Verdict Verdict  `json:"verdict"`
	Reasons []string `json:"reasons,omitempty"`
}

// Comparison is what is said of one CRD.
type Comparison struct {
	Name string `json:"name"`
	// Create: would an API server take the new one where there is none?
	Create Judgement `json:"create"`
	// Update: would an API server that holds the old one take the new one?
	Update Judgement `json:"update"`
	// Compatible: do clients and objects of the old one work with the new one, and do objects keep every field?
	Compatible Judgement `json:"compatible"`
	// Lossless: does conversion strategy None between the new one's versions keep all data?
	Lossless Judgement `json:"lossless"`
	// Warnings are what to know when it is applied.
	Warnings []string `json:"warnings,omitempty"`
}

// OK reports whether nothing speaks against the new CRD.
func (c *Comparison) OK() bool {
	return !slices.ContainsFunc([]Judgement{c.Create, c.Update, c.Compatible, c.Lossless}, func(j Judgement) bool {
		return j.Verdict == No || j.Verdict == Undetermined
	})
}

// judge is Yes where there are no reasons.
func judge(reasons []string) Judgement {
	if len(reasons) > 0 {
		return Judgement{Verdict: No, Reasons: reasons}
	}
	return Judgement{Verdict: Yes}
}

func notAsked(format string, arguments ...any) Judgement {
	return Judgement{Verdict: NotAsked, Reasons: []string{fmt.Sprintf(format, arguments...)}}
}

// Check judges every CRD that is in old, in next or in both, by its name.
func Check(ctx context.Context, old, next []*CRD) ([]Comparison, error) {
	var all []Comparison
	for _, before := range old {
		if find(next, before.Name) == nil {
			gone := notAsked("it is in %s alone", before.From)
			all = append(all, Comparison{
				Name: before.Name, Create: gone, Update: gone, Lossless: gone,
				Compatible: judge([]string{"the CRD is gone, and with it every object"}),
			})
		}
	}
	for _, after := range next {
		comparison, err := compare(ctx, find(old, after.Name), after)
		if err != nil {
			return nil, fmt.Errorf("check %s: %w", after.Name, err)
		}
		all = append(all, *comparison)
	}
	return all, nil
}

func find(all []*CRD, name string) *CRD {
	i := slices.IndexFunc(all, func(d *CRD) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return all[i]
}

// compare judges one CRD; before is nil if it is new.
func compare(ctx context.Context, before, after *CRD) (*Comparison, error) {
	c := &Comparison{Name: after.Name, Create: judge(after.CreateProblems(ctx)), Warnings: after.dropped()}
	c.Warnings = append(c.Warnings, after.unread()...)
	isNew := notAsked("there is no old one")
	c.Update, c.Compatible, c.Lossless = isNew, isNew, after.lossless(after.storedVersions())
	if before == nil {
		return c, nil
	}
	c.Update = judge(after.UpdateProblems(ctx, before))
	incompatible, err := incompatibilities(before, after)
	if err != nil {
		return nil, err
	}
	c.Compatible = judge(slices.Concat(incompatible, after.prunedFrom(before)))
	c.Lossless = after.lossless(before.storedVersions())
	c.Warnings = append(c.Warnings, applyWarnings(before, after)...)
	return c, nil
}

// unread says what Unread does of every version that is served. A CRD whose schemas cannot be read is not created
// either, and Create says why.
func (d *CRD) unread() []string {
	var all []string
	for _, version := range d.internal.Spec.Versions {
		if !version.Served {
			continue
		}
		found, err := d.Unread(version.Name)
		if err != nil {
			return nil
		}
		all = append(all, found...)
	}
	return all
}

// applyWarnings says where `kubectl apply` does something else than the update that is judged.
func applyWarnings(before, after *CRD) []string {
	if !before.preserves() || after.preserves() || after.saysPreserve {
		return nil
	}
	return []string{"`kubectl apply` leaves spec.preserveUnknownFields at true in the cluster: write false"}
}
