// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package apicli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// newCRDCommand is `crd`: what can be done with the manifests of definitions alone, without a project.
func newCRDCommand(streams Streams) *cobra.Command {
	command := &cobra.Command{
		Use:   "crd",
		Short: "Upgrade and check manifests of CustomResourceDefinitions",
		Args: func(command *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError(command, fmt.Errorf("%q is no command of %s", args[0], command.CommandPath()))
			}
			return nil
		},
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newCRDUpgradeCommand(streams), newCRDCheckCommand(streams))
	return command
}
