// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/convert"
	"github.com/kube-migrator/kube-migrator/internal/phrase"
)

// newConvertCommand is `convert`: the code that converts between the versions of a kind.
func newConvertCommand(streams Streams) *cobra.Command {
	command := &cobra.Command{
		Use:   "convert",
		Short: "Write the conversion between the versions of a kind",
		Args:  noSuchCommand,
		RunE:  func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newScaffoldCommand(streams))
	return command
}

func newScaffoldCommand(streams Streams) *cobra.Command {
	var request convert.Request
	dir, output, diff := ".", "text", false
	command := &cobra.Command{
		Use:   "scaffold --kind KIND",
		Short: "Write the mechanical part of the conversion, list the rest, and add a test that fails until that is written",
		Long: `Write the conversion between the versions of a kind, for the conversion webhook of controller-runtime: Hub for one version,
ConvertTo and ConvertFrom for each other version. scaffold converts the fields that have the same type, or the same
structure, in both versions. It lists the others. The code has one function for each pair of types that differ, with a
TODO to fill in, and one TODO in each struct's function for the fields that only one version has.

For each conversion it also writes a test that sends random objects there and back. The test fails until every field that
differs is converted, or is listed in the test as a field that only one version has. With --preserve an annotation keeps
such fields.

In a project that kubebuilder has scaffolded, scaffold also adds what has an API server call the conversion, if it is
missing: spec.conversion and the annotation for the CA as patches of the CRD, the registration of the webhook, and its
call in the manager's program. It notes what is left to you.

scaffold changes no code that exists, and a second run writes nothing. It type-checks the code before it writes it; --diff
shows the code even if it does not compile, or if the module lacks a package that it imports. Exit codes: 0 done, even
if fields differ; 1 error.`,
		Example: `  api-migrator convert scaffold --kind Widget --diff
  api-migrator convert scaffold --kind Widget --hub widgets.example.com/v2
  go test ./api/...`,
		Args: atMost(0),
		RunE: func(command *cobra.Command, _ []string) error {
			switch {
			case request.Kind == "":
				return missing(command, "--kind")
			case diff && output == "json":
				return usageError(command, errors.New("--diff and --output=json cannot be used together"))
			}
			if err := choice(command, "output", output, "text", "json"); err != nil {
				return err
			}
			plan, err := convert.Make(command.Context(), dir, request)
			if diff && plan != nil { // also of code that does not compile
				patch, wrong := plan.Patch()
				if wrong == nil {
					_, wrong = io.WriteString(streams.patches, patch)
				}
				showFindings(streams, plan)
				showMissing(streams, plan)
				return errors.Join(err, wrong)
			}
			if err != nil {
				return err
			}
			if err := plan.Write(); err != nil {
				return err
			}
			return showConversion(streams, output, plan)
		},
	}
	set := command.Flags()
	set.StringVarP(&dir, "dir", "C", dir, "a folder of the project")
	set.StringVar(&request.Kind, "kind", "", "the kind")
	set.StringVar(&request.Hub, "hub", "", "the GROUP/VERSION that the others are converted to and from (default: "+
		"the storage version)")
	set.BoolVar(&request.Preserve, "preserve", true, "keep in an annotation what the other version cannot express")
	set.BoolVar(&diff, "diff", false, "show a patch, and write nothing")
	set.StringVarP(&output, "output", "o", output, "text or json")
	return command
}

// showFindings says what a person has to do until an API server calls the conversion.
func showFindings(streams Streams, plan *convert.Plan) {
	for _, one := range plan.Findings {
		fmt.Fprintf(streams.Err, "note: %s\n", one)
	}
}

// showMissing says below a patch what writing it needs.
func showMissing(streams Streams, plan *convert.Plan) {
	if plan.Missing == nil {
		return
	}
	fmt.Fprintf(streams.Err, "note: the code is not type-checked: %v\nNext: %s\n", plan.Missing, plan.Missing.Try)
}

func showConversion(streams Streams, output string, plan *convert.Plan) error {
	if output == "json" {
		encoder := json.NewEncoder(streams.Out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(plan)
	}
	out := tabwriter.NewWriter(streams.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "%s in %s: the hub is %s\n", plan.Kind, plan.Group, plan.Hub)
	for _, spoke := range plan.Spokes {
		fmt.Fprintf(out, "\n%s, in %s", spoke.Version, spoke.File)
		if spoke.Skipped != "" {
			fmt.Fprintf(out, ": nothing is written, %s", spoke.Skipped)
		}
		fmt.Fprintf(out, "\n  %s converted automatically\n",
			phrase.Count(len(spoke.Rote), "field is", "fields are"))
		for _, field := range spoke.Rote {
			fmt.Fprintf(out, "    %s\t%s\n", field.Path, field.How)
		}
		fmt.Fprintf(out, "  %s\n", phrase.Count(len(spoke.Differing), "field differs", "fields differ"))
		for _, field := range spoke.Differing {
			fmt.Fprintf(out, "    %s\t%s\n", field.Path, field.How)
		}
		if len(spoke.Empty) > 0 {
			fmt.Fprintf(out, "  missing or empty values change in %s\n", phrase.Count(len(spoke.Empty), "field", "fields"))
		}
		for _, field := range spoke.Empty {
			fmt.Fprintf(out, "    %s\t%s\n", field.Path, field.How)
		}
	}
	if len(plan.Files) > 0 {
		fmt.Fprintln(out)
	}
	for _, file := range plan.Files {
		done := "created"
		if file.Changed {
			done = "changed"
		}
		fmt.Fprintf(out, "%s %s\n", done, file.Path)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("show conversion: %w", err)
	}
	if len(plan.Files) == 0 {
		fmt.Fprintln(streams.Err, "Nothing to do: every version has its conversion.")
	}
	if !slices.ContainsFunc(plan.Spokes, func(s convert.Spoke) bool { return !s.Same }) {
		fmt.Fprintln(streams.Err, "note: the versions have the same fields: conversion strategy None needs no "+
			"code, if `api-migrator crd check` finds it lossless")
	}
	showFindings(streams, plan)
	for _, command := range plan.Tests {
		fmt.Fprintf(streams.Err, "Next: %s\n", command)
	}
	return nil
}
