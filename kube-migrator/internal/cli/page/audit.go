// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/etcdaudit"
)

// compared are the comparisons of an audit in the order of the page, and how each looks.
var compared = []struct {
	is               etcdaudit.Comparison
	id, title, about string
	tone             Tone
}{
	{is: etcdaudit.IsStale, id: "stale", title: "Stale", tone: Bad,
		about: "These objects are not stored in the current version."},
	{is: etcdaudit.IsUndetermined, id: "undetermined", title: "Undetermined", tone: Warn,
		about: "These objects are encrypted, cannot be decoded, or belong to a resource whose current version is unknown."},
	{is: etcdaudit.NotCompared, id: "not-compared", title: "Not compared", tone: Quiet,
		about: "There was no current version to compare these objects with."},
	{is: etcdaudit.IsCurrent, id: "current", title: "Current", tone: Good,
		about: "These objects are stored in the current version."},
}

// OfAudit returns the page about what etcd holds.
func OfAudit(r *etcdaudit.Report) View {
	v := View{
		Title: "What etcd holds", Time: r.ReadTime,
		Sentence: strings.Join(strings.Fields(render.AuditSummary(r)), " "),
		Columns: []Column{{Title: "Stored as"}, {Title: "Current"}, {Title: "Encoding", Narrow: true}, {Title: "Key"},
			{Title: "Share"}, {Title: "Objects", Number: true}, {Title: "Bytes", Number: true}},
		Shares: Shares{Of: "objects"},
	}
	for _, c := range compared {
		group := Group{ID: c.id, Title: c.title, About: c.about,
			Collapsed: c.is == etcdaudit.IsCurrent && r.Totals.Current < r.Totals.Objects}
		objects := int64(0)
		for i, row := range r.Rows {
			if row.Comparison != c.is {
				continue
			}
			objects += row.Objects
			group.Rows = append(group.Rows, auditRow(r, i, c.tone))
		}
		slices.SortStableFunc(group.Rows, func(a, b Row) int { return cmp.Compare(a.Name, b.Name) })
		v.Groups = append(v.Groups, group)
		v.Shares.Parts = append(v.Shares.Parts, Share{Name: c.title, Count: objects, Tone: c.tone})
	}
	return v
}

func auditRow(r *etcdaudit.Report, i int, tone Tone) Row {
	row := r.Rows[i]
	share := 0.0
	if r.Totals.Objects > 0 {
		share = float64(row.Objects) / float64(r.Totals.Objects)
	}
	key := row.EncryptionProvider
	if key != "" {
		key += "/" + row.EncryptionKey
	}
	return Row{Key: fmt.Sprint(i), Name: row.Resource, Note: row.Kind, Cells: []Cell{
		{Text: row.APIVersion}, {Text: row.CurrentVersion}, {Text: string(row.Encoding)}, {Text: key},
		{Text: fmt.Sprintf("%.1f%%", 100*share), Bar: &share, Tone: tone},
		{Text: render.Count(row.Objects)}, {Text: render.Count(row.Bytes)},
	}}
}
