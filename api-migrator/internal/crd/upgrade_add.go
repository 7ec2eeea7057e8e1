// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// addVersion adds a version in front of the others, as a copy of one of them.
func (e *edit) addVersion(options Options) error {
	if options.AddVersion == "" {
		return nil
	}
	original := e.stored()
	if original == nil {
		return nil
	}
	if options.CopyOf != "" {
		if original = e.version(options.CopyOf); original == nil {
			return fmt.Errorf("it has no version %s", options.CopyOf)
		}
	}
	if existing := e.version(options.AddVersion); existing != nil {
		if !e.hasSchemaOfAnother(existing) {
			return fmt.Errorf("version %s exists already, with a schema that no other version has", options.AddVersion)
		}
		return nil
	}
	return e.insertCopy(original, options.AddVersion, options.Schemas[valueOf(e.spec(), "names", "kind")])
}

// store moves the storage flag.
func (e *edit) store(options Options) error {
	storage := options.Storage
	if storage == "" && !options.KeepStorage {
		storage = options.AddVersion
	}
	if storage == "" || e.stored() == nil {
		return nil
	}
	if e.version(storage) == nil {
		return fmt.Errorf("it has no version %s", storage)
	}
	for i := range e.versions() {
		version := e.versions()[i]
		flag, stores := lookup(version, "storage"), nameOf(version) == storage
		if flag == nil || isTrue(flag) == stores {
			continue
		}
		if err := e.retoken(flag, flag.Value, fmt.Sprint(stores)); err != nil {
			return err
		}
	}
	return nil
}

// serve says of a version whether it is served.
func (e *edit) serve(name string, served bool) error {
	if name == "" {
		return nil
	}
	version := e.version(name)
	if version == nil {
		return fmt.Errorf("it has no version %s", name)
	}
	flag := lookup(version, "served")
	switch {
	case isTrue(flag) == served:
		return nil
	case flag == nil:
		return fmt.Errorf("version %s has no field served", name)
	}
	return e.retoken(flag, flag.Value, strconv.FormatBool(served))
}

// removeVersion takes a version away, with the comments above it.
func (e *edit) removeVersion(name string) error {
	version := e.version(name)
	if name == "" || version == nil {
		return nil
	}
	at := e.item(version)
	return e.replace(e.head(at.start, indentation(e.lines[at.start])), at.end)
}

// stored is the version that objects are stored in; nil where it is not exactly one: the API server's validation says
// that better.
func (e *edit) stored() *yaml.Node {
	stored := slices.DeleteFunc(e.versions(), func(v *yaml.Node) bool { return !isTrue(lookup(v, "storage")) })
	if len(stored) != 1 {
		return nil
	}
	return stored[0]
}

func (e *edit) version(name string) *yaml.Node {
	for _, version := range e.versions() {
		if nameOf(version) == name {
			return version
		}
	}
	return nil
}

// hasSchemaOfAnother compares what the schemas say, not how they are written.
func (e *edit) hasSchemaOfAnother(version *yaml.Node) bool {
	schema := func(version *yaml.Node) (value any) {
		if n := lookup(version, "schema"); n != nil && n.Decode(&value) != nil {
			return nil
		}
		return value
	}
	return slices.ContainsFunc(e.versions(), func(other *yaml.Node) bool {
		return other != version && reflect.DeepEqual(schema(other), schema(version))
	})
}

// insertCopy writes a copy of a version before the first one, with a schema of its own unless that is nil. What says
// that the original is old is left out.
func (e *edit) insertCopy(original *yaml.Node, name string, schema *apiextensionsv1.JSONSchemaProps) error {
	at := e.item(original)
	at.indent = indentation(e.lines[at.start]) // that of the dash
	copied, err := newDocument("spec:\n  versions:\n" + strings.Join(e.cut(at, 2), "\n"))
	if err != nil {
		return err
	}
	c := &edit{document: copied}
	if err := c.restate(0, name, false); err != nil {
		return err
	}
	if schema != nil {
		if err := c.setSchema(c.versions()[0], schema); err != nil {
			return err
		}
	}
	first := e.versions()[0]
	indent := indentation(e.lines[first.Line-1])
	return e.insert(e.head(first.Line-1, indent), c.cut(span{2, len(c.lines), 2}, indent)...)
}

// restate makes a version, which was written for another, one of its own: it is served, and nothing says that it is
// old.
func (e *edit) restate(i int, name string, stored bool) error {
	original := nameOf(e.versions()[i])
	for _, key := range []string{"deprecated", "deprecationWarning"} {
		if err := e.remove(e.versions()[i], key); err != nil {
			return err
		}
	}
	set := map[string]string{"name": name, "served": "true", "storage": fmt.Sprint(stored)}
	for _, key := range []string{"name", "served", "storage"} {
		value := lookup(e.versions()[i], key)
		if value == nil {
			return fmt.Errorf("version %s has no field %s", original, key)
		}
		if err := e.retoken(value, value.Value, set[key]); err != nil {
			return err
		}
		// What stands behind a name or a flag is about the original.
		if comment := value.LineComment; comment != "" {
			line := e.lines[value.Line-1]
			if err := e.replace(value.Line-1, value.Line,
				strings.TrimRight(strings.TrimSuffix(line, comment), " ")); err != nil {
				return err
			}
		}
	}
	return nil
}
