// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const report = `{"scenario": "S1", "plots": [
	{"name": "bars", "title": "Objects", "yLabel": "objects/s", "groups": ["10 objects", "20 objects"], "bars": [
		{"name": "kube-migrator", "values": [{"median": 3, "lowest": 2, "highest": 4}, {"missing": true, "median": 0}]},
		{"name": "in-tree", "values": [{"median": 1, "lowest": 1, "highest": 1}, {"median": 2, "lowest": 1, "highest": 2}]}]},
	{"name": "lines", "title": "Growth", "xLabel": "objects", "yLabel": "ms", "logX": true, "lines": [
		{"name": "kube-migrator", "points": [{"x": 1000, "y": 2}, {"x": 100000, "y": 2.1}]},
		{"name": "nothing", "points": []}]},
	{"name": "rates", "title": "Rate", "xLabel": "seconds", "yLabel": "writes/s", "lines": [
		{"name": "kube-migrator", "points": [{"x": 0, "y": 0}, {"x": 1, "y": 500}]}]}]}`

func TestEveryPlotIsAnSVGThatShowsItsNames(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "S1.json")
	if err := os.WriteFile(path, []byte(report), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := drawAll(path); err != nil {
		t.Fatal(err)
	}
	for name, words := range map[string][]string{
		"bars":  {"Objects", "objects/s", "10 objects", "20 objects", "kube-migrator", "in-tree"},
		"lines": {"Growth", "ms", "kube-migrator", "100000"},
		"rates": {"Rate", "writes/s", "seconds"},
	} {
		t.Run(name, func(t *testing.T) {
			svg, err := os.ReadFile(filepath.Join(dir, name+".svg"))
			if err != nil {
				t.Fatal(err)
			}
			root, text := readXML(t, svg)
			if root != "svg" {
				t.Errorf("the root is <%s>, want <svg>", root)
			}
			for _, word := range words {
				if !strings.Contains(text, word) {
					t.Errorf("the plot does not show %q; it shows %q", word, text)
				}
			}
		})
	}
}

// readXML returns the name of the root and all text of a document, and fails where it is not well-formed.
func readXML(t *testing.T, document []byte) (root, text string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(string(document)))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return root, text
		}
		if err != nil {
			t.Fatalf("the document is not well-formed: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if root == "" {
				root = token.Name.Local
			}
		case xml.CharData:
			text += string(token) + " "
		}
	}
}

func TestAReportThatIsNoJSONIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := drawAll(path); err == nil {
		t.Error("no error")
	}
}
