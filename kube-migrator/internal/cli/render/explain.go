// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// Explanation is what releases change for the resources that are built in.
type Explanation struct {
	// Target is the last of Releases, which are those that were compared, the oldest first.
	Target   string           `json:"target"`
	Releases []string         `json:"releases"`
	Changes  []upgrade.Change `json:"changes"`
}

// Explain writes what `check --explain` has found about all resources, or about those that were named. program is the
// name of the command.
func Explain(w io.Writer, format Format, program string, named []string, e Explanation) error {
	switch format {
	case Table, Wide:
		return explainTable(w, format == Wide, program, named, e)
	case Name:
		var names []string
		for _, c := range e.Changes {
			if !slices.Contains(names, c.Resource) {
				names = append(names, c.Resource)
			}
		}
		for _, name := range names {
			if _, err := fmt.Fprintln(w, name); err != nil {
				return fmt.Errorf("write names: %w", err)
			}
		}
		return nil
	default:
		if e.Changes == nil {
			e.Changes = []upgrade.Change{}
		}
		return Data(w, format, e)
	}
}

func explainTable(w io.Writer, wide bool, program string, named []string, e Explanation) error {
	if len(e.Changes) == 0 {
		_, err := fmt.Fprintln(w, nothingChanges(named, e))
		return err
	}
	rows := make([][]string, len(e.Changes))
	for i, c := range e.Changes {
		stored, lost := change(c, wide)
		rows[i] = []string{c.Release, c.Resource, stored, lost}
	}
	if err := Tabulate(w, []string{"RELEASE", "RESOURCE", "STORED AS", "LOST"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nA release cannot decode the versions under LOST, which the release before it can. "+
		"Objects that are stored in one have to be\n"+
		"migrated before the upgrade. Whether a cluster has any: %s check --target-version %s\n", program, e.Target)
	return err
}

func nothingChanges(named []string, e Explanation) string {
	what := "every built-in resource"
	if len(named) > 0 {
		what = strings.Join(named, ", ")
	}
	if oldest := e.Releases[0]; oldest == e.Target {
		return "Kubernetes " + oldest + " is the oldest release that is known: there is none to compare it with."
	}
	return fmt.Sprintf("Kubernetes %s to %s store %s in the same version, and lose none.",
		e.Releases[0], e.Target, what)
}

// change is what a release stores a resource as, and the versions that it lost; of the resource's own group without the
// group, unless wide.
func change(c upgrade.Change, wide bool) (stored, lost string) {
	group := schema.ParseGroupResource(c.Resource).Group
	short := func(version string) string {
		if own, ok := strings.CutPrefix(version, group+"/"); ok && !wide {
			return own
		}
		return version
	}
	stored = short(c.Before)
	switch c.After {
	case c.Before:
	case "":
		stored += " → (removed)"
	default:
		stored += " → " + short(c.After)
	}
	names := make([]string, len(c.Lost))
	for i, version := range c.Lost {
		names[i] = short(version)
	}
	return stored, strings.Join(names, ",")
}

// ReleasePage writes the explanation as a page of Markdown, with a section for each release.
func ReleasePage(w io.Writer, e Explanation) error {
	var b strings.Builder
	fmt.Fprintf(&b, `# What each Kubernetes release changes in etcd

<!-- Written by make generate, from kube-migrator/internal/upgrade/releases. -->

A release may store a built-in resource in another version than the release before it, and may lose a version: it cannot decode that any more.
Objects that are still stored in a lost version have to be migrated before the upgrade; afterwards the resource cannot be listed.
`+"`kube-migrator check --target-version %s`"+` finds them, and `+"`kube-migrator check --explain`"+` shows this page as a table.

Real API servers of %s were asked, with every API and alpha feature enabled. Most alpha and beta resources are off by default, and store nothing then.
`, e.Target, releasesOf(e))
	for i, release := range e.Releases[min(1, len(e.Releases)):] {
		fmt.Fprintf(&b, "\n## %s\n\n", release)
		ofRelease := slices.DeleteFunc(slices.Clone(e.Changes),
			func(c upgrade.Change) bool { return c.Release != release })
		if len(ofRelease) == 0 {
			fmt.Fprintf(&b, "Nothing changes since %s.\n", e.Releases[i])
			continue
		}
		fmt.Fprintf(&b, "| resource | stored as in %s → %s | lost |\n|---|---|---|\n", e.Releases[i], release)
		for _, c := range ofRelease {
			stored, lost := change(c, false)
			fmt.Fprintf(&b, "| %s | %s | %s |\n", c.Resource, stored, strings.ReplaceAll(lost, ",", ", "))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func releasesOf(e Explanation) string {
	last := len(e.Releases) - 1
	if last < 1 {
		return strings.Join(e.Releases, "")
	}
	return strings.Join(e.Releases[:last], ", ") + " and " + e.Releases[last]
}
