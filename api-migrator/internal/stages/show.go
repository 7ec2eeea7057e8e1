// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package stages

import (
	"fmt"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

// Text is the plan for users.
func (p *Plan) Text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "# %s: from %s to %s\n\n", p.CRD, p.From, p.To)
	out.WriteString("A stage begins when the gate of the one before exits with 0. Gates write nothing.\n")
	for _, warning := range p.Warnings {
		fmt.Fprintf(&out, "\n**Warning:** %s.\n", strings.TrimSuffix(warning, "."))
	}
	for _, stage := range p.Stages {
		fmt.Fprintf(&out, "\n## %s %s: %s\n\n", stage.Letter, stage.Name, stage.What)
		if stage.Wait != "" {
			fmt.Fprintf(&out, "Before: %s\n\n", stage.Wait)
		}
		fmt.Fprintf(&out, "Do:\n\n    %s\n\n", strings.Join(stage.Commands, "\n    "))
		fmt.Fprintf(&out, "Gate (`%s`):\n\n    %s\n\n", stage.GateFile(), stage.Gate)
		fmt.Fprintf(&out, "Back: %s\n", stage.Back)
	}
	return out.String()
}

// Files are the manifests and gates as files, and the text, by their names.
func (p *Plan) Files() map[string]string {
	files := map[string]string{"README.md": p.Text()}
	for i, stage := range p.Stages {
		if stage.Manifest != "" {
			files[stage.File()] = fmt.Sprintf("%s for stage %s, %s\n%s", project.StageMark, stage.Letter,
				stage.What, stage.Manifest)
		}
		files[stage.GateFile()] = fmt.Sprintf("#!/bin/sh\n# Exits with 0 once %s.\n%s\n", p.opens(i), stage.Gate)
	}
	return files
}

// opens says what the gate of a stage stands before.
func (p *Plan) opens(i int) string {
	if i+1 < len(p.Stages) {
		return "stage " + p.Stages[i+1].Letter + " may begin"
	}
	return p.From + " is gone"
}
