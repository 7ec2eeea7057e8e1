// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// Check writes what `check` has found. The names are those of resources that are not safe, or not known to be.
func Check(w io.Writer, format Format, r upgrade.Report) error {
	switch format {
	case Table, Wide:
		return checkTable(w, format == Wide, r)
	case Name:
		var names []string
		for _, f := range r.Findings {
			if f.Verdict != upgrade.Safe && !slices.Contains(names, f.Resource) {
				names = append(names, f.Resource)
			}
		}
		for _, name := range names {
			if _, err := fmt.Fprintln(w, name); err != nil {
				return fmt.Errorf("write names: %w", err)
			}
		}
		return nil
	default:
		return Data(w, format, r)
	}
}

func checkTable(w io.Writer, wide bool, r upgrade.Report) error {
	from := slices.ContainsFunc(r.Findings, func(f upgrade.Finding) bool { return f.From != "" })
	header := []string{"RESOURCE", "VERDICT", "STORED", "CURRENT"}
	if wide {
		header = append(header, "STRANDED", "SOURCE", "MIGRATION", "RUN")
		if from {
			header = append(header, "FROM")
		}
		header = append(header, "WHY", "TRY")
	}
	rows := make([][]string, len(r.Findings))
	for i, f := range r.Findings {
		if !wide {
			rows[i] = []string{f.Resource, string(f.Verdict), firstOf(f.Stored), f.Current}
			continue
		}
		row := []string{
			f.Resource, string(f.Verdict), strings.Join(f.Stored, ","), f.Current, strings.Join(f.Stranded, ","),
			string(f.Source), f.Migration, string(f.Run),
		}
		if from {
			row = append(row, f.From)
		}
		rows[i] = append(row, f.Why, f.Next)
	}
	if len(rows) > 0 {
		if err := Tabulate(w, header, rows); err != nil {
			return err
		}
	}
	return checkBelow(w, r, wide)
}

// checkBelow writes what follows the table: the reasons, unless the table contains them, records that claim too little,
// and the conclusion.
func checkBelow(w io.Writer, r upgrade.Report, wide bool) error {
	var b strings.Builder
	var reasons []reason
	for _, f := range r.Findings {
		if !wide && (f.Verdict != upgrade.Safe || f.Next != "") {
			reasons = append(reasons, reason{f.Resource, f.From, f.Why, f.Next})
		}
	}
	if len(reasons) > 0 {
		b.WriteString("\n")
		writeReasons(&b, reasons, 0)
		b.WriteString("\n")
	}
	for _, u := range r.Understated {
		claims := strings.Join(u.Claims, ", ")
		if claims == "" {
			claims = "nothing"
		}
		fmt.Fprintf(&b, "%s claims %s, but etcd holds %s objects as %s.\n  Try: %s\n", u.Record, claims,
			Count(u.Objects), strings.Join(u.Missing, ", "), u.Next)
	}
	fmt.Fprintln(&b, r.Sentence)
	_, err := io.WriteString(w, b.String())
	return err
}

// firstOf are the first of a resource's versions, as a cell that stays narrow.
func firstOf(versions []string) string {
	const most = 3
	if len(versions) <= most {
		return strings.Join(versions, ",")
	}
	return fmt.Sprintf("%s,+%d", strings.Join(versions[:most], ","), len(versions)-most)
}
