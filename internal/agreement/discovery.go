// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// The documents that list groups and versions. The core group has a document of its own.
const (
	corePath   = "/api"
	groupsPath = "/apis"
)

// discoveryPath is the legacy discovery document of a group-version; the aggregated document has no hashes. It is
// unfit, for which no request is sent, if the group or the version is invalid.
func discoveryPath(gv schema.GroupVersion) string {
	path, err := apipath.GroupVersion(gv)
	if err != nil {
		return unfit
	}
	return path
}

// unfit replaces a path that would have led out of its resource.
const unfit = ""

// objectPath returns the escaped path of an object in a collection, or unfit if the name is invalid.
func objectPath(collection, name string) string {
	path, err := apipath.Join(collection, name)
	if err != nil {
		return unfit
	}
	return (&url.URL{Path: path}).EscapedPath()
}

// document contains the fields that are read of a discovery document: that of a group-version, or one that lists
// group-versions.
type document struct {
	Resources bounded.List[listing] `json:"resources"`
	Versions  bounded.List[string]  `json:"versions"`
	Groups    bounded.List[struct {
		Name     string `json:"name"`
		Versions bounded.List[struct {
			Version string `json:"version"`
		}] `json:"versions"`
	}] `json:"groups"`
}

// listing is one resource in the document of a group-version.
type listing struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Hash  string `json:"storageVersionHash"`
	Verbs verbs  `json:"verbs"`
}

// stored reports whether there may be stored objects: the server shows their hash, or lists and writes them.
func (l listing) stored() bool { return l.Hash != "" || l.Verbs.listed && l.Verbs.written }

// verbs says whether objects can be listed, and whether they can be written again. A resource that allows neither is
// not stored, or it is unknown whether it is stored.
type verbs struct{ listed, written bool }

// UnmarshalJSON reads a list of verbs.
func (v *verbs) UnmarshalJSON(raw []byte) error {
	text := string(raw)
	v.listed = strings.Contains(text, `"list"`)
	v.written = strings.Contains(text, `"update"`) || strings.Contains(text, `"patch"`)
	return nil
}

// parseDocument parses a server's answer, or judges its error. A server that does not know the group-version has
// answered, too: it serves none of its resources.
func parseDocument(body []byte, err error) (document, error) {
	if statusOf(err) == http.StatusNotFound {
		return document{}, nil
	}
	if err != nil {
		return document{}, err
	}
	var doc document
	if err := json.Unmarshal(body, &doc); err != nil {
		return document{}, fmt.Errorf("decode discovery document: %w", err)
	}
	kept := doc.Resources[:0]
	for _, r := range doc.Resources {
		is, err := apipath.Resource(r.Name, r.stored())
		if err != nil {
			return document{}, fmt.Errorf("%w: discovery document: %w", migrate.ErrUntrustedAnswer, err)
		}
		if is {
			kept = append(kept, r)
		}
	}
	doc.Resources = kept
	return doc, nil
}

// find returns the document's entry of a resource.
func (d document) find(resource string) (listing, bool) {
	for _, r := range d.Resources {
		if r.Name == resource {
			return r, true
		}
	}
	return listing{}, false
}

// groupVersions returns the group-versions that the document lists.
func (d document) groupVersions() []schema.GroupVersion {
	var list []schema.GroupVersion
	for _, v := range d.Versions {
		list = append(list, schema.GroupVersion{Version: v})
	}
	for _, g := range d.Groups {
		for _, v := range g.Versions {
			list = append(list, schema.GroupVersion{Group: g.Name, Version: v.Version})
		}
	}
	return list
}
