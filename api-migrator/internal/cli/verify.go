// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/artifacts"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/transaction"
)

func newVerifyCommand(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "verify [DIR]",
		Short: "Check that API versions and manifests agree",
		Long: `Check what must hold after a migration: the code compiles; one version of each kind has the marker
+kubebuilder:storageversion (a single version needs none); every manifest of a CustomResourceDefinition lists all versions
that the code has and stores the marked one; no version drops a field that its Go type has and another version keeps; and the
packages of APIs are formatted as gofmt does. verify notes fields of Go types that no version keeps. It writes nothing, and
exits with 2 if something does not hold.`,
		Args: atMost(1),
		RunE: func(command *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			root, err := project.Root(dir)
			if err != nil {
				return err
			}
			if err := transaction.CheckFinished(root); err != nil {
				return err
			}
			p, err := project.Load(command.Context(), dir)
			if err != nil {
				return err
			}
			if len(p.Versions()) == 0 && len(p.Broken) == 0 {
				return hinted(fmt.Errorf("no package of %s defines an API version", p.Module), "api-migrator inspect DIR")
			}
			violations, err := p.Violations()
			if err != nil {
				return err
			}
			lost, notes, err := artifacts.Unkept(p)
			if err != nil {
				return err
			}
			for _, note := range notes {
				fmt.Fprintf(streams.Err, "note: %s\n", note)
			}
			violations = append(violations, lost...)
			for _, broken := range p.Broken {
				for _, missing := range p.NotGenerated(broken) {
					fmt.Fprintf(streams.Err, "note: %s imports %s, whose code is not there: verify again once it is generated\n",
						broken.Path, missing)
				}
			}
			for _, violation := range violations {
				fmt.Fprintln(streams.Out, violation)
			}
			if len(violations) > 0 {
				return exitCode(exitNo)
			}
			fmt.Fprintln(streams.Err, "Versions and manifests agree.")
			return nil
		},
	}
}
