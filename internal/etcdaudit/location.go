// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// location is what a key says: which resource it belongs to, and which object it is.
type location struct {
	resource        schema.GroupResource
	namespace, name string
	// isObject is false for what API servers keep next to the API: leases of their own, allocation bitmaps, markers.
	isObject bool
}

// locate reads a key, without the prefix, of a value whose decoded group is given; decoded is false where the value
// hides it.
//
// Where an object is stored says which resource it is, even when its own apiVersion names a group that it has moved
// away from (an Ingress of extensions/v1beta1 is one of ingresses.networking.k8s.io). Only where the key does not name
// a group, because it is that of a built-in resource that is not in builtInGroups, the object's own group is taken.
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

// maxSegments: prefix of an aggregated server, group, resource, namespace, name; anything behind stays one segment.
const maxSegments = 6

// besideTheAPI are first segments of keys that are no API objects, although some hold encoded objects.
var besideTheAPI = []string{"ranges", "masterleases", "peerserverleases", "health"}

func resourceOf(segments []string, group string, decoded bool) (schema.GroupResource, []string) {
	if !strings.Contains(segments[0], ".") {
		return builtIn(segments, group)
	}
	// Custom resources, and built-in ones with a group in their key. An aggregated server may have a prefix of its
	// own in front of the group; the object's group tells where it ends.
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

// builtInGroups maps built-in resources, whose keys do not name a group, to theirs: a value that is encrypted hides
// it, and an old one may name a group that the resource has left.
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
