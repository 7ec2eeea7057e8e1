// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"io"
)

//go:embed page.css
var stylesheet string

//go:embed page.js
var script string

// Report writes a page that stays as it is, for a file: it needs nothing besides itself.
func Report(w io.Writer, v View) error {
	policy := empty("meta", attributes{"http-equiv", "Content-Security-Policy", "content", Policy("'none'")})
	return write(w, v, policy, attributes{"class", "report"})
}

// refreshSeconds is how often a page without the script is loaded again.
const refreshSeconds = "15"

// Live writes the page of a dashboard, which follows the events at the relative URL events. Its server sends the header
// Content-Security-Policy with Policy("'self'").
func Live(w io.Writer, v View) error {
	refresh := element("noscript", nil, empty("meta", attributes{"http-equiv", "refresh", "content", refreshSeconds}))
	return write(w, v, refresh, attributes{"class", "live", "data-events", "events"})
}

// Policy is the Content-Security-Policy of a page: its own stylesheet and its own script, and nothing else. connect is
// where the script may connect to.
func Policy(connect string) string {
	return "default-src 'none'; style-src " + hash(stylesheet) + "; script-src " + hash(script) + "; connect-src " +
		connect + "; img-src data:; base-uri 'none'; form-action 'none'"
}

func hash(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func write(w io.Writer, v View, head markup, body attributes) error {
	p := PartsOf(v)
	fixed := func(id string, with attributes) markup {
		return element("div", append(attributes{"id", id}, with...), p.Fixed[id])
	}
	var groups []markup
	for _, g := range v.Groups {
		groups = append(groups, groupOfRows(g, v.Columns, p))
	}
	cluster := markup("")
	if v.Cluster != "" {
		cluster = element("span", class("cluster"), text(v.Cluster))
	}
	page := join("<!DOCTYPE html>\n", element("html", attributes{"lang", "en"},
		"\n", element("head", nil,
			"\n", empty("meta", attributes{"charset", "utf-8"}), "\n", head, "\n",
			empty("meta", attributes{"name", "viewport", "content", "width=device-width, initial-scale=1"}), "\n",
			empty("meta", attributes{"name", "color-scheme", "content", "light dark"}), "\n",
			empty("meta", attributes{"name", "referrer", "content", "no-referrer"}), "\n",
			empty("link", attributes{"rel", "icon", "href", "data:,"}), "\n",
			element("title", nil, text(v.Title+" – kube-migrator")), "\n",
			element("style", nil, markup(stylesheet)), "\n"), "\n",
		element("body", body, "\n",
			element("header", nil, element("h1", nil, text(v.Title)),
				element("div", class("about"), cluster, fixed("time", attributes{"class", "time"}),
					element("span", attributes{"id", "connection", "role", "status"}))), "\n",
			element("main", nil, "\n",
				fixed("trouble", attributes{"role", "status"}), "\n",
				fixed("verdict", attributes{"role", "status"}), "\n",
				fixed("totals", nil), "\n",
				fixed("notes", nil), "\n",
				filter(), "\n",
				join(groups...),
				element("section", attributes{"id", "agreement", "aria-label", "What the API servers write"},
					p.Fixed["agreement"]), "\n"), "\n",
			element("footer", nil, text("Written by kube-migrator. The page changes nothing in the cluster.")), "\n",
			element("script", nil, markup(script)), "\n"), "\n"), "\n")
	if _, err := io.WriteString(w, string(page)); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// filter is the box in which users type a part of a name. It needs the script, which shows it.
func filter() markup {
	return element("div", attributes{"id", "filter", "role", "search", "hidden", "hidden"},
		element("label", attributes{"for", "filter-text"}, text("Filter by name, status or reason")),
		empty("input", attributes{"id", "filter-text", "type", "search", "autocomplete", "off", "spellcheck", "false"}),
		element("span", attributes{"id", "filter-count", "role", "status"}))
}

// groupOfRows returns one table with its heading. A group without rows is hidden, and is there for the script.
func groupOfRows(g Group, columns []Column, p Parts) markup {
	var rows []markup
	for _, key := range p.Groups[g.ID] {
		rows = append(rows, p.Rows[key], "\n")
	}
	with := attributes{"class", "group", "id", "group-" + g.ID}
	if !g.Collapsed {
		with = append(with, "open", "open")
	}
	if len(rows) == 0 {
		with = append(with, "hidden", "hidden")
	}
	return join(element("details", with,
		element("summary", nil, element("h2", nil, text(g.Title+" "),
			element("span", attributes{"class", "count", "id", "count-" + g.ID}, p.Fixed["count-"+g.ID]))),
		element("p", class("about"), text(g.About)),
		region(g.Title, table(append([]Column{{Title: "Resource"}}, columns...),
			element("tbody", attributes{"id", "rows-" + g.ID}, append([]markup{"\n"}, rows...)...)))), "\n")
}
