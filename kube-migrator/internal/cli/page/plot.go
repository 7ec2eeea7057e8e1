// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"strconv"
	"time"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
)

// Plots are SVG without styles of their own, so that a Content-Security-Policy can forbid those. What a plot shows also
// stands next to it in words, so screen readers skip it.

// plot returns a drawing of the given class in a box that is stretched to the width that the stylesheet gives it.
func plot(named string, width, height float64, children ...markup) markup {
	return element("svg", attributes{"class", named, "viewBox", "0 0 " + number(width) + " " + number(height),
		"preserveAspectRatio", "none", "aria-hidden", "true", "focusable", "false"}, children...)
}

func box(x, y, width, height float64, tone Tone) markup {
	return element("rect", attributes{"class", "fill " + string(tone), "x", number(x), "y", number(y),
		"width", number(width), "height", number(height)})
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 32) }

// bar is a share from 0 to 1.
func bar(share float64, tone Tone) markup {
	return plot("bar", 100, 10, box(0, 0, 100, 10, Plain), box(0, 0, 100*share, 10, tone))
}

// shares is one bar with all parts of a whole, and what they are in words.
func shares(s Shares) markup {
	total := int64(0)
	for _, part := range s.Parts {
		total += part.Count
	}
	if total == 0 {
		return ""
	}
	var boxes, words []markup
	x := 0.0
	for _, part := range s.Parts {
		if part.Count == 0 {
			continue
		}
		width := 100 * float64(part.Count) / float64(total)
		boxes = append(boxes, box(x, 0, width, 10, part.Tone))
		x += width
		words = append(words, element("li", nil, swatch(part.Tone),
			text(render.Count(part.Count)+" "+part.Name)))
	}
	return element("div", class("shares"), plot("stack", 100, 10, boxes...),
		element("ul", attributes{"class", "legend", "aria-label", render.Count(total) + " " + s.Of}, words...))
}

// swatch is the color of a tone in a legend.
func swatch(tone Tone) markup {
	return element("span", attributes{"class", "swatch " + string(tone), "aria-hidden", "true"})
}

var stateTones = map[State]Tone{Agree: Good, Unknown: Quiet, Disagree: Bad}

// timeline draws how many resources the API servers agreed about.
func timeline(a *Agreement, now time.Time) markup {
	if len(a.Changes) == 0 {
		return ""
	}
	window := a.window(now)
	const width, height = 1000, 60
	var boxes []markup
	for _, piece := range a.spans(now, window) {
		total := 0
		for _, s := range states {
			total += piece.counts[s]
		}
		y := float64(height)
		for _, s := range states {
			tall := height * float64(piece.counts[s]) / float64(total)
			if tall == 0 {
				continue
			}
			y -= tall
			boxes = append(boxes, box(width*piece.begin, y, width*(piece.end-piece.begin), tall, stateTones[s]))
		}
	}
	return element("div", class("timeline"), plot("strip", width, height, boxes...),
		element("div", attributes{"class", "axis", "aria-hidden", "true"},
			element("span", nil, text(render.Duration(window)+" ago")), element("span", nil, text("now"))))
}
