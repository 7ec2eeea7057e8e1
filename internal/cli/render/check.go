// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/upgrade"
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
		header = append(header, "STRANDED", "SOURCE")
	}
	if from {
		header = append(header, "FROM")
	}
	header = append(header, "WHY", "TRY")
	rows := make([][]string, len(r.Findings))
	for i, f := range r.Findings {
		row := []string{f.Resource, string(f.Verdict), strings.Join(f.Stored, ","), f.Current}
		if wide {
			row = append(row, strings.Join(f.Stranded, ","), string(f.Source))
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
	var b strings.Builder
	for _, u := range r.Understated {
		claims := strings.Join(u.Claims, ", ")
		if claims == "" {
			claims = "nothing"
		}
		fmt.Fprintf(&b, "%s claims %s, but etcd holds %s objects as %s. Try: %s\n", u.Record, claims, Count(u.Objects), strings.Join(u.Missing, ", "), u.Next)
	}
	fmt.Fprintln(&b, r.Sentence)
	_, err := io.WriteString(w, b.String())
	return err
}
