// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A chart's manifest can be YAML although Helm fills in some of its strings: labels, annotations, where the conversion
// webhook is. Such a string is data, which an upgrade keeps. What the API server would say to it is known only once it
// is filled in, so something valid stands for it when a manifest is judged. A schema keeps its strings: braces in a
// description, a pattern or a default are what its author means, and names decide what the CRD is.

// templateAction is what Helm replaces.
var templateAction = regexp.MustCompile(`(?s)\{\{.*?\}\}`)

// filledIn is a manifest in which template actions in strings of metadata and of spec.conversion are replaced. Anything
// else comes back as it is.
func filledIn(raw []byte) []byte {
	var top yaml.Node
	if !bytes.Contains(raw, []byte("{{")) || yaml.Unmarshal(raw, &top) != nil || len(top.Content) != 1 {
		return raw
	}
	f := filler{}
	f.fill(lookup(top.Content[0], "metadata"))
	f.fill(lookup(top.Content[0], "spec", "conversion"))
	if f.actions == 0 {
		return raw
	}
	filled, err := yaml.Marshal(&top)
	if err != nil {
		return raw
	}
	return filled
}

// filler replaces actions, and counts them: two labels with different actions have different names.
type filler struct{ actions int }

func (f *filler) fill(n *yaml.Node) {
	switch {
	case n == nil:
	case n.Kind == yaml.ScalarNode:
		n.Value = templateAction.ReplaceAllStringFunc(n.Value, func(string) string {
			f.actions++
			return fmt.Sprintf("x%d", f.actions)
		})
	case n.Kind == yaml.MappingNode:
		f.fillFields(n)
	default:
		for _, child := range n.Content {
			f.fill(child)
		}
	}
}

// fillFields leaves out fields that have to be more than text, and may be absent: a bundle of certificates, and a path.
func (f *filler) fillFields(n *yaml.Node) {
	var kept []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		isComputed := value.Kind == yaml.ScalarNode && templateAction.MatchString(value.Value)
		switch {
		case isComputed && (key.Value == "caBundle" || key.Value == "path"):
			f.actions++
			continue
		case isComputed && key.Value == "url" && !strings.HasPrefix(value.Value, "https://"):
			f.actions++
			value.Value = "https://x"
		default:
			f.fill(key)
			f.fill(value)
		}
		kept = append(kept, key, value)
	}
	n.Content = kept
}
