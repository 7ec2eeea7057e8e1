// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// OfCheck returns the page about a report of check.
func OfCheck(r upgrade.Report, cluster string, now time.Time) View {
	title := "May the cluster be upgraded now?"
	if r.Target != "" {
		title = "May the cluster go to " + r.Target + " now?"
	}
	v := View{
		Title: title, Cluster: cluster, Time: now, Verdict: r.Verdict, Sentence: r.Sentence,
		Columns: []Column{{Title: "Safe"}, {Title: "Stored"}, {Title: "Written now"}, {Title: "Not decodable"},
			{Title: "Known from"}, {Title: "Run"}},
		Groups: []Group{
			{ID: "unsafe", Title: "Unsafe", About: "Objects are stored, or may be stored, in versions that cannot be relied on."},
			{ID: "undetermined", Title: "Undetermined", About: "What is stored, or whether it can be decoded, is not known."},
			{ID: "safe", Title: "Safe", Collapsed: true, About: "Every stored version can be decoded."},
		},
		Shares: Shares{Of: "resources"},
		Notes:  notesOf(r.NotLookedAt, r.Excluded),
	}
	order := []upgrade.Verdict{upgrade.Unsafe, upgrade.Undetermined, upgrade.Safe}
	for _, f := range r.Findings {
		group := &v.Groups[slices.Index(order, f.Verdict)]
		group.Rows = append(group.Rows, Row{
			Key: f.Resource + " " + f.From, Name: f.Resource, Note: f.From, Why: f.Why, Try: f.Next,
			Cells: []Cell{{Text: string(f.Verdict), Tone: toneOf(f.Verdict)}, {Text: strings.Join(f.Stored, ", ")},
				{Text: f.Current}, {Text: strings.Join(f.Stranded, ", "), Tone: Bad}, {Text: string(f.Source)},
				{Text: string(f.Run)}},
		})
	}
	for i, group := range v.Groups {
		v.Shares.Parts = append(v.Shares.Parts,
			Share{Name: group.Title, Count: int64(len(group.Rows)), Tone: toneOf(order[i])})
	}
	var understated []string
	for _, u := range r.Understated {
		understated = append(understated, fmt.Sprintf("%s claims %s, but etcd holds %s objects as %s.", u.Record,
			cmp.Or(strings.Join(u.Claims, ", "), "nothing"), render.Count(u.Objects), strings.Join(u.Missing, ", ")))
	}
	if len(understated) > 0 {
		v.Notes = slices.Insert(v.Notes, 0, Note{Title: "These records claim less than etcd holds", Tone: Bad,
			Items: understated})
	}
	return v
}
