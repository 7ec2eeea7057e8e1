// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/move"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

func newPlanCommand(streams Streams) *cobra.Command {
	asked := request.Request{
		Storage: request.StorageNew, Shared: request.SharedPackage, Old: request.OldKeep,
		Unexported: request.UnexportedInternal,
		Consumers:  []string{request.ConsumersAll}, CRDName: string(crd.Auto), Strings: request.StringsReport,
	}
	var dir, out string
	var assign map[string]string
	command := &cobra.Command{
		Use:   "plan --kind KIND --from GROUP/VERSION --to GROUP/VERSION [--to-kind NEWKIND]",
		Short: "Plan to move kinds to a new version or group, or to rename one: where every declaration goes, and why",
		Long: `Plan to move kinds to a new version or to another group, or to rename one. The plan is YAML: a person reviews it, and diff
and apply read it. It names, for every declaration of the old version's package, where it goes and why; every file that
changes; and every blocker. plan changes the code in a copy and type-checks it there; it writes nothing into the project.

Code that only the moving kinds use goes to the new version's package. Code that other kinds use too goes to the package
"shared" next to it; unexported code goes to "internal/shared" and is exported there. The kinds stay in the old version,
marked as deprecated, and shared code keeps its old names as aliases. All importers of the old version use the new names.
--shared and --old change that. Every manifest of a moving kind's CustomResourceDefinition lists the new version, with the
schema of the old one (or with --schema generate, that of the Go types), in apiextensions.k8s.io/v1. References to a
manifest that is renamed are changed too.

--to may name a version that exists already. The kinds are added to its package; if it has them all, only the importers of
the old version follow, as the second step after --consumers none. Packages that use generated clients of a kind stay on
the old version until the clients are generated for the new one; then plan again.

Kubernetes cannot convert objects from one CustomResourceDefinition to another. If --to has another group, or --to-kind
another name, the plan has a new CustomResourceDefinition, the old one stays as it is, and the plan contains the steps in
which the objects are copied. With --to-kind alone the new kind is in the package of the old one: code that is named after
the kind is copied under the new name, and both kinds use the rest.

plan exits with 2 if the plan has blockers.`,
		Example: `  api-migrator plan --kind CatalogSourceConfig --from operators.example.com/v1 --to operators.example.com/v2 --out plan.yaml
  api-migrator plan --kind CatalogSourceConfig --from operators.example.com/v1 --to catalogs.example.com/v1 --out plan.yaml
  api-migrator plan --kind CatalogSourceConfig --from operators.example.com/v1 --to-kind CatalogSourceConfigurer --out plan.yaml`,
		Args: atMost(0),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := complete(command, &asked, assign); err != nil {
				return err
			}
			outcome, err := move.Make(command.Context(), dir, asked)
			if err != nil {
				return err
			}
			content, err := outcome.Plan.Encode()
			if err != nil {
				return err
			}
			if out == "" {
				_, err = streams.patches.Write(content)
			} else {
				err = os.WriteFile(out, content, 0o644)
			}
			if err != nil {
				return fmt.Errorf("write plan: %w", err)
			}
			switch blockers := outcome.Plan.Blockers; {
			case out != "":
				fmt.Fprint(streams.Err, summary(outcome.Plan, out, dir))
			case len(blockers) > 0:
				fmt.Fprintf(streams.Err, "%d blockers; the first: %s\n", len(blockers), blockers[0])
			}
			if len(outcome.Plan.Blockers) > 0 {
				return exitCode(exitNo)
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVarP(&dir, "dir", "C", ".", "a folder of the project")
	flags.StringSliceVar(&asked.Kinds, "kind", nil, "a kind that moves; several, with commas or with the flag again")
	flags.StringVar(&asked.From, "from", "", "GROUP/VERSION that has the kinds")
	flags.StringVar(&asked.To, "to", "", "GROUP/VERSION that the kinds go to, which may exist; with --to-kind it may be left out, and "+
		"the kind gets another name where it is")
	flags.StringVar(&asked.ToKind, "to-kind", "", "another name for the kind")
	flags.StringVar(&asked.Storage, "storage", asked.Storage,
		"which version is marked as the storage version: new or old")
	flags.StringVar(&asked.Shared, "shared", asked.Shared,
		"where code goes that kinds on both sides use: shared (a package of its own), newest (the new version, which "+
			"the old one then imports), old (the old version, where it is, which the new one then imports) or duplicate "+
			"(a copy in each version)")
	flags.StringVar(&asked.Old, "old", asked.Old,
		"what the old version has of the kinds that move: keep (types of their own), wrap (structs of the new "+
			"version's types), alias (types defined as the new version's) or remove (nothing)")
	flags.StringVar(&asked.Unexported, "unexported", asked.Unexported,
		"where unexported code that is shared is exported: internal (internal/shared) or export (shared)")
	flags.StringSliceVar(&asked.Consumers, "consumers", asked.Consumers,
		"which importers use the new names: all, none, or patterns of folders such as pkg/controller/...")
	flags.StringToStringVar(&assign, "assign", nil,
		"DECLARATION=new|shared|stay: where a declaration goes, against the analysis")
	flags.BoolVar(&asked.WithoutCRDs, "without-crds", false,
		"leave manifests of CustomResourceDefinitions alone, and do not insist on one for each kind")
	flags.StringSliceVar(&asked.Leave, "leave", nil,
		"a manifest of a CustomResourceDefinition, webhook, admission policy or role that you change by hand, by its path from "+
			"the project's root; several, with commas or with the flag again")
	flags.StringVar(&asked.CRDName, "crd-name", asked.CRDName,
		"name of the manifests' files: auto (a name that contains a version, such as "+
			"operators_v1_catalogsourceconfig_crd.yaml, becomes <group>_<plural>_crd.yaml), keep, canonical "+
			"(<group>_<plural>.yaml) or sdk (<group>_<plural>_crd.yaml)")
	flags.StringVar(&asked.Schema, "schema", request.SchemaCopy,
		"which schema the new version gets in manifests: copy (that of the old version) or generate (the one that "+
			"controller-gen makes of the Go types)")
	flags.StringVar(&asked.Strings, "strings", asked.Strings,
		"what becomes of string literals, documents and examples that name the old version: report (they are findings) or "+
			"rewrite (those that certainly mean the kinds that move name the new version)")
	flags.StringVar(&out, "out", "", "write the plan to this file instead of the standard output")
	return command
}

// complete checks the flags and fills in the request.
func complete(command *cobra.Command, asked *request.Request, assign map[string]string) error {
	switch {
	case len(asked.Kinds) == 0:
		return missing(command, "--kind")
	case asked.From == "":
		return missing(command, "--from")
	case asked.To == "" && asked.ToKind == "":
		return missing(command, "--to")
	case asked.To == "":
		asked.To = asked.From
	}
	if err := checkChoices(command, *asked); err != nil {
		return err
	}
	if !slices.Contains(crd.Namings(), crd.Naming(asked.CRDName)) {
		return choice(command, "crd-name", asked.CRDName, "auto", "keep", "canonical", "sdk")
	}
	if asked.Schema == request.SchemaCopy {
		asked.Schema = "" // as plans from before --schema say it
	}
	slices.Sort(asked.Kinds)
	asked.Kinds = slices.Compact(asked.Kinds)
	for i, file := range asked.Leave {
		asked.Leave[i] = path.Clean(filepath.ToSlash(file))
	}
	for name, to := range assign {
		destination := split.Destination(to)
		if !slices.Contains([]split.Destination{split.New, split.Shared, split.Stay}, destination) {
			return choice(command, "assign "+name, to, "new", "shared", "stay")
		}
		if asked.Assign == nil {
			asked.Assign = map[string]split.Destination{}
		}
		asked.Assign[name] = destination
	}
	return nil
}

// checkChoices checks the flags that take one of a few words.
func checkChoices(command *cobra.Command, asked request.Request) error {
	for _, one := range []struct {
		flag, value string
		values      []string
	}{
		{"storage", asked.Storage, []string{request.StorageNew, request.StorageOld}},
		{"shared", asked.Shared, []string{request.SharedPackage, request.SharedNewest, request.SharedOld,
			request.SharedDuplicate}},
		{"old", asked.Old, []string{request.OldKeep, request.OldWrap, request.OldAlias, request.OldRemove}},
		{"unexported", asked.Unexported, []string{request.UnexportedInternal, request.UnexportedExport}},
		{"schema", asked.Schema, []string{request.SchemaCopy, request.SchemaGenerate}},
		{"strings", asked.Strings, []string{request.StringsReport, request.StringsRewrite}},
	} {
		if err := choice(command, one.flag, one.value, one.values...); err != nil {
			return err
		}
	}
	return nil
}
