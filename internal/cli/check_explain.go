// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/internal/upgrade"
)

// explainRefuses are the flags of check that say what to read of a cluster.
var explainRefuses = []string{"target-server", "filename", "snapshot", "etcd-endpoints", "cacert", "cert",
	"key", "prefix", "max-age"}

// explain shows what the known releases change up to the target, or up to the newest. It asks no cluster.
func (env *environment) explain(command *cobra.Command, f *checkFlags) error {
	for _, name := range explainRefuses {
		if command.Flags().Changed(name) {
			return usageError(command, fmt.Errorf("--explain compares releases and reads no cluster: --%s has no "+
				"meaning with it", name))
		}
	}
	if err := f.scope.check(command); err != nil {
		return err
	}
	known := upgrade.Known()
	target := known[len(known)-1]
	if command.Flags().Changed("target-version") {
		_, minor, found, err := upgrade.ReleaseTable(f.targetVersion)
		switch {
		case err != nil:
			return usageError(command, fmt.Errorf("--target-version: %w", err))
		case !found:
			return env.unknownRelease(minor, "--explain ")
		}
		target = minor
	}
	explanation := render.Explanation{Target: target, Releases: known[:slices.Index(known, target)+1]}
	for _, name := range f.scope.names {
		if !slices.ContainsFunc(upgrade.BuiltIn(target), func(r schema.GroupResource) bool {
			return answersTo(r,
				name)
		}) {
			return hinted(fmt.Errorf("no release from %s to %s has a built-in resource %s", known[0], target, name),
				env.name+" check --explain")
		}
	}
	for _, change := range upgrade.Changes(target) {
		if r := schema.ParseGroupResource(change.Resource); f.scope.holds([]string{change.Resource}, false) &&
			(len(f.scope.names) == 0 || slices.ContainsFunc(f.scope.names, func(name string) bool {
				return answersTo(r,
					name)
			})) {
			explanation.Changes = append(explanation.Changes, change)
		}
	}
	if err := render.Explain(env.Out, f.output, env.name, f.scope.names, explanation); err != nil {
		return fmt.Errorf("write the explanation: %w", err)
	}
	return nil
}

// answersTo reports whether a built-in resource is meant by a name: its plural, with or without its group. Kinds and
// short names are for API servers to resolve.
func answersTo(r schema.GroupResource, name string) bool {
	return inventory.Matches([]string{name}, r.String(), r.Resource)
}
