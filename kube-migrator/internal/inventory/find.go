// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// NotFoundError reports that the cluster has no resource with a name.
type NotFoundError struct {
	// Name is what the user typed.
	Name string
	// Near are full names of resources that the user may have meant, the likeliest first.
	Near []string
	// Failures are parts of the inventory that could not be read and may hold the resource.
	Failures []Failure
}

func (e *NotFoundError) Error() string {
	parts := []string{fmt.Sprintf("the server has no resource %q", e.Name)}
	for _, f := range e.Failures {
		parts = append(parts, f.String())
	}
	return strings.Join(parts, "; ")
}

// Find returns the resource that arg names in one of the ways that kubectl accepts: plural, singular, kind or short
// name, alone, with a group ("widgets.demo.example.com"), or with version and group ("widgets.v2.demo.example.com").
// Case does not matter. A plural wins over a short name, and a short name over a singular or kind; among groups the API
// server's order of preference decides. A version in arg becomes the resource's Endpoint. The error is a
// *NotFoundError.
func (inv *Inventory) Find(arg string) (Resource, error) {
	for _, a := range parse(arg) {
		if r, ok := inv.find(a); ok {
			return r, nil
		}
	}
	return Resource{}, inv.notFound(arg)
}

// FindAll returns the resources that args name, each once, in the order of args.
func (inv *Inventory) FindAll(args []string) ([]Resource, error) {
	var all []Resource
	for _, arg := range args {
		r, err := inv.Find(arg)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(all, func(known Resource) bool { return known.GroupResource == r.GroupResource }) {
			all = append(all, r)
		}
	}
	return all, nil
}

// argument is one interpretation of what a user typed.
type argument struct {
	word     string
	version  string
	group    string
	anyGroup bool
}

// parse returns the interpretations of arg, beginning with the one that contains a version: "a.b.c" may mean the group
// b.c, or the version b of the group c. Only the form with two dots can name the core group.
func parse(arg string) []argument {
	parts := strings.SplitN(strings.ToLower(arg), ".", 3)
	switch len(parts) {
	case 1:
		return []argument{{word: parts[0], anyGroup: true}}
	case 2:
		return []argument{{word: parts[0], group: parts[1], anyGroup: parts[1] == ""}}
	}
	return []argument{
		{word: parts[0], version: parts[1], group: parts[2]},
		{word: parts[0], group: parts[1] + "." + parts[2]},
	}
}

// find looks for the exact group first, then, as kubectl does, for a group that begins with it.
func (inv *Inventory) find(a argument) (Resource, bool) {
	if r, ok := inv.findIn(a, func(group string) bool { return a.anyGroup || group == a.group }); ok || a.group == "" {
		return r, ok
	}
	return inv.findIn(a, func(group string) bool { return strings.HasPrefix(group, a.group) })
}

func (inv *Inventory) findIn(a argument, group func(string) bool) (Resource, bool) {
	rules := []func(name, Resource) bool{
		func(n name, _ Resource) bool { return n.Resource == a.word },
		func(_ name, r Resource) bool { return slices.Contains(r.ShortNames, a.word) },
		func(_ name, r Resource) bool { return r.answersTo(a.word) },
	}
	for _, rule := range rules {
		for _, n := range inv.names {
			r := inv.Resources[n.resource]
			if !group(n.Group) || !rule(n, r) {
				continue
			}
			if a.version == "" {
				return r, true
			}
			if r, ok := r.at(n.GroupResource, a.version); ok {
				return r, true
			}
		}
	}
	return Resource{}, false
}

// at returns the resource with the version as its endpoint, if it serves that version under that name. A version of an
// alias does not change the endpoint, because the storage is the same. Nor does a version of a custom resource whose
// storage version is served: at another version, the API server would drop the fields that this one lacks (I3).
func (r Resource) at(name schema.GroupResource, version string) (Resource, bool) {
	if name != r.GroupResource {
		return r, slices.Contains(r.Aliases, name.WithVersion(version))
	}
	for _, v := range r.Versions {
		if v.Name == version {
			if v.CanBeRewritten() && (r.CRD == nil || r.Endpoint != r.CRD.StorageVersion) {
				r.Endpoint = version
			}
			return r, true
		}
	}
	return r, false
}

