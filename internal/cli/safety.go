// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/internal/inventory"
)

// seen is everything that the decision whether an upgrade is safe rests on.
type seen struct {
	// name is what the program is called, for commands to try.
	name       string
	now        time.Time
	migrations []v1alpha1.StorageVersionMigration
	// resources are those in question, with what discovery shows now.
	resources []inventory.Resource
	// gone are migrations in question whose resource the inventory does not have.
	gone []v1alpha1.StorageVersionMigration
	// named: the user named the resources, so that each is shown.
	named bool
	// states are the StorageStates by name, servers the API servers that live.
	states  map[string]v1alpha1.StorageState
	servers apiServers
	// failures are parts of the inventory that could not be read.
	failures []inventory.Failure
}

// judge decides for each resource, and for all, whether an upgrade is safe now. It is pure.
func (s seen) judge() render.Progress {
	p := render.Progress{Resources: []render.ProgressResource{}, NotCovered: []string{}, Time: s.now.UTC()}
	for _, r := range s.resources {
		about := matches(s.migrations, isAbout(r))
		if len(about) == 0 && r.Problem == nil {
			p.NotCovered = append(p.NotCovered, r.GroupResource.String())
		}
		if len(about) > 0 || s.named {
			p.Resources = append(p.Resources, s.resource(r, about))
		}
	}
	for i := range s.gone {
		row := s.row(&s.gone[i], resourceOf(&s.gone[i]).String())
		row.Verdict, row.Why = render.Undetermined, "the API server does not serve it, and nobody can tell what is still stored"
		row.Unfinished = row.Unfinished && !holds(&s.gone[i], v1alpha1.Failed)
		row.Try = s.name + " cancel " + row.Migration
		p.Resources = append(p.Resources, row)
	}
	if !s.named {
		for _, f := range s.failures {
			p.NotLookedAt = append(p.NotLookedAt, strings.Join(strings.Fields(f.String()), " "))
		}
	}
	slices.SortStableFunc(p.Resources, func(a, b render.ProgressResource) int { return cmp.Compare(a.Resource, b.Resource) })
	for _, r := range p.Resources {
		p.Total.Total += r.Total
		p.Total.Done += r.Done
		p.Total.Failed += r.Failed
		p.Total.ObjectsPerSecond += r.ObjectsPerSecond
	}
	p.Verdict, p.Sentence = s.sentence(p)
	if p.Verdict == render.Undetermined {
		p.Try = s.try(p.Resources)
	}
	return p
}

// try is the command that helps where something cannot be determined; empty where none does.
func (s seen) try(rows []render.ProgressResource) string {
	command, names := "", []string{}
	for _, r := range rows {
		if r.Verdict != render.Undetermined || r.Try == "" {
			continue
		}
		before, name, _ := cutLast(r.Try, " ")
		if command != "" && command != before { // one thing at a time
			continue
		}
		command, names = before, append(names, name)
	}
	switch {
	case command == "":
		return ""
	case len(names) > 5 && command == s.name+" request":
		return command + " --all"
	}
	return command + " " + strings.Join(names[:min(5, len(names))], " ")
}

