// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/manifest"
)

func newCRDCheckCommand(streams Streams) *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "check OLD NEW",
		Short: "Tell whether an API server, clients and stored objects accept a new CustomResourceDefinition",
		Long: `Compare the CustomResourceDefinitions of two files, by their names, and answer four questions about each new one:

  create      would an API server accept it if it does not have it yet?
  update      would an API server that has the old one accept it? If the old one has no status.storedVersions, check
              assumes that objects are stored in each of its versions
  compatible  do the objects and clients of the old one work with it, and do objects keep every field that they have now?
  lossless    does conversion strategy None between its versions keep all data?

check warns of printer columns, and of paths of the scale subresource, that read fields which the schema drops. It asks no
cluster. Exit codes: 0 all answers are yes, 1 error, 2 the answer to a question is no.`,
		Example: `  kubectl get crd widgets.example.com -o yaml >old.yaml
  api-migrator crd check old.yaml config/crd/bases/example.com_widgets.yaml`,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError(command, fmt.Errorf("two files are needed, the old one and the new one, got %d",
					len(args)))
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			if err := choice(command, "output", output, "text", "json"); err != nil {
				return err
			}
			old, err := readCRDs(args[0])
			if err != nil {
				return err
			}
			next, err := readCRDs(args[1])
			if err != nil {
				return err
			}
			comparisons, err := crd.Check(command.Context(), old, next)
			if err != nil {
				return err
			}
			if err := showComparisons(streams.Out, output, comparisons); err != nil {
				return err
			}
			if slices.ContainsFunc(comparisons, func(c crd.Comparison) bool { return !c.OK() }) {
				return exitCode(exitNo)
			}
			return nil
		},
	}
	command.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return command
}

// CRDs reads the CRDs of a file.
func readCRDs(file string) ([]*crd.CRD, error) {
	data, err := readManifest(file)
	if err != nil {
		return nil, err
	}
	objects, err := manifest.Objects(file, data)
	if err != nil {
		return nil, fmt.Errorf("read CustomResourceDefinitions: %w", err)
	}
	var all []*crd.CRD
	for _, object := range objects {
		if object.Kind != crd.Kind {
			continue
		}
		d, err := crd.Parse(object.From, object.JSON)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	if len(all) == 0 {
		return nil, hinted(fmt.Errorf("%s has no %s", file, crd.Kind), "grep -rl 'kind: "+crd.Kind+"' .")
	}
	return all, nil
}

func showComparisons(out io.Writer, output string, comparisons []crd.Comparison) error {
	if output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(struct {
			OK   bool             `json:"ok"`
			CRDs []crd.Comparison `json:"definitions"`
		}{!slices.ContainsFunc(comparisons, func(c crd.Comparison) bool { return !c.OK() }), comparisons})
	}
	for i, c := range comparisons {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, c.Name)
		showJudgement(out, "create", c.Create)
		showJudgement(out, "update", c.Update)
		showJudgement(out, "compatible", c.Compatible)
		showJudgement(out, "lossless", c.Lossless)
		for _, warning := range c.Warnings {
			fmt.Fprintf(out, "  warning: %s\n", warning)
		}
	}
	return nil
}

func showJudgement(out io.Writer, question string, judgement crd.Judgement) {
	fmt.Fprintf(out, "  %-11s %s\n", question, judgement.Verdict)
	for _, reason := range judgement.Reasons {
		fmt.Fprintf(out, "    - %s\n", reason)
	}
}
