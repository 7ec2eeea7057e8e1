// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

// inspection is what inspect prints as JSON.
type inspection struct {
	Module string `json:"module"`
	// Modules are all of them, if the repository has several that lead to one another.
	Modules   []module           `json:"modules,omitempty"`
	Versions  []version          `json:"versions"`
	Manifests []project.Manifest `json:"manifests"`
	// Ignored are Go files that build constraints keep out.
	Ignored []string `json:"ignored"`
	// Broken are packages that do not compile, with the first problem.
	Broken []brokenPackage `json:"broken,omitempty"`
}

type brokenPackage struct {
	Path    string `json:"path"`
	Problem string `json:"problem"`
}

type module struct {
	Path   string `json:"path"`
	Folder string `json:"folder"`
}

type version struct {
	Group     string         `json:"group"`
	Version   string         `json:"version"`
	Folder    string         `json:"folder"`
	Layout    string         `json:"layout"`
	Kinds     []project.Kind `json:"kinds"`
	Importers []string       `json:"importers"`
}

func newInspectCommand(streams Streams) *cobra.Command {
	output := "text"
	command := &cobra.Command{
		Use:   "inspect [DIR]",
		Short: "Show a project's API versions, kinds, importers and CustomResourceDefinitions",
		Long: `Show the API versions of a project, their kinds, the files that import them, and the manifests of
CustomResourceDefinitions, which inspect finds by their content in any YAML or JSON file. inspect writes nothing.`,
		Args: atMost(1),
		RunE: func(command *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			if err := choice(command, "output", output, "text", "json"); err != nil {
				return err
			}
			p, err := project.Load(command.Context(), dir)
			if err != nil {
				return err
			}
			found, err := inspect(p)
			if err != nil {
				return err
			}
			if output == "json" {
				encoder := json.NewEncoder(streams.Out)
				encoder.SetIndent("", "  ")
				return encoder.Encode(found)
			}
			return found.show(streams.Out)
		},
	}
	command.Flags().StringVarP(&output, "output", "o", output, "text or json")
	return command
}

func inspect(p *project.Project) (*inspection, error) {
	found := &inspection{Module: p.Module, Versions: []version{}, Manifests: []project.Manifest{},
		Ignored: append([]string{}, p.Ignored...)}
	if modules := p.Workspace.Modules; len(modules) > 1 {
		for _, one := range modules {
			found.Modules = append(found.Modules, module{Path: one.Path, Folder: one.Dir})
		}
	}
	for _, v := range p.Versions() {
		found.Versions = append(found.Versions, version{
			Group: v.Group, Version: v.Version, Folder: v.Package.Dir, Layout: v.Layout(), Kinds: v.Kinds,
			Importers: append([]string{}, v.Importers...),
		})
	}
	for _, broken := range p.Broken {
		found.Broken = append(found.Broken, brokenPackage{Path: broken.Path, Problem: broken.First()})
	}
	manifests, err := p.Manifests()
	found.Manifests = append(found.Manifests, manifests...)
	return found, err
}

func (i *inspection) show(out io.Writer) error {
	if len(i.Modules) == 0 {
		fmt.Fprintf(out, "module %s\n", i.Module)
	}
	for _, one := range i.Modules {
		fmt.Fprintf(out, "module %s in %s\n", one.Path, one.Folder)
	}
	for _, v := range i.Versions {
		fmt.Fprintf(out, "\n%s/%s\n  folder     %s (layout %s)\n", v.Group, v.Version, v.Folder, v.Layout)
		for _, kind := range v.Kinds {
			storage := ""
			if kind.Storage {
				storage = ", storage version"
			}
			fmt.Fprintf(out, "  kind       %s (%s%s)\n", kind.Name, kind.File, storage)
		}
		for _, file := range v.Importers {
			fmt.Fprintf(out, "  importer   %s\n", file)
		}
	}
	if len(i.Manifests) > 0 {
		fmt.Fprintln(out)
		table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
		fmt.Fprintln(table, "CUSTOMRESOURCEDEFINITION\tKIND\tVERSIONS\tSTORAGE\tFILE")
		for _, m := range i.Manifests {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", m.Name, m.Kind, strings.Join(m.Versions, ","), m.Storage, m.File)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	if len(i.Ignored) > 0 {
		fmt.Fprintf(out, "\nskipped, because of their build constraints:\n  %s\n", strings.Join(i.Ignored, "\n  "))
	}
	for _, one := range i.Broken {
		fmt.Fprintf(out, "\ndoes not compile: %s\n  %s\n", one.Path, one.Problem)
	}
	return nil
}