// cutLast cuts around the last separator.
func cutLast(text, separator string) (before, after string, ok bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

// resource judges one resource by the migrations that are about it: the newest that proves the present version, else the
// newest.
func (s seen) resource(r inventory.Resource, about []v1alpha1.StorageVersionMigration) render.ProgressResource {
	if len(about) == 0 {
		row := render.ProgressResource{
			Resource: r.GroupResource.String(), Verdict: render.Undetermined, Why: "no StorageVersionMigration is about it",
			PresentStorageVersion: r.Storage(), PresentStorageVersionHash: r.StorageVersionHash,
		}
		if r.Problem != nil {
			row.Why = "it cannot be migrated: " + r.Problem.Message
			if r.Problem.Reason == inventory.NotPersisted {
				row.Verdict, row.Why = render.Safe, "nothing is stored"
			}
		}
		return row
	}
	slices.SortStableFunc(about, func(a, b v1alpha1.StorageVersionMigration) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	counts := about[0]
	for _, m := range about {
		if verdict, _ := s.verdictOf(&m, r); verdict == render.Safe {
			counts = m
			break
		}
	}
	row := s.row(&counts, r.GroupResource.String())
	row.PresentStorageVersion, row.PresentStorageVersionHash = r.Storage(), r.StorageVersionHash
	row.Verdict, row.Why = s.verdictOf(&counts, r)
	if row.Verdict == render.Undetermined {
		row.Try = s.name + " request " + row.Resource
	}
	if row.Verdict == render.HasFailures {
		row.Unfinished = false
		row.Try = "kubectl describe storageversionmigrations.migration.k8s.io " + counts.Name + ", mend it, then " + s.name + " request " + row.Resource
	}
	return row
}

// verdictOf judges a resource by one migration. A finished run proves something about one version alone, and only while
// nobody has asked for another run; a definition that claims more versions than it stores contradicts it (I2), and so does
// whatever may have written another version since.
func (s seen) verdictOf(m *v1alpha1.StorageVersionMigration, r inventory.Resource) (render.Verdict, string) {
	status, spec := m.Status, m.Spec
	switch {
	case status.CompletedGeneration >= spec.Generation && holds(m, v1alpha1.Succeeded):
		switch {
		case r.StorageVersionHash == "":
			return render.Undetermined, "discovery does not show in which version it is stored"
		case status.StorageVersionHash == "":
			return render.Undetermined, "it succeeded, but does not say for which version"
		case status.StorageVersionHash != r.StorageVersionHash:
			return render.WorkLeft, fmt.Sprintf("the storage version has changed since: migrated to %s, now it is %s",
				versionOrHash(status.StorageVersion, status.StorageVersionHash), versionOrHash(r.Storage(), r.StorageVersionHash))
		case r.CRD != nil && slices.ContainsFunc(r.CRD.StoredVersions, func(v string) bool { return v != r.CRD.StorageVersion }):
			return render.WorkLeft, "it succeeded, but its definition claims that these versions are stored: " + strings.Join(r.CRD.StoredVersions, ", ")
		}
		if verdict, why := s.still(m, r); verdict != render.Safe {
			return verdict, why
		}
		return render.Safe, "every object is stored as " + versionOrHash(r.Storage(), r.StorageVersionHash)
	case holds(m, v1alpha1.Failed) && status.Run.Generation >= spec.Generation:
		return render.HasFailures, cmp.Or(messageOf(m, v1alpha1.Failed), status.Summary, "the last run failed")
	case spec.State == v1alpha1.Paused:
		return render.WorkLeft, whyPaused
	case status.Run.Generation < spec.Generation:
		return render.WorkLeft, fmt.Sprintf("generation %d was requested and has not begun", spec.Generation)
	}
	return render.WorkLeft, cmp.Or(messageOf(m, v1alpha1.Reconciling), status.Summary, "it is not finished")
}

const whyPaused = "it is paused"

func versionOrHash(version, hash string) string {
	if version != "" {
		return version
	}
	return "the version with the hash " + hash
}

func conditionOf(m *v1alpha1.StorageVersionMigration, t v1alpha1.ConditionType) *v1alpha1.Condition {
	for i := range m.Status.Conditions {
		if m.Status.Conditions[i].Type == t {
			return &m.Status.Conditions[i]
		}
	}
	return nil
}

func holds(m *v1alpha1.StorageVersionMigration, t v1alpha1.ConditionType) bool {
	c := conditionOf(m, t)
	return c != nil && c.Status == metav1.ConditionTrue
}

func messageOf(m *v1alpha1.StorageVersionMigration, t v1alpha1.ConditionType) string {
	if c := conditionOf(m, t); c != nil {
		return c.Message
	}
	return ""
}

// row repeats what a migration says.
func (s seen) row(m *v1alpha1.StorageVersionMigration, resource string) render.ProgressResource {
	status, p := m.Status, m.Status.Progress
	row := render.ProgressResource{
		Resource: resource, Migration: m.Name, Status: string(status.State), Summary: status.Summary,
		StorageVersion: status.StorageVersion, StorageVersionHash: status.StorageVersionHash,
		Unfinished: status.CompletedGeneration < m.Spec.Generation,
		Generation: m.Spec.Generation, CompletedGeneration: status.CompletedGeneration,
		Total: p.Total, TotalIsExact: p.TotalIsExact, Done: p.Done, Rewritten: p.Rewritten, Current: p.Current, Gone: p.Gone, Failed: p.Failed, Retried: p.Retried,
		ObjectsPerSecond: p.ObjectsPerSecond, EstimatedCompletionTime: moment(p.EstimatedCompletionTime), StartTime: moment(p.StartTime),
		UpdateTime: moment(p.UpdateTime), CompletionTime: moment(p.CompletionTime),
	}
	if status.Epoch != nil {
		row.Evidence = status.Epoch.Evidence
	}
	if status.Run.Generation < m.Spec.Generation { // what the status counts is the run before
		row.Total, row.TotalIsExact, row.Done, row.Rewritten, row.Current, row.Gone, row.Failed, row.Retried, row.ObjectsPerSecond = 0, false, 0, 0, 0, 0, 0, 0, 0
		row.StorageVersion, row.StorageVersionHash, row.Evidence = "", "", ""
		row.EstimatedCompletionTime, row.StartTime, row.UpdateTime, row.CompletionTime = nil, nil, nil, nil
	}
	for _, f := range status.Failures {
		row.Failures = append(row.Failures, render.ProgressFailure{Namespace: f.Namespace, Name: f.Name, Reason: f.Reason, Message: f.Message, Attempts: f.Attempts})
	}
	return row
}

func moment(t metav1.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	utc := t.UTC()
	return &utc
}

// sentence is the verdict of all, which is that of the resource that says most: failed, work left, undetermined, safe.
func (s seen) sentence(p render.Progress) (render.Verdict, string) {
	with := func(v render.Verdict) (names []string) {
		for _, r := range p.Resources {
			if r.Verdict == v {
				names = append(names, r.Resource)
			}
		}
		return names
	}
	failed, left, unknown := with(render.HasFailures), with(render.WorkLeft), with(render.Undetermined)
	for _, name := range p.NotCovered {
		if !slices.Contains(unknown, name) {
			unknown = append(unknown, name)
		}
	}
	switch {
	case len(failed) > 0:
		return render.HasFailures, "An upgrade is not safe: the migration failed of " + few(failed) + "."
	case len(left) > 0:
		return render.WorkLeft, "An upgrade is not safe yet: work is left on " + few(left) + "."
	case len(unknown) > 0 && len(unknown) == len(p.NotCovered):
		return render.Undetermined, "Whether an upgrade is safe cannot be determined: no migration was requested of " + few(unknown) + "."
	case len(unknown) > 0:
		return render.Undetermined, "Whether an upgrade is safe cannot be determined for " + few(unknown) + "."
	case len(p.NotLookedAt) > 0:
		return render.Undetermined, "Whether an upgrade is safe cannot be determined: a part of the cluster could not be looked at."
	}
	what := "every resource"
	if s.named {
		what = few(with(render.Safe))
	}
	return render.Safe, "An upgrade is safe now: every object of " + what + " is stored in the present storage version."
}

// few names up to five.
func few(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// exitOf is the exit code that a verdict stands for.
func exitOf(v render.Verdict) int {
	switch v {
	case render.Safe:
		return exitDone
	case render.WorkLeft:
		return exitWorkLeft
	case render.HasFailures:
		return exitFailures
	case render.Undetermined:
	}
	return exitUndetermined
}
