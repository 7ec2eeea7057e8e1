// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crdupgrade

import (
	"encoding/json"
	"maps"
	"slices"
)

// intermediate reports whether the CRD in the cluster does what the one in between is for: it has the storage version
// of the file and all its versions, and what goes is there and is not served.
func intermediate(next, live *CRD, keep []string) bool {
	if live.StorageVersion() != next.StorageVersion() {
		return false
	}
	for _, v := range next.Spec.Versions {
		if !live.has(v.Name) || live.Served(v.Name) != v.Served {
			return false
		}
	}
	return !slices.ContainsFunc(keep, live.Served)
}

// between makes the CRD in between: that of the file, and the versions to keep as the cluster has them, unserved.
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

// conversionOf is the CRD whose conversion turns what is stored into the new storage version: the cluster's where it
// has a webhook that knows that version, because a release that drops versions may have forgotten how to convert them;
// else the file's.
func conversionOf(next, live *CRD) *CRD {
	if live.manifest.Webhook && live.has(next.StorageVersion()) {
		return live
	}
	return next
}

// lastApplied is the annotation in which `kubectl apply` without --server-side keeps what it applied.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// applicable is an object as a server-side apply takes it: without status and without what an API server has written,
// and only for the CRD that was read.
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
