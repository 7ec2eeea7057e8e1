// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package render turns values into bytes: tables for users, JSON and YAML for programs.
//
// It owns how things look. It does no I/O other than to the writer it is given.
package render

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// Format is a value of the flag -o.
type Format string

// The formats; a command offers those that make sense for it.
const (
	Text  Format = "text"
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
	Name  Format = "name"
	HTML  Format = "html" // package page writes it
	// Prometheus is the text format of metrics.
	Prometheus Format = "prometheus"
)

// Data writes value as JSON (indented, one newline at the end) or YAML.
func Data(w io.Writer, format Format, value any) error {
	if format == YAML {
		out, err := yaml.Marshal(value)
		if err != nil {
			return fmt.Errorf("write YAML: %w", err)
		}
		_, err = w.Write(out)
		return err
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
