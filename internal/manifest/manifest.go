// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifest parses the manifests that users apply: YAML with any number of documents, JSON, lists of objects,
// and the output of kustomize and Helm.
//
// It decides what counts as a document, and how an error names it. It never reads a file, and does not interpret
// objects.
package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// Object is one object in a file.
type Object struct {
	// From is its name for users: "crds.yaml, document 2", with the item if it is in a list.
	From string
	// APIVersion and Kind are never empty.
	APIVersion, Kind string
	// JSON is the whole object.
	JSON []byte
}

// Objects returns the objects of a file in order, and those of lists one by one. It skips text between objects that is
// not an object: comments, Helm's header and notes, maps without apiVersion and kind. An error names the file and the
// document.
func Objects(file string, data []byte) ([]Object, error) {
	documents, err := split(data)
	if err != nil {
		return nil, fmt.Errorf("%s, document %d: %w", file, len(documents)+1, err)
	}
	var all []Object
	for i, document := range documents {
		from := fmt.Sprintf("%s, document %d", file, i+1)
		raw, err := toJSON(document)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		if all, err = unpack(all, from, raw); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// unpack appends an object, or the objects of a list, to all.
func unpack(all []Object, from string, raw []byte) ([]Object, error) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return all, nil
	}
	var head struct {
		APIVersion string          `json:"apiVersion"`
		Kind       string          `json:"kind"`
		Items      json.RawMessage `json:"items"`
	}
	if raw[0] != '{' {
		return nil, fmt.Errorf("%s: it is not an object: %s", from, beginning(raw))
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	switch {
	case head.APIVersion == "" && head.Kind == "":
		return all, nil // Helm's header, a file of values
	case head.APIVersion == "" || head.Kind == "":
		return nil, fmt.Errorf("%s: it has no apiVersion or no kind", from)
	case !strings.HasSuffix(head.Kind, "List") || len(head.Items) == 0:
		return append(all, Object{From: from, APIVersion: head.APIVersion, Kind: head.Kind, JSON: raw}), nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(head.Items, &items); err != nil {
		return nil, fmt.Errorf("%s: its items are no list: %w", from, err)
	}
	for i, item := range items {
		// The API server omits apiVersion and kind in the items of its own lists.
		item, err := withType(item, head.APIVersion, strings.TrimSuffix(head.Kind, "List"))
		if err == nil {
			all, err = unpack(all, fmt.Sprintf("%s, item %d", from, i+1), item)
		} else {
			err = fmt.Errorf("%s, item %d: %w", from, i+1, err)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// withType adds apiVersion and kind to an item of a typed list that has neither.
func withType(item []byte, apiVersion, kind string) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(item, &fields); err != nil {
		return nil, fmt.Errorf("it is not an object: %s", beginning(item))
	}
	if kind == "" || fields["apiVersion"] != nil || fields["kind"] != nil {
		return item, nil
	}
	fields["apiVersion"], _ = json.Marshal(apiVersion) // a string
	fields["kind"], _ = json.Marshal(kind)
	return json.Marshal(fields)
}

var (
	// A line that separates documents. Something may follow it: a comment, a tag, a flow mapping.
	separator = regexp.MustCompile(`(?m)^---(\s.*)?$`)
	ending    = regexp.MustCompile(`^\.\.\.\s*(#.*)?$`)
	directive = regexp.MustCompile(`^%(YAML|TAG)\s`)
	// notes are the start of what `helm install --dry-run` prints for users after the last object.
	notes = regexp.MustCompile(`^NOTES:\s*$`)
)

// split divides a file into documents that contain more than comments.
func split(data []byte) (documents [][]byte, err error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '{' && !separator.Match(data) &&
		firstValue(trimmed) != nil {
		return splitJSON(trimmed)
	}
	var document bytes.Buffer
	skipping := false // what follows NOTES:
	flush := func() {
		if !empty(document.Bytes()) {
			documents = append(documents, bytes.Clone(document.Bytes()))
		}
		document.Reset()
	}
	for line := range bytes.Lines(data) {
		text := bytes.TrimRight(line, "\r\n")
		switch {
		case separator.Match(text):
			flush()
			skipping = false
			document.Write(text[len("---"):])
			document.WriteByte('\n')
		case ending.Match(text):
			flush()
		case notes.Match(text):
			skipping = true
		case skipping, directive.Match(text) && empty(document.Bytes()):
		default:
			document.Write(text)
			document.WriteByte('\n')
		}
	}
	flush()
	return documents, nil
}

// splitJSON divides a sequence of JSON values, such as the output of `kubectl get -o json` for several files.
func splitJSON(data []byte) (documents [][]byte, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		var value json.RawMessage
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return documents, fmt.Errorf("it is not JSON: %w", err)
		}
		documents = append(documents, value)
	}
}

// firstValue returns the first JSON value in data, or nil if data does not begin with one, as in a YAML flow mapping.
func firstValue(data []byte) []byte {
	var value json.RawMessage
	if json.NewDecoder(bytes.NewReader(data)).Decode(&value) != nil {
		return nil
	}
	return value
}

// empty reports whether a document contains only white space and comments.
func empty(document []byte) bool {
	for line := range bytes.Lines(document) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

func toJSON(document []byte) ([]byte, error) {
	if json.Valid(document) {
		return document, nil
	}
	raw, err := yaml.YAMLToJSON(document)
	if err != nil {
		return nil, fmt.Errorf("it is not YAML: %w", err)
	}
	return raw, nil
}

// beginning returns the start of a text that is not an object, for an error.
func beginning(raw []byte) string {
	const most = 40
	text := strings.Join(strings.Fields(string(raw)), " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return text
}
