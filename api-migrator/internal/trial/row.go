// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Markers of the table in a Markdown document. Rows stand between them, after the two lines of the header.
const (
	begin = "<!-- begin of the table that make try-project writes -->"
	end   = "<!-- end of the table that make try-project writes -->"
)

// Header is the two lines above the rows.
const Header = `| project | origin, layout | packages (affected) | what was moved | plan: CPU, wall, peak RSS | apply: CPU, wall, peak RSS | tests before → after | findings | problems | left by hand |
|---|---|---|---|---|---|---|---|---|---|
`

// String is one row of the table.
func (r *Row) String() string {
	project := r.Project
	if r.Version != "" {
		project = fmt.Sprintf("[%s](https://pkg.go.dev/%s@%s) %s", r.Project, r.Project, r.Version, r.Version)
	}
	tests := fmt.Sprintf("%d → %d", r.TestsBefore, r.TestsAfter)
	if r.NeedCluster > 0 {
		tests += fmt.Sprintf("; %d packages need a cluster", r.NeedCluster)
	}
	if r.Apply.Wall == 0 {
		tests = "refused"
	}
	problems := "none"
	if len(r.Problems) > 0 {
		problems = fmt.Sprintf("%d: %s", len(r.Problems), r.Problems[0])
	}
	cells := []string{project, r.Origin + ", " + r.Layout, fmt.Sprintf("%d (%d)", r.Packages, r.Affected), r.Move,
		r.Plan.String(), r.Apply.String(), tests, fmt.Sprint(r.Findings), problems, r.ByHand}
	for i, cell := range cells {
		cells[i] = strings.ReplaceAll(strings.Join(strings.Fields(cell), " "), "|", `\|`)
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// String is for example "12 s, 31 s, 310 MiB"; "–" if the program was not run.
func (u Usage) String() string {
	if u.Wall == 0 {
		return "–"
	}
	seconds := func(d time.Duration) string {
		if d < 10*time.Second {
			return fmt.Sprintf("%.1f s", d.Seconds())
		}
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%s, %s, %d MiB", seconds(u.CPU), seconds(u.Wall), u.PeakBytes>>20)
}

// key is what a row is about: the project without its version, and what was moved.
func key(line string) string {
	cells := strings.Split(line, " | ")
	if len(cells) < 4 {
		return line
	}
	project, _, _ := strings.Cut(strings.TrimPrefix(cells[0], "| "), "](")
	return strings.TrimPrefix(project, "[") + " " + cells[3]
}

// Insert puts a row into the table of a document, in the order of projects. It replaces the row that is about the same
// project and the same move. The rest of the document stays as it is.
func Insert(document string, row *Row) (string, error) {
	before, rest, ok := strings.Cut(document, begin+"\n")
	table, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("the document has no lines %q and %q", begin, end)
	}
	rows := slices.DeleteFunc(strings.SplitAfter(strings.TrimPrefix(table, Header), "\n"), func(line string) bool {
		return line == "" || key(line) == key(row.String())
	})
	rows = append(rows, row.String())
	slices.SortFunc(rows, func(a, b string) int { return strings.Compare(key(a), key(b)) })
	return before + begin + "\n" + Header + strings.Join(rows, "") + end + after, nil
}
