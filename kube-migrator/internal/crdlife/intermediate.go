// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crdlife

import (
	"encoding/json"
	"maps"
	"slices"
)

// intermediate reports whether the CRD in the cluster already serves the purpose of the intermediate CRD: it equals that
// in everything that decides what is stored when objects are rewritten. It has the storage version and all versions of
// the CRD in the file, with schemas that keep the same fields, and converts as the intermediate CRD would. It serves
// none of the versions to keep.
func intermediate(next, live *CRD, keep []string) bool {
	if live.StorageVersion() != next.StorageVersion() ||
		live.Webhook() != conversionOf(next, live).Webhook() {
		return false
	}
	for _, v := range next.Spec.Versions {
		if !live.has(v.Name) || live.Served(v.Name) != v.Served {
			return false
		}
		if is, wanted := live.schema(v.Name), next.schema(v.Name); len(is.Lost(wanted)) > 0 || len(wanted.Lost(is)) > 0 {
			return false
		}
	}
	return !slices.ContainsFunc(keep, live.Served)
}

// between returns the intermediate CRD: the CRD in the file with the versions to keep, which are as in the cluster but
// unserved.
func between(next, live *CRD, keep []string) map[string]any {
	object := maps.Clone(next.object)
	spec := maps.Clone(object["spec"].(map[string]any))
	versions := slices.Clone(spec["versions"].([]any))
	for _, v := range live.object["spec"].(map[string]any)["versions"].([]any) {
		v := maps.Clone(v.(map[string]any))
		if name, _ := v["name"].(string); slices.Contains(keep, name) {
			v["served"], v["storage"] = false, false
			versions = append(versions, v)
		}
	}
	spec["versions"] = versions
	if c := conversionOf(next, live); c != next {
		spec["conversion"] = c.object["spec"].(map[string]any)["conversion"]
	}
	object["spec"] = spec
	return object
}

// conversionOf returns the CRD whose conversion turns stored objects into the new storage version. If the CRD in the
// cluster has a webhook and that version, it is that one, because a release that drops versions may no longer convert
// them. Otherwise it is the CRD in the file.
func conversionOf(next, live *CRD) *CRD {
	if live.Webhook() && live.has(next.StorageVersion()) {
		return live
	}
	return next
}

// lastApplied is the annotation in which client-side `kubectl apply` stores what it applied.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// applicable returns the body of a server-side apply: the object without status and without the metadata that an API
// server sets. The UID and the resourceVersion of live are the precondition.
func applicable(object map[string]any, live *CRD) ([]byte, error) {
	object = maps.Clone(object)
	delete(object, "status")
	metadata := map[string]any{}
	if given, ok := object["metadata"].(map[string]any); ok {
		for _, field := range []string{"name", "labels", "annotations", "finalizers", "ownerReferences"} {
			if value := given[field]; value != nil {
				metadata[field] = value
			}
		}
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			annotations = maps.Clone(annotations)
			delete(annotations, lastApplied)
			metadata["annotations"] = annotations
		}
	}
	if live != nil {
		metadata["uid"], metadata["resourceVersion"] = live.Metadata.UID, live.Metadata.ResourceVersion
	}
	object["metadata"] = metadata
	return json.Marshal(object)
}
