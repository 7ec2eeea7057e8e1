// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

// completer is the name under which kubectl looks for a program that completes the arguments of "kubectl migrator". A
// link of that name to this program is such a program.
const completer = "kubectl_complete-migrator"

// completionTimeout bounds how long a shell waits for the names of resources.
const completionTimeout = 5 * time.Second

// invoked returns the arguments of the command line, and the name by which the user called the program: kubectl runs
// the plugin "kubectl-migrator" for "kubectl migrator"
// (https://krew.sigs.k8s.io/docs/developer-guide/develop/best-practices/), and the completer with what the user has
// typed after that.
func invoked(args []string) (rest []string, name string) {
	name, rest = strings.TrimSuffix(filepath.Base(args[0]), ".exe"), args[1:]
	if name == completer {
		return append([]string{cobra.ShellCompRequestCmd}, rest...), "kubectl migrator"
	}
	if plugin, ok := strings.CutPrefix(name, "kubectl-"); ok {
		return rest, "kubectl " + strings.ReplaceAll(plugin, "_", "-")
	}
	return rest, name
}

func newCompletionCommand(env *environment) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print the completion script of a shell",
		Long: "Print the completion script of a shell: " + strings.Join(shells, ", ") + `. It completes commands, flags, and
the names of the cluster's resources and of the contexts. kubectl completes "kubectl migrator" if a link named
` + completer + ` to this program is in the PATH.`,
		Example:   "  source <(kube-migrator completion bash)",
		ValidArgs: shells,
		Args:      arg.One("SHELL"),
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
			return exit.Usage(command, arg.Unknown(shells).Of("SHELL", args[0]))
		},
	}
}

// complete makes shells complete contexts of the kubeconfig, and names of the cluster's resources where the usage of a
// command has them.
func complete(root *cobra.Command, env *environment) {
	// The flag exists, and has no other completion.
	_ = root.RegisterFlagCompletionFunc(clientcmd.FlagContext, completeContexts(env))
	for _, command := range root.Commands() {
		switch {
		case strings.Contains(command.Use, arg.Resource+"…"):
			command.ValidArgsFunction = completeResources(env, isMigratable)
		case strings.HasPrefix(command.Use, "retire CRD "):
			command.ValidArgsFunction = atMost(1, completeResources(env, isCRD))
		}
	}
}

// isCRD selects custom resources.
func isCRD(r inventory.Resource) bool { return r.CRD != nil }

// isMigratable selects the resources that can be migrated.
func isMigratable(r inventory.Resource) bool { return r.Problem == nil }

// atMost completes only that many arguments.
func atMost(most int, more cobra.CompletionFunc) cobra.CompletionFunc {
	return func(command *cobra.Command, typed []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(typed) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return more(command, typed, word)
	}
}

// completeResources completes the names of the cluster's resources that fit. Without a cluster that answers there is
// nothing to complete: a shell has no place for an error.
func completeResources(env *environment, fit func(inventory.Resource) bool) cobra.CompletionFunc {
	return func(command *cobra.Command, typed []string, word string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(command.Context(), completionTimeout)
		defer cancel()
		client, err := env.connect()
		if err != nil {
			cobra.CompDebugln(err.Error(), false)
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, err := inventory.Take(ctx, client.REST)
		if err != nil {
			cobra.CompDebugln(err.Error(), false)
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completions(all, fit, typed, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// completions returns the full names of resources that fit and that begin with the word, without those that the user
// has typed already. Names come from API servers, of which one may be hostile, and a shell puts them into a command
// line, so only names without a meaning for a shell are returned. It is pure.
func completions(all *inventory.Inventory, fit func(inventory.Resource) bool, typed []string, word string) []string {
	var names []string
	for _, r := range all.Resources {
		name := r.String()
		if fit(r) && strings.HasPrefix(name, strings.ToLower(word)) && !slices.Contains(typed, name) &&
			len(validation.IsDNS1123Subdomain(name)) == 0 {
			names = append(names, name)
		}
	}
	return names
}

// completeContexts completes the contexts of the kubeconfig.
func completeContexts(env *environment) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		config, err := env.kubeconfig.Load()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := slices.Sorted(maps.Keys(config.Contexts))
		return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, word) }),
			cobra.ShellCompDirectiveNoFileComp
	}
}
