// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// Current says which version of each resource is the current one.
type Current struct {
	Versions map[schema.GroupResource]schema.GroupVersion
	// Complete means that Versions contains every resource that exists, as an API server's answer does. Objects of any
	// other resource then count as undetermined. Otherwise they are not compared.
	Complete bool
}

// ParseCurrent reads the file that lists current versions. It is a map, in YAML or JSON, from a resource with its group
// to a version, or to a group and version if the resource is stored in another group's version:
//
//	widgets.demo.example.com: v2
//	secrets: v1
//	events.events.k8s.io: /v1
//
// "/v1" is version v1 of the core group.
func ParseCurrent(data []byte) (*Current, error) {
	var file map[string]string
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return nil, fmt.Errorf("read current versions: want lines like \"widgets.demo.example.com: v2\": %w", err)
	}
	if len(file) == 0 {
		return nil, errors.New("read current versions: the file names no resource, want lines like " +
			"\"widgets.demo.example.com: v2\"")
	}
	current := &Current{Versions: make(map[schema.GroupResource]schema.GroupVersion, len(file))}
	for name, text := range file {
		resource := schema.ParseGroupResource(name)
		version := schema.GroupVersion{Group: resource.Group, Version: text}
		if group, v, ok := strings.Cut(text, "/"); ok {
			version = schema.GroupVersion{Group: group, Version: v}
		}
		if len(validation.IsDNS1123Label(resource.Resource)) > 0 {
			return nil, fmt.Errorf("read current versions: %q is not a resource, want one like "+
				"widgets.demo.example.com",
				name)
		}
		if len(validation.IsDNS1035Label(version.Version)) > 0 {
			return nil, fmt.Errorf("read current versions: %q of %s is not a version, want one like v2", text, name)
		}
		current.Versions[resource] = version
	}
	return current, nil
}

// Comparison is the result of comparing a stored object with the current version of its resource.
type Comparison string

// The results of a comparison.
const (
	// IsCurrent means stored in the current version.
	IsCurrent Comparison = "Current"
	// IsStale means stored in another version.
	IsStale Comparison = "Stale"
	// IsUndetermined means encrypted, not understood, or of a resource that is not among all existing ones.
	IsUndetermined Comparison = "Undetermined"
	// NotCompared means that no current version was given for the resource.
	NotCompared Comparison = "NotCompared"
	// NoObject is what API servers store besides API objects. It is never migrated and never stale.
	NoObject Comparison = "NoObject"
)

// compare is the only function that decides this. A nil Current compares nothing.
func (c *Current) compare(at location, envelope Envelope) Comparison {
	switch {
	case !at.isObject:
		return NoObject
	case c == nil:
		return NotCompared
	}
	want, known := c.Versions[at.resource]
	switch {
	case !known && c.Complete:
		return IsUndetermined
	case !known:
		return NotCompared
	case envelope.APIVersion == "":
		return IsUndetermined
	case envelope.APIVersion == want.String():
		return IsCurrent
	}
	return IsStale
}
