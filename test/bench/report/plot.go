// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package report

import "slices"

// Plot describes a plot; the command plot of the module tools draws it. It has bars or lines.
type Plot struct {
	// Name is that of the file, without its extension.
	Name   string `json:"name"`
	Title  string `json:"title"`
	XLabel string `json:"xLabel,omitempty"`
	YLabel string `json:"yLabel"`
	LogX   bool   `json:"logX,omitempty"`
	// Groups name the places on the axis of bars; each of Bars has a value for each.
	Groups []string `json:"groups,omitempty"`
	Bars   []Bars   `json:"bars,omitempty"`
	Lines  []Line   `json:"lines,omitempty"`
}

// Bars are those of one contestant, one for each group; a group that it was not measured in has none.
type Bars struct {
	Name   string `json:"name"`
	Values []Bar  `json:"values"`
}

// Bar is a median with its spread.
type Bar struct {
	Missing bool    `json:"missing,omitempty"`
	Median  float64 `json:"median"`
	Lowest  float64 `json:"lowest"`
	Highest float64 `json:"highest"`
}

// Line is that of one contestant.
type Line struct {
	Name   string `json:"name"`
	Points []XY   `json:"points"`
}

// PlotBars adds a plot of a figure with one group of bars for each case.
func (r *Report) PlotBars(name, title, label string, figure Figure) {
	p := Plot{Name: name, Title: title, YLabel: label}
	var contestants []string
	for _, c := range r.cases() {
		p.Groups = append(p.Groups, c)
		for _, contestant := range r.contestants(c) {
			if !slices.Contains(contestants, contestant) {
				contestants = append(contestants, contestant)
			}
		}
	}
	for _, contestant := range contestants {
		bars := Bars{Name: contestant}
		for _, c := range p.Groups {
			bar := Bar{Missing: true}
			if values := r.values(c, contestant, figure); len(values) > 0 {
				bar = Bar{Median: median(values), Lowest: slices.Min(values), Highest: slices.Max(values)}
			}
			bars.Values = append(bars.Values, bar)
		}
		p.Bars = append(p.Bars, bars)
	}
	r.Plots = append(r.Plots, p)
}

// PlotLines adds a plot of a figure over X.
func (r *Report) PlotLines(name, title, xLabel, yLabel string, figure Figure, logX bool) {
	p := Plot{Name: name, Title: title, XLabel: xLabel, YLabel: yLabel, LogX: logX}
	for _, contestant := range inOrder(r.Measurements, func(m Measurement) string { return m.Contestant }) {
		line := Line{Name: contestant}
		for _, c := range r.cases() {
			if value, measured := r.Median(c, contestant, figure); measured {
				line.Points = append(line.Points, XY{r.of(c, contestant)[0].X, value})
			}
		}
		p.Lines = append(p.Lines, line)
	}
	r.Plots = append(r.Plots, p)
}

// PlotRates adds a plot of the rates over time of the first run of each contestant.
func (r *Report) PlotRates(name, title, label string) {
	p := Plot{Name: name, Title: title, XLabel: "seconds", YLabel: label}
	for _, contestant := range inOrder(r.Measurements, func(m Measurement) string { return m.Contestant }) {
		for _, m := range r.of("", contestant) {
			if len(m.Rates) > 0 {
				p.Lines = append(p.Lines, Line{Name: contestant, Points: m.Rates})
				break
			}
		}
	}
	r.Plots = append(r.Plots, p)
}
