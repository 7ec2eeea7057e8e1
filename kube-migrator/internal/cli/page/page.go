// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package page shows what `progress`, `check` and `audit` have found as one HTML page: a report in a file, or the page
// of the dashboard.
//
// It is pure: it turns values into bytes, and decides nothing about safety. A View is a choice among the facts of those
// commands; their verdicts, reasons and commands are shown word for word.
//
// Invariants:
//   - All text of others enters a page through text and attribute (markup.go), which escape it. Neither the script nor
//     the stylesheet contains any.
//   - A page loads nothing: its stylesheet and its script are a part of it, and its Content-Security-Policy allows these
//     two by their hashes.
//   - Everything can be read without the script, without colors, and by a screen reader.
//
// It has no templates: html/template calls methods by name, which keeps the linker from dropping any of them.
package page

import (
	"time"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// View is what a page shows.
type View struct {
	// Title is the heading.
	Title string
	// Cluster is the address of the API server; empty where none was asked.
	Cluster string
	// Time is when the page was true.
	Time time.Time
	// Verdict is that of the whole report; empty for none. Sentence is the verdict with its reason.
	Verdict  upgrade.Verdict
	Sentence string
	// Trouble is why the page may be out of date; the zero value for none.
	Trouble Trouble
	// Total is how much of the work of all resources is done; nil for none.
	Total *Total
	// Shares are how many resources, or objects, are in which state.
	Shares Shares
	// Agreement is what the API servers write; nil where the report does not know.
	Agreement *Agreement
	// Columns are those of every group, after the name.
	Columns []Column
	Groups  []Group
	Notes   []Note
}

// Trouble is why a page could not be brought up to date.
type Trouble struct {
	// Error says what is wrong, Try is a command that helps.
	Error, Try string
	// Since is when it was first seen.
	Since time.Time
}

// Total adds up objects.
type Total struct {
	Done, Total, Failed, ObjectsPerSecond int64
}

// Shares divide a whole.
type Shares struct {
	// Of is what is counted: "resources", "objects".
	Of    string
	Parts []Share
}

// Share is one part of a whole.
type Share struct {
	Name  string
	Count int64
	Tone  Tone
}

// Tone is the color of something whose words say the same. The set is closed.
type Tone string

// The tones.
const (
	Plain Tone = ""
	Good  Tone = "good"
	Busy  Tone = "busy"
	Warn  Tone = "warn"
	Bad   Tone = "bad"
	Quiet Tone = "quiet"
)

// Column is a column of a table.
type Column struct {
	Title string
	// Number means that the cells are numbers, which are aligned on the right.
	Number bool
	// Narrow means that the cells are short.
	Narrow bool
}

// Group is one table.
type Group struct {
	// ID is a constant word, unique in the page.
	ID    string
	Title string
	// About says in a sentence what belongs to the group.
	About string
	// Collapsed: users open the group to see it.
	Collapsed bool
	Rows      []Row
}

// Row is one resource.
type Row struct {
	// Key is unique in the page, and stays the same as long as the row is about the same thing.
	Key  string
	Name string
	// Note stands behind the name.
	Note  string
	Cells []Cell
	// Why is the reason, Try the command that helps; empty for none.
	Why, Try string
	// Runbook is the section of render.Runbook that says what to do; empty for none.
	Runbook string
	// Failures are objects that could not be rewritten, and Others how many more there are.
	Failures []Failure
	Others   int64
}

// Cell is a cell of a table: a text, or a bar with a text.
type Cell struct {
	Text string
	Tone Tone
	// Bar is how much of it is filled, from 0 to 1; nil for a cell without a bar.
	Bar *float64
}

// Failure is an object that could not be rewritten.
type Failure struct {
	Object, Reason, Message string
}

// Note is something that the tables do not say.
type Note struct {
	Title string
	Tone  Tone
	Items []string
}

func toneOf(v upgrade.Verdict) Tone {
	switch v {
	case upgrade.Safe:
		return Good
	case upgrade.Unsafe:
		return Bad
	case upgrade.Undetermined:
	}
	return Warn
}
