// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

func newCompletionCommand(env *environment) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:       "completion SHELL",
		Short:     "Print the completion script of a shell",
		Long:      "Print the completion script of a shell: " + strings.Join(shells, ", ") + ".",
		Example:   "  source <(kube-migrator completion bash)",
		ValidArgs: shells,
		Args:      oneArgument("SHELL"),
		RunE: func(command *cobra.Command, args []string) error {
			root := command.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(env.Out, true)
			case "zsh":
				return root.GenZshCompletion(env.Out)
			case "fish":
				return root.GenFishCompletion(env.Out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(env.Out)
			}
			return usageError(command, unknown(shells).of("SHELL", args[0]))
		},
	}
}
