// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
)

// Answer says whether a resource needs to be migrated.
type Answer string

// The answers.
const (
	// Needed: old versions are claimed to be stored.
	Needed Answer = "yes"
	// NotNeeded: nothing old is stored, or nothing at all.
	NotNeeded Answer = "no"
	// Undetermined: nothing in the cluster records what is stored.
	Undetermined Answer = "unknown"
)

// Need is an answer and its reason, for people.
type Need struct {
	Answer Answer
	Why    string
}

// Need decides whether the resource needs to be migrated; objects is nil where they could not be counted. It is pure.
//
// Only a CRD's storedVersions record what is stored: the API server adds a version before the first object is
// written in it. For other resources nothing does, and that one version is served proves nothing either: another
// one may have been stored long after it was served last.
func (r Resource) Need(objects *Objects) Need {
	stale := r.Stale()
	empty := objects != nil && objects.Count == 0
	switch {
	case r.Problem != nil && len(stale) > 0:
		return Need{Needed, claim(stale) + "; but cannot: " + r.Problem.Message}
	case r.Problem != nil && r.Problem.Reason == NotPersisted:
		return Need{NotNeeded, r.Problem.Message}
	case r.Problem != nil && r.CRD != nil && len(r.CRD.StoredVersions) > 0:
		return Need{NotNeeded, "cannot: " + r.Problem.Message}
	case r.Problem != nil:
		return Need{Undetermined, "cannot: " + r.Problem.Message}
	case len(stale) > 0 && empty:
		return Need{Needed, claim(stale) + ", though there are no objects"}
	case len(stale) > 0:
		return Need{Needed, claim(stale)}
	case r.CRD != nil && len(r.CRD.StoredVersions) == 0:
		return Need{Undetermined, "its CustomResourceDefinition claims no stored version yet"}
	case r.CRD != nil:
		return Need{NotNeeded, "stored versions claim " + r.CRD.StorageVersion + " only"}
	case empty:
		return Need{NotNeeded, "there are no objects"}
	}
	return Need{Undetermined, "nothing records what is stored; audit reads it from etcd, and migrate makes it current"}
}

func claim(stale []string) string {
	return "stored versions claim " + strings.Join(stale, ", ") + " too"
}

// NoObject is a name that no object is expected to have. A list of it alone (metadata.name as a field selector) tells
// how far a collection has come to an account that may list this name, and no other: it can read no object with that.
const NoObject = "kube-migrator-no-object"

// maxCountBytes bounds the page that Count reads. A server that ignores the limit of one object answers with all of
// them.
const maxCountBytes = 4 << 20

// Objects is how many objects a resource has.
type Objects struct {
	Count int64
	// Estimated: the API server says how many follow the first, without a promise to be exact.
	Estimated bool
}

// Count asks how many objects a resource has, with one request that reads the metadata of at most one of them (I9).
// Errors are those of the API server. It makes sense only where Problem is nil.
func Count(ctx context.Context, client rest.Interface, r Resource) (Objects, error) {
	ctx, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	path, err := apipath.Collection(r.WithVersion(r.Endpoint), "")
	if err != nil {
		return Objects{}, fmt.Errorf("count %s: %w", r.GroupResource, err)
	}
	raw, err := bounded.Read(bounded.WithLimit(ctx, maxCountBytes),
		client.Get().AbsPath(path).Param("limit", "1").MaxRetries(documentRetries).
			SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"))
	if err != nil {
		return Objects{}, err
	}
	var list struct {
		Metadata struct {
			Continue           string `json:"continue"`
			RemainingItemCount *int64 `json:"remainingItemCount"`
		} `json:"metadata"`
		Items []struct{} `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return Objects{}, fmt.Errorf("decode list of %s: %w", r.GroupResource, err)
	}
	n := Objects{Count: int64(len(list.Items))}
	switch {
	case list.Metadata.RemainingItemCount != nil:
		n.Count += *list.Metadata.RemainingItemCount
		n.Estimated = true
	case list.Metadata.Continue != "":
		return Objects{}, fmt.Errorf("count %s: its API server does not say how many there are", r.GroupResource)
	}
	return n, nil
}
