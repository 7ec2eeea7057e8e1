// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command plot draws the plots that a report of the benchmark describes, as SVG:
//
//	go -C tools run ./plot FOLDER/S1.json …
//
// It writes FOLDER/NAME.svg for every plot of each report. It draws what the file holds: it computes nothing.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	for _, path := range os.Args[1:] {
		if err := drawAll(path); err != nil {
			fmt.Fprintln(os.Stderr, "plot:", err)
			os.Exit(1)
		}
	}
}

// description is a plot as test/bench/report describes it; that package says what the fields mean.
type description struct {
	Name   string   `json:"name"`
	Title  string   `json:"title"`
	XLabel string   `json:"xLabel"`
	YLabel string   `json:"yLabel"`
	LogX   bool     `json:"logX"`
	Groups []string `json:"groups"`
	Bars   []bars   `json:"bars"`
	Lines  []line   `json:"lines"`
}

type bars struct {
	Name   string `json:"name"`
	Values []struct {
		Missing bool    `json:"missing"`
		Median  float64 `json:"median"`
		Lowest  float64 `json:"lowest"`
		Highest float64 `json:"highest"`
	} `json:"values"`
}

type line struct {
	Name   string `json:"name"`
	Points []struct {
		X float64 `json:"x"`
		Y float64 `json:"y"`
	} `json:"points"`
}

// drawAll draws every plot of a report into the folder of its file.
func drawAll(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var report struct {
		Plots []description `json:"plots"`
	}
	if err := json.Unmarshal(raw, &report); err != nil {
		return fmt.Errorf("decode %s: %w", path, err)
	}
	for _, d := range report.Plots {
		svg, err := svgOf(d)
		if err != nil {
			return fmt.Errorf("draw %s: %w", d.Name, err)
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), filepath.Base(d.Name)+".svg"), svg, 0o644); err != nil {
			return err
		}
	}
	return nil
}
