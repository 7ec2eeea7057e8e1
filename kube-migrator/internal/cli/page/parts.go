// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
)

// Parts are the pieces of a page that change. A page in a browser is brought up to date by replacing those that differ.
type Parts struct {
	// Fixed are parts by the id of the element that contains them.
	Fixed map[string]markup `json:"fixed,omitempty"`
	// Rows are rows of tables by their keys.
	Rows map[string]markup `json:"rows,omitempty"`
	// Groups are the keys of the rows of each group, in order, by the id of the group.
	Groups map[string][]string `json:"groups,omitempty"`
}

// PartsOf returns all parts of the page.
func PartsOf(v View) Parts {
	p := Parts{
		Fixed: map[string]markup{
			"verdict": verdict(v), "time": moment(v.Time), "trouble": trouble(v.Trouble),
			"totals": join(totals(v.Total), shares(v.Shares)), "agreement": agreement(v.Agreement, v.Time),
			"notes": notes(v.Notes),
		},
		Rows: map[string]markup{}, Groups: map[string][]string{},
	}
	for _, group := range v.Groups {
		keys := []string{}
		for _, row := range group.Rows {
			keys = append(keys, row.Key)
			p.Rows[row.Key] = tableRow(row, v.Columns)
		}
		p.Groups[group.ID] = keys
		p.Fixed["count-"+group.ID] = text(render.Count(int64(len(keys))))
	}
	return p
}

// Since returns the parts that differ from earlier ones, and whether there are any.
func (p Parts) Since(earlier Parts) (changed Parts, differs bool) {
	differing := func(now, before map[string]markup) map[string]markup {
		differ := map[string]markup{}
		for id, part := range now {
			if old, known := before[id]; !known || old != part {
				differ[id] = part
			}
		}
		return differ
	}
	changed = Parts{Fixed: differing(p.Fixed, earlier.Fixed), Rows: differing(p.Rows, earlier.Rows)}
	if !maps.EqualFunc(p.Groups, earlier.Groups, slices.Equal) {
		changed.Groups = p.Groups
	}
	return changed, len(changed.Fixed)+len(changed.Rows)+len(changed.Groups) > 0
}

func verdict(v View) markup {
	if v.Verdict == "" {
		return element("p", class("verdict"), text(v.Sentence))
	}
	return element("p", class("verdict", string(toneOf(v.Verdict))),
		element("strong", nil, text(string(v.Verdict))), text(" "+v.Sentence))
}

// stamp is how a moment is written.
const stamp = "2006-01-02 15:04:05 UTC"

func moment(t time.Time) markup {
	if t.IsZero() {
		return ""
	}
	t = t.UTC()
	return element("time", attributes{"datetime", t.Format(time.RFC3339)}, text(t.Format(stamp)))
}

func trouble(t Trouble) markup {
	if t.Error == "" {
		return ""
	}
	return element("div", class("note", string(Bad)),
		element("p", nil, element("strong", nil, text("Not up to date")), text(" since "), moment(t.Since),
			text(": "+t.Error)), try(t.Try))
}

func try(command string) markup {
	if command == "" {
		return ""
	}
	return element("p", class("try"), text("Try: "), element("code", nil, text(command)))
}

// see links to a section of our runbook, and to nothing else.
func see(section string) markup {
	if !strings.HasPrefix(section, render.Runbook) {
		return ""
	}
	return element("p", nil, text("See "), element("a", attributes{"href", section},
		text("the runbook about this failure")))
}

func totals(t *Total) markup {
	if t == nil {
		return ""
	}
	share := min(1, float64(t.Done)/float64(t.Total))
	says := render.Count(t.Done) + " of " + render.Count(t.Total) + " objects (" + render.Percent(t.Done, t.Total) + "%)"
	if t.ObjectsPerSecond > 0 {
		says += ", " + render.Count(t.ObjectsPerSecond) + " per second"
	}
	tone := Good
	if t.Done < t.Total {
		tone = Busy
	}
	failed := markup("")
	if t.Failed > 0 {
		failed = element("span", class("bad"), text(", "+render.Count(t.Failed)+" failed"))
	}
	return element("div", class("total"), bar(share, tone), element("p", nil, text(says), failed))
}

func notes(all []Note) markup {
	var out []markup
	for _, n := range all {
		var items []markup
		for _, item := range n.Items {
			items = append(items, element("li", nil, text(item)))
		}
		list := element("ul", nil, items...)
		if len(items) > fewItems {
			list = element("details", nil, element("summary", nil, text("Show "+render.Count(int64(len(items))))), list)
		}
		out = append(out, element("div", class("note", string(n.Tone)), element("h2", nil, text(n.Title)), list))
	}
	return join(out...)
}

