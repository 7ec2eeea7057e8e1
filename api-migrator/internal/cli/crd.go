// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/cobra"
)

// newCRDCommand is `crd`: what can be done with the manifests of CRDs alone, without a project.
func newCRDCommand(streams Streams) *cobra.Command {
	command := &cobra.Command{
		Use:   "crd",
		Short: "Upgrade and check manifests of CustomResourceDefinitions",
		Args:  noSuchCommand,
		RunE:  func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newCRDUpgradeCommand(streams), newCRDCheckCommand(streams))
	return command
}
