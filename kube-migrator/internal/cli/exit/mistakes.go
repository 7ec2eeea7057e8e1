// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package exit

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

// Unreachable returns the error for a cluster whose discovery could not be read.
func Unreachable(host string, err error) error {
	return Try(fmt.Errorf("read what %s serves: %w", host, err), "kubectl version")
}

// NotFound returns the error for a resource that the cluster does not have, with the command for a similar name, if
// there is one. program is the name of the program.
func NotFound(program string, command *cobra.Command, err error) error {
	unknown := (*inventory.NotFoundError)(nil)
	if !errors.As(err, &unknown) {
		return Usage(command, err)
	}
	if len(unknown.Near) == 0 {
		return Try(err, program+" plan")
	}
	return Try(err, command.CommandPath()+" "+unknown.Near[0])
}
