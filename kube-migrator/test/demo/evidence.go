// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/etcdaudit"
)

// evidence is everything that was read, and the only thing that the sentence at the end is made of.
type evidence struct {
	before, after look
	// listed is how many widgets kubectl listed when v1 was gone.
	listed int
}

// migrated are the resources that the story is about.
var migrated = []string{widgets, policies}

// count adds up the objects of the rows that match.
func (l *look) count(match func(etcdaudit.Row) bool) (objects int64) {
	for _, row := range l.report.Rows {
		if row.Comparison != etcdaudit.NoObject && match(row) {
			objects += row.Objects
		}
	}
	return objects
}

// stored counts the objects of a resource in a version.
func (l *look) stored(resource, apiVersion string) int64 {
	return l.count(func(r etcdaudit.Row) bool { return r.Resource == resource && r.APIVersion == apiVersion })
}

// of counts the objects of a resource, in a verdict or (empty) in all.
func (l *look) of(resource string, verdict etcdaudit.Comparison) int64 {
	return l.count(func(r etcdaudit.Row) bool {
		return r.Resource == resource &&
			(verdict == "" || r.Comparison == verdict)
	})
}

// versions returns the versions in which objects of a resource were stored before or after, in order.
func (e *evidence) versions(resource string) (versions []string) {
	for _, row := range slices.Concat(e.before.report.Rows, e.after.report.Rows) {
		if row.Resource == resource && row.Comparison != etcdaudit.NoObject {
			versions = append(versions, row.APIVersion)
		}
	}
	slices.Sort(versions)
	return slices.Compact(versions)
}

// sideBySide writes the two audits as one table.
func (e *evidence) sideBySide(w io.Writer) error {
	var rows [][]string
	add := func(what, how string, before, after int64) {
		rows = append(rows, []string{what, how, render.Count(before), render.Count(after)})
	}
	for _, resource := range migrated {
		versions := e.versions(resource)
		slices.SortStableFunc(versions, func(a, b string) int {
			return cmp.Compare(e.before.stored(resource, b), e.before.stored(resource, a))
		})
		for _, version := range versions {
			add(resource, version[strings.LastIndex(version, "/")+1:], e.before.stored(resource, version),
				e.after.stored(resource, version))
		}
	}
	b, a := e.before.report.Totals, e.after.report.Totals
	others := func(l *look) int64 {
		return l.report.Totals.Objects - l.of(widgets, "") - l.of(policies, "")
	}
	add("all other resources", "", others(&e.before), others(&e.after))
	add("objects in old versions", "", b.Stale, a.Stale)
	add("objects whose version cannot be told", "", b.Undetermined+b.NotCompared, a.Undetermined+a.NotCompared)
	rows = append(rows,
		[]string{"storedVersions that widgets claim", "", fmt.Sprint(e.before.storedVersions),
			fmt.Sprint(e.after.storedVersions)},
		[]string{"read at revision of etcd", "", fmt.Sprint(e.before.report.Source.Revision),
			fmt.Sprint(e.after.report.Source.Revision)},
	)
	return render.Tabulate(w, []string{"IN ETCD", "STORED AS", "BEFORE", "AFTER"}, rows)
}

// judge returns every reason for which the migration is not proven; none means that it is.
func (e *evidence) judge() (problems []string) {
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if n := e.after.report.Totals.Stale; n > 0 {
		problem("etcd still holds %s objects in old versions", render.Count(n))
	}
	for _, resource := range migrated {
		before, after, current := e.before.of(resource, ""), e.after.of(resource, ""),
			e.after.of(resource, etcdaudit.IsCurrent)
		if e.before.of(resource, etcdaudit.IsStale) == 0 {
			problem("before the migration no object of %s was in an old version, so it shows nothing", resource)
		}
		if current != after {
			problem("only %s of %s objects of %s are known to be in the current version", render.Count(current),
				render.Count(after), resource)
		}
		if before != after {
			problem("%s had %s objects before and %s after", resource, render.Count(before), render.Count(after))
		}
		if len(e.before.objects[resource]) != int(before) {
			problem("the audit counts %s objects of %s, but %d were compared", render.Count(before), resource,
				len(e.before.objects[resource]))
		}
		if changes := e.before.objects[resource].Diff(e.after.objects[resource]); !changes.None() {
			problem("of %s %d objects were created, %d deleted, %d changed", resource, len(changes.Created),
				len(changes.Deleted), len(changes.Changed))
		}
	}
	if !slices.Equal(e.after.storedVersions, []string{"v2"}) {
		problem("the CRD of widgets claims that %v are stored", e.after.storedVersions)
	}
	if n := e.after.of(widgets, ""); n != int64(e.listed) {
		problem("etcd holds %s widgets, but without v1 kubectl lists %s", render.Count(n),
			render.Count(int64(e.listed)))
	}
	return problems
}

// sentence says what was proven; judge must have found nothing.
func (e *evidence) sentence() string {
	var parts []string
	for _, resource := range migrated {
		name, _, _ := strings.Cut(resource, ".")
		for _, row := range e.before.report.Rows {
			if row.Resource == resource && row.Comparison == etcdaudit.IsStale {
				parts = append(parts, fmt.Sprintf("%s %s as %s", render.Count(row.Objects), name,
					row.APIVersion[strings.LastIndex(row.APIVersion, "/")+1:]))
			}
		}
	}
	return fmt.Sprintf("Proven: etcd held %s objects in old versions (%s) and now holds none; "+
		"all %s are still there with the same UID, generation, managedFields and content; "+
		"and all %s widgets are read without v1.",
		render.Count(e.before.report.Totals.Stale), strings.Join(parts, ", "),
		render.Count(e.after.of(widgets, "")+e.after.of(policies, "")), render.Count(int64(e.listed)))
}
