// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// palette is Okabe and Ito's, which people tell apart who see colors differently.
var palette = []color.Color{
	color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}, color.RGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff},
	color.RGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff}, color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
	color.RGBA{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff}, color.RGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff},
	color.RGBA{R: 0xf0, G: 0xe4, B: 0x42, A: 0xff}, color.RGBA{R: 0x99, G: 0x99, B: 0x99, A: 0xff},
}

const (
	width, height = 24 * vg.Centimeter, 12 * vg.Centimeter
	// groupWidth is what all bars of a group take up together.
	groupWidth = 90.0
)

// svgOf returns the SVG of a plot.
func svgOf(d description) ([]byte, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = d.Title, d.XLabel, d.YLabel
	p.Y.Min = 0
	p.Legend.Top, p.Legend.Padding = true, vg.Points(2)
	p.BackgroundColor = color.White
	p.Add(plotter.NewGrid())
	var err error
	if len(d.Bars) > 0 {
		err = addBars(p, d)
	} else {
		err = addLines(p, d)
	}
	if err != nil {
		return nil, err
	}
	canvas := vgsvg.New(width, height)
	p.Draw(draw.New(canvas))
	var svg bytes.Buffer
	_, err = canvas.WriteTo(&svg)
	return svg.Bytes(), err
}

// addBars draws medians as bars and their spread as error bars.
func addBars(p *plot.Plot, d description) error {
	barWidth := vg.Points(groupWidth / float64(len(d.Bars)) * 3 / float64(max(3, len(d.Groups))))
	for i, contestant := range d.Bars {
		values := make(plotter.Values, len(contestant.Values))
		for j, v := range contestant.Values {
			values[j] = v.Median
			p.Y.Max = max(p.Y.Max, v.Highest*1.3) // the legend needs room
		}
		chart, err := plotter.NewBarChart(values, barWidth)
		if err != nil {
			return err
		}
		chart.Color, chart.LineStyle.Width = palette[i%len(palette)], 0
		chart.Offset = barWidth * vg.Length(float64(i)-float64(len(d.Bars)-1)/2)
		p.Add(chart, spreads{contestant, chart.Offset})
		p.Legend.Add(contestant.Name, chart)
	}
	p.NominalX(d.Groups...)
	p.X.Min, p.X.Max = -0.6, float64(len(d.Groups))-0.4 // room for the outer names
	return nil
}

// spreads draws the lowest and the highest value of each bar as a line.
type spreads struct {
	bars   bars
	offset vg.Length
}

// Plot draws.
func (s spreads) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, v := range s.bars.Values {
		if !v.Missing {
			at := x(float64(i)) + s.offset
			c.StrokeLine2(draw.LineStyle{Color: color.Black, Width: vg.Points(1)}, at, y(v.Lowest), at, y(v.Highest))
		}
	}
}

func addLines(p *plot.Plot, d description) error {
	if d.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	for i, contestant := range d.Lines {
		points := make(plotter.XYs, 0, len(contestant.Points))
		for _, at := range contestant.Points {
			points = append(points, plotter.XY{X: at.X, Y: at.Y})
			p.Y.Max = max(p.Y.Max, at.Y*1.2)
		}
		if len(points) == 0 {
			continue
		}
		drawn, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		drawn.Color, drawn.Width = palette[i%len(palette)], vg.Points(1.5)
		dots.Color, dots.Radius = drawn.Color, vg.Points(2)
		p.Add(drawn, dots)
		p.Legend.Add(contestant.Name, drawn)
	}
	return nil
}
