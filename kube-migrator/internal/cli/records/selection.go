// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

// Selection selects the resources that a command migrates.
type Selection struct {
	Names            []string
	All              bool
	Include, Exclude []string
	// Force includes resources that need no migration.
	Force bool
}

// Add adds the flags.
func (s *Selection) Add(flags *pflag.FlagSet) {
	flags.BoolVar(&s.All, "all", false, "Every resource that can be migrated")
	flags.StringSliceVar(&s.Include, "include", nil,
		"Resources that match a pattern of full names, such as '*.demo.example.com'")
	flags.StringSliceVar(&s.Exclude, "exclude", nil, "Skip resources that match a pattern of full names")
	flags.BoolVar(&s.Force, "force", false, "With --all and --include: also resources that are stored in the current "+
		"version only, according to their "+
		"StorageStates")
}

// Check returns an error if nothing is selected.
func (s *Selection) Check(command *cobra.Command) error {
	if len(s.Names) == 0 && !s.All && len(s.Include) == 0 {
		return arg.Missing(command, arg.Resource, "include", "all")
	}
	return nil
}

// Arguments returns the arguments that make the same selection, for the command that continues a run.
func (s *Selection) Arguments() []string {
	words := append([]string{}, s.Names...)
	if s.All {
		words = append(words, "--all")
	}
	for _, pattern := range s.Include {
		words = append(words, "--include="+pattern)
	}
	for _, pattern := range s.Exclude {
		words = append(words, "--exclude="+pattern)
	}
	if s.Force {
		words = append(words, "--force")
	}
	return append(words, "--resume")
}

// From returns the selected resources: first those that the user named, in that order, then the others by risk. It is
// an error if a named resource cannot be migrated; others that cannot are omitted.
func (s *Selection) From(all *inventory.Inventory) (chosen []inventory.Resource, left []inventory.Resource, err error) {
	chosen, err = all.FindAll(s.Names)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range chosen {
		if r.Problem != nil {
			return nil, nil, fmt.Errorf("%s cannot be migrated: %s", r.GroupResource, r.Problem.Message)
		}
	}
	matching, err := all.Select(s.All, s.Include, s.Exclude)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range inventory.ByRisk(matching) {
		switch known := func(c inventory.Resource) bool { return c.GroupResource == r.GroupResource }; {
		case slices.ContainsFunc(chosen, known):
		case r.Problem != nil:
			left = append(left, r)
		default:
			chosen = append(chosen, r)
		}
	}
	slices.SortStableFunc(left, func(a, b inventory.Resource) int { return cmp.Compare(a.String(), b.String()) })
	return chosen, left, nil
}

// Scope determines the resources of a report: those that the user named, otherwise all that neither patterns nor the
// installation exclude.
type Scope struct {
	Names            []string
	Include, Exclude []string
}

// Add adds the flags.
func (s *Scope) Add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&s.Include, "include", nil,
		"Only resources that match a pattern of full names, such as '*.demo.example.com', even if the installation "+
			"excludes them")
	flags.StringSliceVar(&s.Exclude, "exclude", nil, "Skip resources that match a pattern of full names")
}

// Check returns an error for flags that contradict one another. It sends no request.
func (s *Scope) Check(command *cobra.Command) error {
	for _, flag := range []string{"include", "exclude"} {
		if err := arg.Exclusive(command, arg.Resource, flag); err != nil {
			return err
		}
	}
	if err := arg.Patterns(slices.Concat(s.Include, s.Exclude)); err != nil {
		return exit.Usage(command, err)
	}
	return nil
}

// Holds reports whether a resource of these names is in scope. --include overrides the exclusions of the installation.
func (s *Scope) Holds(names []string, excluded bool) bool {
	included := inventory.Matches(s.Include, names...)
	return (included || len(s.Include) == 0 && !excluded) && !inventory.Matches(s.Exclude, names...)
}
