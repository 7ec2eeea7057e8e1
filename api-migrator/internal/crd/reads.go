// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"fmt"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuralpruning "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/client-go/util/jsonpath"
)

// Unread says which printer columns and paths of the scale subresource of a version read a field that its own schema
// drops: they find nothing, whatever clients write.
func (d *CRD) Unread(version string) ([]string, error) {
	schema, err := d.Structural(version)
	if err != nil {
		return nil, err
	}
	columns, err := apiextensions.GetColumnsForVersion(d.internal, version)
	if err != nil {
		return nil, fmt.Errorf("read the columns of %s: %w", d.From, err)
	}
	var unread []string
	for _, column := range columns {
		if dropped := droppedOn(column.JSONPath, schema); dropped != "" {
			unread = append(unread, fmt.Sprintf("the printer column %s of %s stays empty: it reads %s, and the schema drops %s",
				column.Name, version, column.JSONPath, dropped))
		}
	}
	subresources, err := apiextensions.GetSubresourcesForVersion(d.internal, version)
	if err != nil {
		return nil, fmt.Errorf("read the subresources of %s: %w", d.From, err)
	}
	if subresources == nil || subresources.Scale == nil {
		return unread, nil
	}
	paths := []struct{ name, path string }{
		{"specReplicasPath", subresources.Scale.SpecReplicasPath},
		{"statusReplicasPath", subresources.Scale.StatusReplicasPath},
	}
	if selector := subresources.Scale.LabelSelectorPath; selector != nil {
		paths = append(paths, struct{ name, path string }{"labelSelectorPath", *selector})
	}
	for _, one := range paths {
		if dropped := droppedOn(one.path, schema); dropped != "" {
			unread = append(unread, fmt.Sprintf("the scale subresource of %s finds no value: %s is %s, and the schema drops %s",
				version, one.name, one.path, dropped))
		}
	}
	return unread, nil
}

// droppedOn is the first field on a JSONPath that pruning takes away; empty if it takes none, or if the path does not
// lead through fields and lists alone.
func droppedOn(path string, schema *structuralschema.Structural) string {
	parsed, err := jsonpath.Parse("", "{"+path+"}")
	if err != nil || len(parsed.Root.Nodes) != 1 {
		return "" // the API server's validation is about that
	}
	list, ok := parsed.Root.Nodes[0].(*jsonpath.ListNode)
	if !ok {
		return ""
	}
	object, ok := along(list.Nodes).(map[string]any)
	if !ok {
		return ""
	}
	for _, dropped := range structuralpruning.PruneWithOptions(object, schema, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		return "." + strings.ReplaceAll(dropped, "[0]", "[]")
	}
	return ""
}

// along is an object that has what a JSONPath leads to; nil if the path does not lead through fields and lists alone.
func along(nodes []jsonpath.Node) any {
	if len(nodes) == 0 {
		return true
	}
	inner := along(nodes[1:])
	if inner == nil {
		return nil
	}
	switch node := nodes[0].(type) {
	case *jsonpath.FieldNode:
		return map[string]any{node.Value: inner}
	case *jsonpath.ArrayNode, *jsonpath.FilterNode:
		return []any{inner}
	}
	return nil
}
