// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
)

// upgradeFlags are the flags of crd upgrade.
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
		Short: "Convert manifests of CustomResourceDefinitions to apiextensions.k8s.io/v1",
		Long: `Convert the CustomResourceDefinitions of files to apiextensions.k8s.io/v1, with their versions in spec.versions, and give each
file with one CRD its canonical name. Files are YAML or JSON, and CRDs may be items of a list. References to a renamed file
are changed too, in kustomizations and any other text below --dir. Comments, the order of fields and blank lines stay.

upgrade writes nothing unless the validation of the API server accepts every result. A second run changes nothing.
Exit codes: 0 done, or nothing to do; 1 error.`,
		Example: `  api-migrator crd upgrade --diff deploy/crds/*_crd.yaml
  api-migrator crd upgrade --to-version v2 deploy/crds/operators_v1_catalogsourceconfig_crd.yaml`,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return missing(command, "FILE")
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
				fmt.Fprintln(streams.Err, "Nothing to do: every file is up to date.")
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
			"that contains a version) or keep")
	set.StringVar(&flags.toVersion, "to-version", "", "add a version with the schema of the storage version")
	set.StringVar(&flags.storage, "storage", "new",
		"with --to-version, the version that objects are stored in: new or old")
	return command
}

func (f *upgradeFlags) check(command *cobra.Command) error {
	switch {
	case f.toVersion == "" && command.Flags().Changed("storage"):
		return usageError(command, errors.New("--storage needs --to-version"))
	}
	return errors.Join(choice(command, "name", f.name, "canonical", "sdk", "auto", "keep"),
		choice(command, "storage", f.storage, "new", "old"))
}
