// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/move"
	"github.com/kube-migrator/kube-migrator/internal/shell"
)

// summary is what a plan would do, in a few lines for a user who wrote the plan to a file.
func summary(plan *move.Plan, file, dir string) string {
	var out strings.Builder
	to := plan.Request.To
	if plan.Request.ToKind != "" {
		to += " as " + plan.Request.ToKind
	}
	kinds := strings.Join(plan.Request.Kinds, ", ")
	if plan.OnlyImporters {
		kinds = "the importers of " + kinds + ", which both versions have,"
	}
	fmt.Fprintf(&out, "%s moves %s from %s to %s.\n", file, kinds, plan.Request.From, to)
	where, what := map[string]int{}, map[string]int{}
	for _, declaration := range plan.Declarations {
		where[declaration.To]++
	}
	for _, edit := range plan.Edits {
		what[edit.Action]++
	}
	fmt.Fprintf(&out, "  declarations  %d to the new version, %d shared, %d stay, %d of each version\n", where["new"],
		where["shared"], where["stay"], where["anchor"])
	fmt.Fprintf(&out, "  files         %d created, %d changed, %d removed\n", what["create"],
		what["change"], what["remove"])
	list(&out, "findings", plan.Findings)
	list(&out, "blockers", plan.Blockers)
	if len(plan.Blockers) > 0 {
		return out.String()
	}
	rest := shell.Quote(file)
	if dir != "." {
		rest = "-C " + shell.Quote(dir) + " " + rest
	}
	fmt.Fprintf(&out, "Next: api-migrator diff %s, then api-migrator apply %s\n", rest, rest)
	if plan.Copy != nil {
		out.WriteString("Objects cannot be converted from the old CustomResourceDefinition to the new one: the plan " +
			"says under copy how to copy them.\n")
	} else {
		fmt.Fprintf(&out, "To plan how clusters follow: api-migrator stages %s\n", rest)
	}
	return out.String()
}

// list shows the first few of what a person should look at.
func list(out *strings.Builder, what string, findings []finding.Finding) {
	const shown = 10
	fmt.Fprintf(out, "  %-12s  %d\n", what, len(findings))
	for i, finding := range findings {
		if i == shown {
			fmt.Fprintf(out, "    and %d more, in the plan\n", len(findings)-shown)
			return
		}
		fmt.Fprintf(out, "    %s\n", finding)
	}
}
