// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"encoding/json"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// Document contains the fields that are read of a discovery document: that of a group-version, or one that lists
// group-versions.
type Document struct {
	Resources bounded.List[Listing] `json:"resources"`
	Versions  bounded.List[string]  `json:"versions"`
	Groups    bounded.List[struct {
		Name     string `json:"name"`
		Versions bounded.List[struct {
			Version string `json:"version"`
		}] `json:"versions"`
	}] `json:"groups"`
}

// Listing is one resource in the document of a group-version.
type Listing struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Hash  string `json:"storageVersionHash"`
	Verbs Verbs  `json:"verbs"`
}

// Stored reports whether there may be stored objects: the server shows their hash, or lists and writes them.
func (l Listing) Stored() bool { return l.Hash != "" || l.Verbs.Listed && l.Verbs.Written }

// Verbs says whether objects can be listed, and whether they can be written again. A resource that allows neither is
// not stored, or it is unknown whether it is stored.
type Verbs struct{ Listed, Written bool }

// MarshalJSON writes what UnmarshalJSON reads.
func (v Verbs) MarshalJSON() ([]byte, error) {
	list := []string{}
	if v.Listed {
		list = append(list, "list")
	}
	if v.Written {
		list = append(list, "update")
	}
	return json.Marshal(list)
}

// UnmarshalJSON reads a list of verbs.
func (v *Verbs) UnmarshalJSON(raw []byte) error {
	text := string(raw)
	v.Listed = strings.Contains(text, `"list"`)
	v.Written = strings.Contains(text, `"update"`) || strings.Contains(text, `"patch"`)
	return nil
}

// Find returns the document's entry of a resource.
func (d Document) Find(resource string) (Listing, bool) {
	for _, r := range d.Resources {
		if r.Name == resource {
			return r, true
		}
	}
	return Listing{}, false
}

// GroupVersions returns the group-versions that the document lists.
func (d Document) GroupVersions() []schema.GroupVersion {
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

// Survey is what one source found out from one document.
type Survey struct {
	Answers []Answer
	// Evidence is the strength of the answers if they agree; 0 means that they are no evidence.
	Evidence migrate.Evidence
	// RestartsSeen means that every server that answered shows that it was restarted: by a new identity Lease, or by when
	// its process started.
	RestartsSeen bool
	// Shared means that each server was asked over a connection of its own to one address.
	Shared bool `json:",omitempty"`
	// How says in a few words how the servers were asked; Why says why the evidence is not stronger.
	How, Why string
}

// Answer is the document of one server, or of one connection to an unknown server.
type Answer struct {
	// Server is the name of the server for people.
	Server string
	// Address is host:port if the server was asked at its own address, else "".
	Address string
	// Anonymous means that the answer came from one of the servers behind a shared address.
	Anonymous bool
	// Started is when the process started that answered, by its own clock. It is zero if that is unknown, and for releases
	// whose identity Leases show that a process was replaced.
	Started  time.Time `json:",omitzero"`
	Document Document
}