// nearest bounds how many names a NotFoundError proposes.
const nearest = 3

func (inv *Inventory) notFound(arg string) error {
	type near struct {
		name     string
		distance int
	}
	var all []near
	for _, r := range inv.Resources {
		if d, ok := r.distance(parse(arg)); ok {
			all = append(all, near{r.String(), d})
		}
	}
	slices.SortStableFunc(all, func(a, b near) int { return cmp.Compare(a.distance, b.distance) })
	e := &NotFoundError{Name: arg}
	for _, n := range all[:min(nearest, len(all))] {
		e.Near = append(e.Near, n.name)
	}
	for _, f := range inv.Failures {
		if slices.ContainsFunc(parse(arg), func(a argument) bool {
			return f.Group != "" &&
				(a.anyGroup || f.Group == a.group)
		}) {
			e.Failures = append(e.Failures, f)
		}
	}
	return e
}

// distance is the number of letters between the closest interpretation of what was typed and the closest name of the
// resource. ok is false if that is too far. If the same word exists in two groups, the nearer group is closer.
func (r Resource) distance(readings []argument) (best int, ok bool) {
	words := append([]string{r.Resource, r.Singular, strings.ToLower(r.Kind)}, r.ShortNames...)
	for _, a := range readings {
		for _, word := range words {
			d := editDistance(a.word, word)
			if d > len(a.word)/3 {
				continue
			}
			if d *= 100; !a.anyGroup { // letters of the word outweigh those of the group
				d += editDistance(a.group, r.Group)
			}
			if !ok || d < best {
				best, ok = d, true
			}
		}
	}
	return best, ok
}

// editDistance counts the insertions, deletions, substitutions and swaps of neighbours that turn a into b.
func editDistance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			substitution := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				substitution++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, substitution)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// Select returns the resources, including those with a Problem, that any include pattern matches, or all of them,
// without those that any exclude pattern matches, in the order of the inventory. A pattern is a glob over full names
// ("secrets", "*.demo.example.com"). A resource that shares storage is matched by each of its names. A malformed
// pattern is an error, and so is an include pattern that matches nothing, because it is probably misspelt.
func (inv *Inventory) Select(all bool, include, exclude []string) ([]Resource, error) {
	chosen := make([]bool, len(inv.Resources))
	for i := range chosen {
		chosen[i] = all
	}
	for _, pattern := range include {
		matches, err := inv.match(pattern)
		if err != nil {
			return nil, err
		}
		if len(matches) == 0 {
			return nil, inv.notFound(pattern)
		}
		for _, i := range matches {
			chosen[i] = true
		}
	}
	for _, pattern := range exclude {
		matches, err := inv.match(pattern)
		if err != nil {
			return nil, err
		}
		for _, i := range matches {
			chosen[i] = false
		}
	}
	var selected []Resource
	for i, r := range inv.Resources {
		if chosen[i] {
			selected = append(selected, r)
		}
	}
	return selected, nil
}

// Matches reports whether one of the patterns, in the syntax of path.Match, matches one of a resource's full names. A
// malformed pattern matches nothing.
func Matches(patterns []string, names ...string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			ok, _ := path.Match(strings.ToLower(pattern), name)
			return ok
		})
	})
}

// match returns the indices of the resources with a name that the pattern matches.
func (inv *Inventory) match(pattern string) (matches []int, err error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("read pattern %q: %w", pattern, err)
	}
	for i, r := range inv.Resources {
		if Matches([]string{pattern}, r.Names()...) {
			matches = append(matches, i)
		}
	}
	return matches, nil
}
