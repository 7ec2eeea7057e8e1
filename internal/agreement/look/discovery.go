// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/apipath"
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

// parseDocument parses a server's answer, or judges its error. A server that does not know the group-version has
// answered, too: it serves none of its resources.
func parseDocument(body []byte, err error) (snapshot.Document, error) {
	if statusOf(err) == http.StatusNotFound {
		return snapshot.Document{}, nil
	}
	if err != nil {
		return snapshot.Document{}, err
	}
	var doc snapshot.Document
	if err := json.Unmarshal(body, &doc); err != nil {
		return snapshot.Document{}, fmt.Errorf("decode discovery document: %w", err)
	}
	kept := doc.Resources[:0]
	for _, r := range doc.Resources {
		is, err := apipath.Resource(r.Name, r.Stored())
		if err != nil {
			return snapshot.Document{}, fmt.Errorf("%w: discovery document: %w", migrate.ErrUntrustedAnswer, err)
		}
		if is {
			kept = append(kept, r)
		}
	}
	doc.Resources = kept
	return doc, nil
}
