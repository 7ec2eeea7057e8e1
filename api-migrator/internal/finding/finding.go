// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package finding holds what a person should look at: findings, and blockers, with which nothing is applied.
package finding

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Finding is something that a person should look at.
type Finding struct {
	// Where is a file, with a line where one is known; empty for what has no file.
	Where string `yaml:"place" json:"place"`
	Text  string `yaml:"text" json:"text"`
	// AtRunTime: what may go wrong shows when the operator or an API server works with objects. No compiler and no generator
	// reports it.
	AtRunTime bool `yaml:"atRunTime,omitempty" json:"atRunTime,omitempty"`
}

// String is the finding for users.
func (f Finding) String() string { return strings.TrimPrefix(f.Where+": "+f.Text, ": ") }

// Report collects findings.
type Report struct {
	Findings []Finding
	// Blockers are findings with which nothing may be applied.
	Blockers []Finding
}

// Note adds a finding.
func (r *Report) Note(where, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Where: where, Text: fmt.Sprintf(format, args...)})
}

// Warn adds a finding about what may go wrong at run time.
func (r *Report) Warn(where, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Where: where, Text: fmt.Sprintf(format, args...), AtRunTime: true})
}

// Block adds a blocker.
func (r *Report) Block(where, format string, args ...any) {
	r.Blockers = append(r.Blockers, Finding{Where: where, Text: fmt.Sprintf(format, args...)})
}

// Add adds all that another report has.
func (r *Report) Add(other Report) {
	r.Findings = append(r.Findings, other.Findings...)
	r.Blockers = append(r.Blockers, other.Blockers...)
}

// Distinct sorts findings, those about run time first, and drops repetitions. An empty list is not nil: a plan is the same
// when it is read again.
func Distinct(list []Finding) []Finding {
	sorted := append([]Finding{}, list...)
	slices.SortFunc(sorted, func(a, b Finding) int {
		switch {
		case a.AtRunTime && !b.AtRunTime:
			return -1
		case b.AtRunTime && !a.AtRunTime:
			return 1
		}
		return strings.Compare(a.Where+a.Text, b.Where+b.Text)
	})
	return slices.Compact(sorted)
}

// OtherLines says that a finding about the first of some lines is true of the others too, and names at most four of them.
// It is empty if there are no others.
func OtherLines(lines []int) string {
	const most = 4
	if len(lines) == 1 {
		return ""
	}
	var shown []string
	for _, line := range lines[1:min(len(lines), most+1)] {
		shown = append(shown, strconv.Itoa(line))
	}
	if len(shown) == 1 && len(lines) == 2 {
		return "; so does line " + shown[0]
	}
	text := "; so do the lines " + strings.Join(shown, ", ")
	if more := len(lines) - 1 - most; more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text
}
