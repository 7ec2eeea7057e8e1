// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/internal/printable"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/etcdaudit"
)

// StaleList writes stale objects while they are found: it keeps none (I6), so its columns have fixed widths. As JSON
// and YAML the result is one document: that of Audit with a field staleObjects in front.
type StaleList struct {
	Out    io.Writer
	Format Format
	begun  bool
}

const staleColumns = "%-40s %-50s %-30s %s"

// Add writes one object.
func (l *StaleList) Add(o etcdaudit.StaleObject) error {
	begun := l.begun
	l.begun = true
	path := printable.Name(o.Namespace, o.Name)
	switch l.Format {
	case JSON:
		return l.addJSON(o, begun)
	case YAML:
		return l.addYAML(o, begun)
	case Name:
		_, err := fmt.Fprintf(l.Out, "%s/%s\n", clean(o.Resource), path)
		return err
	case Text, Table, Wide, HTML, Prometheus:
	}
	cells := []any{clean(o.Resource), path, o.APIVersion, o.CurrentVersion}
	format := staleColumns + "\n"
	if l.Format == Wide {
		cells, format = []any{cells[0], cells[1], cells[2],
			fmt.Sprintf("%-30s %s", o.CurrentVersion, o.Encoding)}, staleColumns+"\n"
	}
	if !begun {
		last := "CURRENT"
		if l.Format == Wide {
			last = fmt.Sprintf("%-30s ENCODING", last)
		}
		if _, err := fmt.Fprintf(l.Out, format, "RESOURCE", "OBJECT", "STORED", last); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(l.Out, format, cells...)
	return err
}

func (l *StaleList) addJSON(o etcdaudit.StaleObject, begun bool) error {
	text, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	before := ",\n    "
	if !begun {
		before = "{\n  \"staleObjects\": [\n    "
	}
	_, err = fmt.Fprintf(l.Out, "%s%s", before, text)
	return err
}

func (l *StaleList) addYAML(o etcdaudit.StaleObject, begun bool) error {
	text, err := yaml.Marshal([]etcdaudit.StaleObject{o})
	if err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	if !begun {
		text = append([]byte("staleObjects:\n"), text...)
	}
	_, err = l.Out.Write(text)
	return err
}

// End writes what follows the last object.
func (l *StaleList) End(report *etcdaudit.Report) error {
	var rest bytes.Buffer
	if l.Format != JSON && l.Format != YAML {
		return nil
	}
	if err := Data(&rest, l.Format, report); err != nil {
		return err
	}
	before, document := "", rest.Bytes()
	switch {
	case l.Format == YAML && !l.begun:
		before = "staleObjects: []\n"
	case l.Format == JSON && l.begun:
		before, document = "\n  ],", document[len("{"):]
	case l.Format == JSON:
		before, document = "{\n  \"staleObjects\": [],", document[len("{"):]
	}
	_, err := fmt.Fprintf(l.Out, "%s%s", before, document)
	return err
}
