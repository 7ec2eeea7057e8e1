// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package render turns values into bytes: tables for people, JSON and YAML for programs.
//
// It owns how things look. It does no I/O other than to the writer it is given.
package render

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
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
)

// AddFlag adds -o with the formats that the command offers; the value of format is the default.
func AddFlag(flags *pflag.FlagSet, format *Format, offered ...Format) {
	flags.VarP(&formatFlag{format: format, offered: offered}, "output", "o", "Output format: "+list(offered))
}

type formatFlag struct {
	format  *Format
	offered []Format
}

func (f *formatFlag) String() string { return string(*f.format) }
func (f *formatFlag) Type() string   { return "format" }
func (f *formatFlag) Set(value string) error {
	if !slices.Contains(f.offered, Format(value)) {
		return fmt.Errorf("unknown format, want one of %s", list(f.offered))
	}
	*f.format = Format(value)
	return nil
}

func list(formats []Format) string {
	words := make([]string, len(formats))
	for i, f := range formats {
		words[i] = string(f)
	}
	return strings.Join(words, "|")
}

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
