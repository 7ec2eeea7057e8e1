// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Whatever the command, one mistake has one phrasing, that of kube-migrator:
//
//	unknown value "x" for --output: use text or json
//	--kind is missing
//	"x" is not a command of api-migrator crd

// choice returns an error if the value of a flag is not one of a few words.
func choice(command *cobra.Command, flag, value string, words ...string) error {
	if slices.Contains(words, value) {
		return nil
	}
	last := len(words) - 1
	return usageError(command, fmt.Errorf("unknown value %q for --%s: use %s or %s", value, flag,
		strings.Join(words[:last], ", "), words[last]))
}

// missing is the error for a command line without something that it needs.
func missing(command *cobra.Command, what string) error {
	return usageError(command, fmt.Errorf("%s is missing", what))
}

// noSuchCommand returns an error for the word after a command that only has commands below it.
func noSuchCommand(command *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError(command, fmt.Errorf("%q is not a command of %s", args[0], command.CommandPath()))
	}
	return nil
}
