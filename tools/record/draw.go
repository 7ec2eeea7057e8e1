// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"fmt"
	"strings"
	"time"
)

const (
	columns, rows = 132, 36
	// In pixels.
	lineHeight, charWidth, margin = 17, 7.25, 16
	// A reader follows lines at this pace.
	shortest, longest = 150 * time.Millisecond, 1200 * time.Millisecond
	// A section begins with an empty line and a number.
	section = 2000 * time.Millisecond
)

// draw returns an SVG in which the lines scroll through a terminal.
func draw(title string, lines []line) string {
	var shown []string
	var times []time.Duration // at which each of them appears
	var at time.Duration
	for _, l := range lines {
		at += max(shortest, min(longest, l.after))
		if isSection(l.text) {
			at += section
		}
		for _, part := range wrap(l.text) {
			shown, times = append(shown, part), append(times, at)
		}
	}
	width, height := int(columns*charWidth)+2*margin, rows*lineHeight+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`,
		width, height, width, height)
	fmt.Fprintf(&b, "\n<title>%s</title>\n", escape(title))
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="#0d1117"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<svg x="%d" y="%d" width="%d" height="%d">`+"\n", margin, margin, width-2*margin, height-2*margin)
	b.WriteString(`<g font-family="ui-monospace,Menlo,Consolas,monospace" font-size="12" fill="#c9d1d9">` + "\n")
	b.WriteString(scroll(times))
	for i, text := range shown {
		if text == "" {
			continue
		}
		fmt.Fprintf(&b, `<text y="%d"%s>%s</text>`+"\n", (i+1)*lineHeight-4, style(text), escape(text))
	}
	b.WriteString("</g>\n</svg>\n</svg>\n")
	return b.String()
}

// scroll moves the text up with each line, so that the newest one is the last in the terminal.
func scroll(times []time.Duration) string {
	if len(times) == 0 {
		return ""
	}
	end := times[len(times)-1] + longest
	values, keys := []string{fmt.Sprintf("0 %d", rows*lineHeight)}, []string{"0"}
	for i, t := range times {
		if i+1 < len(times) && times[i+1] == t {
			continue // parts of one line
		}
		values = append(values, fmt.Sprintf("0 %d", (rows-i-1)*lineHeight))
		keys = append(keys, fmt.Sprintf("%.4f", float64(t)/float64(end)))
	}
	return fmt.Sprintf(`<animateTransform attributeName="transform" type="translate" calcMode="discrete" dur="%.1fs" `+
		`fill="freeze" values="%s" keyTimes="%s"/>`+"\n", end.Seconds(), strings.Join(values, ";"), strings.Join(keys, ";"))
}

// style is how a line looks: commands and headings stand out.
func style(text string) string {
	switch {
	case strings.HasPrefix(text, "$ "):
		return ` fill="#79c0ff" font-weight="bold"`
	case isSection(text):
		return ` fill="#ffffff" font-weight="bold"`
	}
	return ""
}

// isSection recognizes "1. A cluster with a past".
func isSection(text string) bool {
	number, rest, found := strings.Cut(text, ". ")
	return found && rest != "" && len(number) == 1 && number[0] >= '0' && number[0] <= '9'
}

// wrap breaks a line as a terminal does.
func wrap(text string) []string {
	var parts []string
	all := []rune(text)
	for len(all) > columns {
		parts, all = append(parts, string(all[:columns])), all[columns:]
	}
	return append(parts, string(all))
}

// escape returns text as XML that keeps its spaces: a browser makes one space of several, but not of non-breaking ones.
func escape(text string) string {
	text = strings.ReplaceAll(text, " ", "\u00a0")
	var b strings.Builder
	// Writing to a strings.Builder does not fail.
	_ = xml.EscapeText(&b, []byte(text))
	return b.String()
}