const (
	fewItems    = 10 // longer lists are collapsed
	shownEvents = 20
)

func agreement(a *Agreement, now time.Time) markup {
	if a == nil {
		return ""
	}
	words := map[State]string{Agree: "all API servers write one version", Disagree: "they write different versions",
		Unknown: "not known"}
	var legend, events, servers []markup
	for _, s := range states {
		if a.Now[s] > 0 {
			legend = append(legend, element("li", nil, swatch(stateTones[s]),
				text(render.Counted(int64(a.Now[s]), "resource")+": "+words[s])))
		}
	}
	all := a.events()
	for _, e := range all[:min(len(all), shownEvents)] {
		events = append(events, element("li", class(string(e.State)), moment(e.Time), text(" "+e.sentence())))
	}
	if hidden := len(all) - len(events); hidden > 0 {
		events = append(events, element("li", nil, text("and "+render.Counted(int64(hidden), "earlier change"))))
	}
	for _, s := range a.Servers {
		servers = append(servers, element("tr", nil, element("th", attributes{"scope", "row"}, text(s.ID)),
			element("td", nil, text(s.Process)), numberCell(s.Resources), numberCell(s.Others), numberCell(s.Silent)))
	}
	return join(element("h2", nil, text("What the API servers write")),
		element("ul", attributes{"class", "legend", "aria-label", "Now"}, legend...), timeline(a, now),
		details("Changes", element("ol", class("events"), events...)),
		details("API servers", region("API servers", table([]Column{{Title: "API server"}, {Title: "Process"},
			{Title: "Resources", Number: true}, {Title: "In another version", Number: true},
			{Title: "Not answered", Number: true}}, element("tbody", nil, servers...)))))
}

func numberCell(n int) markup { return element("td", class("number"), text(render.Count(int64(n)))) }

func details(title string, content markup) markup {
	return element("details", nil, element("summary", nil, text(title)), content)
}

// region lets a wide table scroll, also with the keyboard.
func region(name string, content markup) markup {
	return element("div", attributes{"class", "scroll", "role", "region", "aria-label", name, "tabindex", "0"}, content)
}

// table returns a table with a head and a body.
func table(columns []Column, body markup) markup {
	var head []markup
	for _, c := range columns {
		head = append(head, element("th", append(attributes{"scope", "col"}, c.class()...), text(c.Title)))
	}
	return element("table", nil, element("thead", nil, element("tr", nil, head...)), body)
}

// class returns the class of the head of a column, if it has one.
func (c Column) class() attributes {
	named := ""
	if c.Number {
		named = "number"
	}
	if c.Narrow {
		named += " narrow"
	}
	if named == "" {
		return nil
	}
	return class(named)
}

func tableRow(r Row, columns []Column) markup {
	var cells []markup
	for i, c := range r.Cells {
		names := []string{}
		if columns[i].Number {
			names = append(names, "number")
		}
		content := text(c.Text)
		if c.Bar != nil {
			content = join(bar(*c.Bar, c.Tone), element("span", nil, content))
			names = append(names, "with-bar")
		} else if c.Tone != Plain && c.Text != "" {
			content = element("span", class("tag", string(c.Tone)), content)
		}
		with := attributes(nil)
		if len(names) > 0 {
			with = class(names...)
		}
		if columns[i].Number && c.Text != "" { // narrow windows have no head
			with = append(with, "data-label", columns[i].Title)
		}
		cells = append(cells, element("td", with, content))
	}
	about := []markup{element("span", class("name"), text(r.Name))}
	for _, line := range []struct{ name, says string }{{"remark", r.Note}, {"why", r.Why}} {
		if line.says != "" {
			about = append(about, element("p", class(line.name), text(line.says)))
		}
	}
	about = append(about, try(r.Try), see(r.Runbook), failures(r))
	return element("tr", attributes{"data-key", r.Key},
		append([]markup{element("th", attributes{"scope", "row"}, about...)}, cells...)...)
}

func failures(r Row) markup {
	if len(r.Failures) == 0 {
		return ""
	}
	var items []markup
	for _, f := range r.Failures {
		says := strings.TrimSuffix(strings.Join([]string{f.Reason, f.Message}, ": "), ": ")
		items = append(items, element("li", nil, element("code", nil, text(f.Object)), text(" "+says)))
	}
	if r.Others > 0 {
		items = append(items, element("li", nil, text("and "+render.Count(r.Others)+" more")))
	}
	return element("details", class("failures"),
		element("summary", nil, text(render.Counted(int64(len(r.Failures))+r.Others, "object")+" that failed")),
		element("ul", nil, items...))
}
