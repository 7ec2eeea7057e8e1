// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/stages"
)

// stagesFlags are the flags of stages.
type stagesFlags struct {
	dir, from, to, out, output string
	singleRelease              bool
}

func newStagesCommand(streams Streams) *cobra.Command {
	flags := stagesFlags{}
	command := &cobra.Command{
		Use: "stages PLAN | stages --from VERSION --to VERSION FILE…",
		Short: "Plan how clusters follow: the CustomResourceDefinition of each release, and what must hold before " +
			"the next",
		Long: `Plan how clusters follow a CustomResourceDefinition from one version to another, in stages that can be reverted:

  A add      the new version is served; objects are stored as before
  B store    objects are stored in the new version
  C rewrite  every object is stored in it, with proof
  D clean    no managedFields entry names the old version
  E unserve  the old version is no longer served
  F remove   the old version is removed

For each stage, stages shows the commands that carry it out, the manifest if it needs one, how to revert it, and a gate: a
command that writes nothing, and exits with 0 once the next stage may begin. Conditions that no command can check are given
in words. A and B belong into different releases: a cluster cannot go back to a CustomResourceDefinition that lacks a
version in which objects are stored. --single-release combines them.

The CustomResourceDefinitions are those of the kinds of a plan, applied or not, or those of the files that have the version
--from.`,
		Example: `  api-migrator stages plan.yaml --out stages
  api-migrator stages --from v1 --to v2 config/crd/bases/cache.example.com_memcacheds.yaml`,
		Args: func(command *cobra.Command, args []string) error { return flags.check(command, args) },
		RunE: func(command *cobra.Command, args []string) error {
			changes, err := flags.changes(command, args, streams)
			if err != nil {
				return err
			}
			plans, err := flags.make(command.Context(), changes, args)
			if err != nil {
				return err
			}
			if flags.out == "" {
				return showStages(streams.Out, flags.output, plans)
			}
			for _, plan := range plans {
				for _, warning := range plan.Warnings {
					fmt.Fprintf(streams.Err, "warning: %s: %s\n", plan.CRD, warning)
				}
			}
			return flags.write(streams.Out, plans, args)
		},
	}
	set := command.Flags()
	set.StringVarP(&flags.dir, "dir", "C", ".", "a folder of the plan's project")
	set.StringVar(&flags.from, "from", "", "the old version")
	set.StringVar(&flags.to, "to", "", "the new version; it is added if a CustomResourceDefinition does not have it")
	set.StringVar(&flags.out, "out", "", "write manifests, gates and the plan into this folder, in one folder for "+
		"each CustomResourceDefinition")
	set.BoolVar(&flags.singleRelease, "single-release", false,
		"add and store the new version in one stage, which cannot be reverted")
	set.StringVarP(&flags.output, "output", "o", "text", "without --out: text or json")
	return command
}

func (f *stagesFlags) check(command *cobra.Command, args []string) error {
	byFile := f.from != "" || f.to != ""
	switch {
	case byFile && (f.from == "" || f.to == ""):
		return usageError(command, errors.New("--from and --to need each other"))
	case byFile && len(args) == 0:
		return missing(command, "FILE")
	case !byFile && len(args) != 1:
		return usageError(command, errors.New("one PLAN, or --from, --to and FILE, is missing"))
	}
	return choice(command, "output", f.output, "text", "json")
}

// changes are one for each CRD.
func (f *stagesFlags) changes(command *cobra.Command, args []string, streams Streams) ([]stages.Change, error) {
	if f.from == "" {
		return f.changesOfPlan(command, args[0], streams)
	}
	return f.changesOfFiles(args, streams)
}

// changesOfFiles leaves CRDs out that do not have the version, unless none has it.
func (f *stagesFlags) changesOfFiles(args []string, streams Streams) ([]stages.Change, error) {
	var left []string
	var all, with []stages.Change
	for i, file := range args {
		if slices.Contains(args[:i], file) {
			continue
		}
		text, err := readManifest(file)
		if err != nil {
			return nil, err
		}
		crds, err := crd.CRDs(file, string(text))
		if err != nil {
			return nil, explained(err, file)
		}
		if len(crds) == 0 {
			return nil, hinted(fmt.Errorf("%s has no %s", file, crd.Kind), "api-migrator inspect")
		}
		for _, d := range crds {
			parsed, err := crd.Parse(file, []byte(d))
			if err != nil {
				return nil, err
			}
			change := stages.Change{File: file, CRD: d, From: f.from, To: f.to,
				SingleRelease: f.singleRelease}
			all = append(all, change)
			if slices.Contains(parsed.Versions(), f.from) {
				with = append(with, change)
			} else {
				left = append(left, fmt.Sprintf("%s in %s has no version %s, and no stages", parsed.Name, file, f.from))
			}
		}
	}
	if len(with) == 0 {
		return all, nil // refused with the versions that there are
	}
	for _, note := range left {
		fmt.Fprintf(streams.Err, "note: %s\n", note)
	}
	return with, nil
}

