// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// admissionKeys are the keys of an entry's webhooks that go with the version that serves them.
var admissionKeys = []string{"defaulting", "defaultingPath", "validation", "validationPath", "webhookVersion"}

// WithoutWebhooks is PROJECT without the webhooks of a kind in a version; nil if it has none there, or says more of
// them than which requests they get. line is then that of these webhooks, or 0 without any.
func WithoutWebhooks(content []byte, kind, group, version string) (without []byte, line int, err error) {
	entry, err := entryOf(content, kind, group, version)
	if err != nil {
		return nil, 0, err
	}
	first, end, line := webhookLines(entry)
	if end == 0 {
		return nil, line, nil
	}
	return []byte(strings.Join(slices.Delete(strings.SplitAfter(string(content), "\n"), first, end), "")), 0, nil
}

// MoveWebhooks is WithoutWebhooks, and the webhooks are those of the kind in another version, unless that has some. Both
// versions are GROUP/VERSION.
func MoveWebhooks(content []byte, kind, from, to string) (moved []byte, line int, err error) {
	group, version, _ := strings.Cut(from, "/")
	old, err := entryOf(content, kind, group, version)
	if err != nil {
		return nil, 0, err
	}
	group, version, _ = strings.Cut(to, "/")
	into, err := entryOf(content, kind, group, version)
	if err != nil {
		return nil, 0, err
	}
	first, end, line := webhookLines(old)
	if end == 0 || into == nil {
		return nil, line, nil
	}
	lines := strings.SplitAfter(string(content), "\n")
	block, at := slices.Clone(lines[first:end]), lastLine(into)
	if _, has, other := webhookLines(into); has > 0 || other > 0 {
		block = nil
	}
	if at > first {
		lines = slices.Delete(slices.Insert(lines, at, block...), first, end)
	} else {
		lines = slices.Insert(slices.Delete(lines, first, end), at, block...)
	}
	return []byte(strings.Join(lines, "")), 0, nil
}

// WithConversion is PROJECT with a conversion webhook of a kind, in the entry of the version that is the hub; spokes are
// the versions that it names then. It is nil if the entry has one already, or does not exist. line is that of an entry
// or of its webhooks where nothing can be added as lines.
func WithConversion(content []byte, kind, group, hub string, spokes []string) (with []byte, line int, err error) {
	entry, err := entryOf(content, kind, group, hub)
	if err != nil || entry == nil {
		return nil, 0, err
	}
	lines, at := strings.SplitAfter(string(content), "\n"), lastLine(entry)
	indent := strings.Repeat(" ", entry.Column-1)
	block := []string{"conversion: true\n"}
	if len(spokes) > 0 {
		block = append(block, "spoke:\n")
		for _, spoke := range spokes {
			block = append(block, "- "+spoke+"\n")
		}
	}
	webhooks := valueOf(entry, "webhooks")
	switch {
	case valueOf(webhooks, "conversion") != nil:
		return nil, 0, nil
	case entry.Style&yaml.FlowStyle != 0 || webhooks != nil && (webhooks.Style&yaml.FlowStyle != 0 || len(webhooks.Content) == 0):
		return nil, entry.Line, nil
	case webhooks != nil:
		at, indent = webhooks.Line-1, strings.Repeat(" ", webhooks.Column-1)
	default:
		for i := range block {
			block[i] = "  " + block[i]
		}
		block = slices.Concat([]string{"webhooks:\n"}, block, []string{"  webhookVersion: v1\n"})
		if last := lines[at-1]; !strings.HasSuffix(last, "\n") {
			lines[at-1] += "\n"
		}
	}
	for i := range block {
		block[i] = indent + block[i]
	}
	return []byte(strings.Join(slices.Insert(lines, at, block...), "")), 0, nil
}

// valueOf is the value of a key of a mapping; nil without it.
func valueOf(mapping *yaml.Node, key string) *yaml.Node {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// entryOf is the entry of PROJECT for a kind in a version; nil without one.
func entryOf(content []byte, kind, group, version string) (*yaml.Node, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return nil, err
	}
	for _, entry := range resourcesOf(&document) {
		var known resource
		if err := entry.Decode(&known); err != nil {
			return nil, err
		}
		if known.Kind == kind && known.Version == version && strings.Trim(known.Group+"."+known.Domain, ".") == group {
			return entry, nil
		}
	}
	return nil, nil
}

// webhookLines are the lines of an entry's webhooks, from first to before end. end is 0 if there are none, or if they
// cannot be taken out as lines; line is then where they are.
func webhookLines(entry *yaml.Node) (first, end, line int) {
	if entry == nil {
		return 0, 0, 0
	}
	for i := 0; i+1 < len(entry.Content); i += 2 {
		key, value := entry.Content[i], entry.Content[i+1]
		if key.Value != "webhooks" {
			continue
		}
		for n, one := range value.Content {
			if n%2 == 0 && !slices.Contains(admissionKeys, one.Value) {
				return 0, 0, key.Line
			}
		}
		if i == 0 || entry.Content[i-1].Line == key.Line {
			return 0, 0, key.Line // the dash, or the rest of the entry, is on this line
		}
		return key.Line - 1, max(key.Line, lastLine(value)), key.Line
	}
	return 0, 0, 0
}
