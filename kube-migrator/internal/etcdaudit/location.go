// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// location is what a key says: which resource an object belongs to, and which object it is.
type location struct {
	resource        schema.GroupResource
	namespace, name string
	// isObject is false for what API servers store besides API objects: leases of their own, allocation bitmaps,
	// markers.
	isObject bool
}

// locate reads a key, without the prefix. group is the group of its decoded value; decoded is false if the value could
// not be decoded.
//
// The key decides which resource an object belongs to, even if the object's own apiVersion names a group that the
// resource has left (an Ingress of extensions/v1beta1 belongs to ingresses.networking.k8s.io). Only if the key names no
// group, and the resource is not in builtInGroups, does the object's own group decide.
func locate(key, group string, decoded bool) location {
	segments := strings.SplitN(key, "/", maxSegments)
	if len(segments) == 1 {
		return location{name: key}
	}
	if slices.Contains(besideTheAPI, segments[0]) {
		return location{resource: schema.GroupResource{Resource: segments[0]}, name: strings.Join(segments[1:], "/")}
	}
	resource, rest := resourceOf(segments, group, decoded)
	found := location{resource: resource, isObject: len(rest) > 0 && rest[0] != ""}
	switch len(rest) {
	case 0:
	case 1:
		found.name = rest[0]
	default:
		found.namespace, found.name = rest[0], strings.Join(rest[1:], "/")
	}
	return found
}

// maxSegments allows for the prefix of an aggregated server, group, resource, namespace and name. Everything after that
// is one segment.
const maxSegments = 6

// besideTheAPI are first segments of keys that are not API objects, although some contain encoded objects.
var besideTheAPI = []string{"ranges", "masterleases", "peerserverleases", "health"}

func resourceOf(segments []string, group string, decoded bool) (schema.GroupResource, []string) {
	if !strings.Contains(segments[0], ".") {
		return builtIn(segments, group)
	}
	// Custom resources, and built-in ones with a group in their key. An aggregated server may put a prefix of its own
	// before the group; the object's group shows where the prefix ends.
	at := 0
	if decoded && segments[0] != group || len(segments) > 2 && segments[1] == segments[0] {
		wanted := segments[0]
		if decoded {
			wanted = group
		}
		if i := slices.Index(segments[1:], wanted); i >= 0 && i+2 < len(segments) {
			at = i + 1
		}
	}
	return schema.GroupResource{Group: segments[at], Resource: segments[at+1]}, segments[at+2:]
}

func builtIn(segments []string, group string) (schema.GroupResource, []string) {
	if len(segments) > 2 {
		if r, ok := legacyNames[segments[0]+"/"+segments[1]]; ok {
			return schema.GroupResource{Resource: r}, segments[2:]
		}
	}
	name := segments[0]
	if r, ok := legacyNames[name]; ok {
		name = r
	}
	if known, ok := builtInGroups[name]; ok {
		group = known
	}
	return schema.GroupResource{Group: group, Resource: name}, segments[1:]
}

// legacyNames maps keys to the resources that are not stored under their own name.
// Source: k8s.io/kubernetes/pkg/kubeapiserver, SpecialDefaultResourcePrefixes.
var legacyNames = map[string]string{
	"controllers":        "replicationcontrollers",
	"minions":            "nodes",
	"services/specs":     "services",
	"services/endpoints": "endpoints",
	"ingress":            "ingresses",
	"podsecuritypolicy":  "podsecuritypolicies",
}

// builtInGroups maps built-in resources whose keys name no group to their groups: an encrypted value hides its group,
// and an old value may name a group that the resource has left.
var builtInGroups = groups(map[string]string{
	"": "configmaps endpoints events limitranges namespaces nodes persistentvolumeclaims persistentvolumes pods " +
		"podtemplates " +
		"replicationcontrollers resourcequotas secrets serviceaccounts services",
	"admissionregistration.k8s.io": "mutatingadmissionpolicies mutatingadmissionpolicybindings " +
		"mutatingwebhookconfigurations " +
		"validatingadmissionpolicies validatingadmissionpolicybindings validatingwebhookconfigurations",
	"apps":                         "controllerrevisions daemonsets deployments replicasets statefulsets",
	"autoscaling":                  "horizontalpodautoscalers",
	"batch":                        "cronjobs jobs",
	"certificates.k8s.io":          "certificatesigningrequests clustertrustbundles podcertificaterequests",
	"coordination.k8s.io":          "leasecandidates leases",
	"discovery.k8s.io":             "endpointslices",
	"flowcontrol.apiserver.k8s.io": "flowschemas prioritylevelconfigurations",
	"internal.apiserver.k8s.io":    "storageversions",
	"networking.k8s.io":            "ingressclasses ingresses ipaddresses networkpolicies servicecidrs",
	"node.k8s.io":                  "runtimeclasses",
	"policy":                       "poddisruptionbudgets podsecuritypolicies",
	"rbac.authorization.k8s.io":    "clusterrolebindings clusterroles rolebindings roles",
	"resource.k8s.io": "deviceclasses devicetaintrules resourceclaims resourceclaimtemplates " +
		"resourceslices",
	"scheduling.k8s.io": "priorityclasses",
	"storage.k8s.io": "csidrivers csinodes csistoragecapacities storageclasses volumeattachments " +
		"volumeattributesclasses",
	"storagemigration.k8s.io": "storageversionmigrations",
})

func groups(resources map[string]string) map[string]string {
	byName := make(map[string]string)
	for group, names := range resources {
		for name := range strings.FieldsSeq(names) {
			byName[name] = group
		}
	}
	return byName
}
