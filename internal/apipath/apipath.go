// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package apipath builds the paths of requests to API servers.
//
// Groups, versions, resources, namespaces and names come from API servers, and an aggregated one may be hostile: joined
// as they are, an object named "../../../../api/v1/namespaces/kube-system/secrets/x" would lead a request out of its
// resource, with our credentials (I3). This package owns the joining: every path that holds a word of an API server is
// made here, and a word that is not one path segment is ErrUnfit, never a path.
//
// The paths are not escaped: they are for rest.Request.AbsPath and url.URL.Path, which escape them.
//
// It is pure.
package apipath

import (
	"errors"
	"fmt"
	"strings"

	segment "k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kube-migrator/kube-migrator/internal/printable"
)

// ErrUnfit says that a word cannot be a part of a path; test with errors.Is.
var ErrUnfit = errors.New("not fit for a request path")

// Segment returns an ErrUnfit unless a word is one path segment: neither empty nor "." nor "..", without "/" and "%".
// Every other byte is allowed, and so is every length, because API servers allow them in the names of some resources,
// such as Roles. what names the word in the error: "name", "namespace".
func Segment(what, word string) error {
	if word == "" {
		return fmt.Errorf("%w: the %s is empty", ErrUnfit, what)
	}
	//nolint:staticcheck // what replaces it is not in the oldest release of apimachinery that the library takes
	if problems := segment.IsValidPathSegmentName(word); len(problems) > 0 {
		return fmt.Errorf("%w: the %s %s %s", ErrUnfit, what, printable.Quote(word), strings.Join(problems, ", "))
	}
	return nil
}

// Resource reports whether a discovery document lists a resource under the name, and not a subresource. It returns an
// ErrUnfit for a name that is not one path segment, and for one of a resource with stored objects that is not a DNS-1035
// label, as the API server requires of CRDs: in zz.example.com, "as.a" would have the record of a CRD's "as" in
// a.zz.example.com (I1). Without stored objects such a name is not a resource: API servers list metrics under any name.
func Resource(name string, stored bool) (bool, error) {
	if strings.Contains(name, "/") {
		return false, nil
	}
	if err := Segment("resource", name); err != nil {
		return false, err
	}
	if problems := validation.IsDNS1035Label(name); len(problems) > 0 {
		if stored {
			return false, fmt.Errorf("%w: the resource %s is not a DNS label", ErrUnfit, printable.Quote(name))
		}
		return false, nil
	}
	return true, nil
}

// GroupVersion returns the path of a group-version: /api/v1, or /apis/apps/v1. Escaping does not change it.
func GroupVersion(gv schema.GroupVersion) (string, error) {
	if problems := validation.IsDNS1035Label(gv.Version); len(problems) > 0 {
		return "", fmt.Errorf("%w: the version %s is not a DNS label", ErrUnfit, printable.Quote(gv.Version))
	}
	if gv.Group == "" {
		return "/api/" + gv.Version, nil
	}
	if problems := validation.IsDNS1123Subdomain(gv.Group); len(problems) > 0 {
		return "", fmt.Errorf("%w: the group %s is not a DNS subdomain", ErrUnfit, printable.Quote(gv.Group))
	}
	return "/apis/" + gv.Group + "/" + gv.Version, nil
}

// Collection returns the path of a resource's objects, in all namespaces where namespace is "".
func Collection(r schema.GroupVersionResource, namespace string) (string, error) {
	path, err := GroupVersion(r.GroupVersion())
	if err != nil {
		return "", err
	}
	if err := Segment("resource", r.Resource); err != nil {
		return "", err
	}
	if namespace == "" {
		return path + "/" + r.Resource, nil
	}
	if err := Segment("namespace", namespace); err != nil {
		return "", err
	}
	return path + "/namespaces/" + namespace + "/" + r.Resource, nil
}

// Object returns the path of an object, or of a subresource of it. namespace is "" where the object has none.
func Object(r schema.GroupVersionResource, namespace, name string, subresource ...string) (string, error) {
	path, err := Collection(r, namespace)
	if err != nil {
		return "", err
	}
	return Join(path, append([]string{name}, subresource...)...)
}

// Join adds segments to a path that is known to be good, such as a constant: the first is a name.
func Join(path string, segments ...string) (string, error) {
	for _, s := range segments {
		if err := Segment("name", s); err != nil {
			return "", err
		}
		path += "/" + s
	}
	return path, nil
}
