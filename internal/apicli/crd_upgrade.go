// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package apicli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/crd"
)

// upgradeFlags are what the user says.
type upgradeFlags struct {
	diff      bool
	dir       string
	name      string
	toVersion string
	storage   string
}

func newCRDUpgradeCommand(streams Streams) *cobra.Command {
	var flags upgradeFlags
	command := &cobra.Command{
		Use:   "upgrade FILE…",
		Short: "Bring manifests of CustomResourceDefinitions into apiextensions.k8s.io/v1",
		Long: `Bring the CustomResourceDefinitions of files into apiextensions.k8s.io/v1, with their versions in spec.versions, and give files
with one definition their canonical name. What refers to a renamed file is changed too, in kustomizations and any other text below --dir.
Comments, the order of fields and blank lines stay.

Nothing is written unless the API server's own validation takes every outcome. A second run changes nothing.
Exit codes: 0 done, or nothing to do; 1 error.`,
		Example: `  api-migrator crd upgrade --diff deploy/crds/*_crd.yaml
  api-migrator crd upgrade --to-version v2 deploy/crds/operators_v1_catalogsourceconfig_crd.yaml`,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(command, errors.New("it takes one file or more"))
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			if err := flags.check(command); err != nil {
				return err
			}
			change, err := planUpgrade(command.Context(), args, flags)
			if change == nil {
				return err
			}
			for _, note := range change.Notes {
				fmt.Fprintf(streams.Err, "note: %s\n", note)
			}
			if flags.diff {
				return errors.Join(change.show(streams.patches), err)
			}
			if err != nil {
				return err
			}
			if len(change.Files) == 0 {
				fmt.Fprintln(streams.Err, "nothing to do: everything is as it should be")
				return nil
			}
			return change.write(streams.Out)
		},
	}
	set := command.Flags()
	set.BoolVar(&flags.diff, "diff", false, "show a patch, and write nothing")
	set.StringVar(&flags.dir, "dir", ".", "the folder in which references to renamed files are changed")
	set.StringVar(&flags.name, "name", string(crd.Canonical),
		"name of files: canonical (<group>_<plural>.yaml), sdk (<group>_<plural>_crd.yaml), auto (sdk for a name "+
			"that says a version) or keep")
	set.StringVar(&flags.toVersion, "to-version", "", "add a version with the schema of the one that is stored")
	set.StringVar(&flags.storage, "storage", "new",
		"with --to-version, the version that objects are stored in: new or old")
	return command
}

func (f *upgradeFlags) check(command *cobra.Command) error {
	switch {
	case !slices.Contains(crd.Namings(), crd.Naming(f.name)):
		return usageError(command, fmt.Errorf("unknown --name %q: canonical, sdk, auto and keep are known", f.name))
	case f.storage != "new" && f.storage != "old":
		return usageError(command, fmt.Errorf("unknown --storage %q: new and old are known", f.storage))
	case f.toVersion == "" && command.Flags().Changed("storage"):
		return usageError(command, errors.New("--storage is about --to-version, which is not given"))
	}
	return nil
}