// changesOfPlan finds the CRDs of the kinds that a plan moves, in the project.
func (f *stagesFlags) changesOfPlan(command *cobra.Command, file string, streams Streams) ([]stages.Change, error) {
	plan, err := readPlan(command, file, streams)
	if err != nil {
		return nil, err
	}
	group, from, _ := strings.Cut(plan.Request.From, "/")
	_, to, _ := strings.Cut(plan.Request.To, "/")
	if plan.Request.Succeeds() {
		return nil, hint.Errorf("sed -n '/^copy:/,$p' "+file,
			"the plan leads to another CustomResourceDefinition, so it has no stages: the objects are copied, in "+
				"the steps that the plan names")
	}
	root, err := project.Root(f.dir)
	if err != nil {
		return nil, err
	}
	manifests, err := (&project.Project{Root: root}).Manifests()
	if err != nil {
		return nil, err
	}
	var changes []stages.Change
	for _, kind := range plan.Request.Kinds {
		of := slices.DeleteFunc(slices.Clone(manifests),
			func(m project.Manifest) bool { return m.Group != group || m.Kind != kind })
		if len(of) == 0 {
			return nil, hint.Errorf("api-migrator stages --from "+from+" --to "+to+" FILE",
				"no manifest of a CustomResourceDefinition for %s in group %s is in %s", kind, group, root)
		}
		for _, other := range of[1:] {
			fmt.Fprintf(streams.Err, "note: %s describes %s too; the stages are made from %s\n",
				other.File, kind, of[0].File)
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(of[0].File)))
		if err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		crd, err := crdOf(string(text), of[0])
		if err != nil {
			return nil, err
		}
		changes = append(changes, stages.Change{File: of[0].File, CRD: crd, From: from, To: to,
			SingleRelease: f.singleRelease})
	}
	return changes, nil
}

// crdOf finds one CRD in a file that may have several.
func crdOf(text string, manifest project.Manifest) (string, error) {
	crds, err := crd.CRDs(manifest.File, text)
	if err != nil {
		return "", explained(err, manifest.File)
	}
	for _, d := range crds {
		parsed, err := crd.Parse(manifest.File, []byte(d))
		if err != nil {
			return "", err
		}
		if parsed.Group() == manifest.Group && parsed.Kind() == manifest.Kind {
			return d, nil
		}
	}
	return "", fmt.Errorf("read %s: it no longer has a CustomResourceDefinition of %s", manifest.File, manifest.Kind)
}

// make makes one plan for each CRD. Two files with one CRD would be written into one folder: only the
// user knows which counts.
func (f *stagesFlags) make(ctx context.Context, changes []stages.Change, args []string) ([]*stages.Plan, error) {
	var plans []*stages.Plan
	for _, change := range changes {
		plan, err := stages.Make(ctx, change)
		if err != nil {
			return nil, explained(err, change.File)
		}
		if i := slices.IndexFunc(plans, func(p *stages.Plan) bool { return p.CRD == plan.CRD }); i >= 0 {
			if change.File == changes[i].File {
				return nil, hinted(fmt.Errorf("%s has %s twice", change.File, plan.CRD), "grep -n 'name: "+
					plan.CRD+"' "+change.File)
			}
			others := slices.DeleteFunc(slices.Clone(args), func(file string) bool { return file == change.File })
			return nil, hinted(fmt.Errorf("%s and %s both have %s", changes[i].File, change.File, plan.CRD),
				f.again(f.out, others))
		}
		plans = append(plans, plan)
	}
	return plans, nil
}

// explained adds the command that helps with a CRD from a file.
func explained(err error, file string) error {
	if refused := (*crd.RefusedError)(nil); errors.As(err, &refused) {
		return hinted(err, "api-migrator crd upgrade --diff "+file)
	}
	if unfit := (*crd.UnfitError)(nil); errors.As(err, &unfit) {
		return hinted(err, unfit.Try(file))
	}
	return err
}

// again is the command line with another folder and other arguments.
func (f *stagesFlags) again(out string, args []string) string {
	words := []string{"api-migrator stages"}
	if f.dir != "." {
		words = append(words, "-C", f.dir)
	}
	if f.from != "" {
		words = append(words, "--from", f.from, "--to", f.to)
	}
	if f.singleRelease {
		words = append(words, "--single-release")
	}
	if out != "" {
		words = append(words, "--out", out)
	}
	return strings.Join(append(words, args...), " ")
}

func showStages(out io.Writer, output string, plans []*stages.Plan) error {
	var text bytes.Buffer
	if output == "json" {
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(plans); err != nil {
			return fmt.Errorf("show stages: %w", err)
		}
	}
	for i, plan := range plans {
		if output == "json" {
			break
		}
		if i > 0 {
			text.WriteString("\n")
		}
		text.WriteString(plan.Text())
	}
	_, err := out.Write(text.Bytes())
	return err
}

// write writes files that are not there yet. One that is there with another content is the user's by now, and nothing
// is written.
func (f *stagesFlags) write(out io.Writer, plans []*stages.Plan, args []string) error {
	files := map[string]string{}
	for _, plan := range plans {
		for name, text := range plan.Files() {
			files[path.Join(plan.CRD, name)] = text
		}
	}
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		at := filepath.Join(f.out, filepath.FromSlash(name))
		if content, err := os.ReadFile(at); err == nil && string(content) != files[name] {
			return hinted(fmt.Errorf("%s is there with another content", at),
				f.again(filepath.Clean(f.out)+".new", args))
		}
	}
	for _, name := range names {
		at := filepath.Join(f.out, filepath.FromSlash(name))
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755),
			os.WriteFile(at, []byte(files[name]), mode)); err != nil {
			return fmt.Errorf("write stages: %w", err)
		}
		fmt.Fprintf(out, "wrote %s\n", at)
	}
	return nil
}
