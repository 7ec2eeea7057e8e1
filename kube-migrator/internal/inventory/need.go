// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/internal/discovery"
)

// Answer says whether a resource needs to be migrated.
type Answer string

// The answers.
const (
	// Needed means that old versions are recorded as stored.
	Needed Answer = "yes"
	// NotNeeded means that no old version is stored, or no object at all.
	NotNeeded Answer = "no"
	// Undetermined means that nothing in the cluster records what is stored.
	Undetermined Answer = "unknown"
)

// Need is an answer and its reason, for users.
type Need struct {
	Answer Answer
	Why    string
}

// Need decides whether the resource needs to be migrated. objects is nil if they could not be counted. It is pure.
//
// Only a CRD's storedVersions record what is stored: the API server adds a version before it writes the first object in
// that version. Other resources have no such record, and serving only one version proves nothing either: another
// version may have been stored long after it was last served.
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
	case r.CRD != nil && r.CRD.ClaimedBy != "":
		return Need{Undetermined, Claimed(r.CRD.ClaimedBy)}
	case r.CRD != nil:
		return Need{NotNeeded, "stored versions claim " + r.CRD.StorageVersion + " only"}
	case empty:
		return Need{NotNeeded, "there are no objects"}
	}
	return Need{Undetermined, "nothing records what is stored; audit reads it from etcd, and migrate makes it current"}
}

// Claimed says that another field manager than kube-migrator has written a CRD's storedVersions, for users.
func Claimed(manager string) string {
	return manager + " has written status.storedVersions, and no run of kube-migrator has proven what it says"
}

func claim(stale []string) string {
	return "stored versions claim " + strings.Join(stale, ", ") + " too"
}

// NoObject is a name that no object is expected to have. A list of only this name (metadata.name as a field selector)
// shows the position of a collection to an account that may list no other name, and that can read no object in this
// way.
const NoObject = "kube-migrator-no-object"

// maxCountBytes bounds the page that Count reads. A server that ignores the limit of one object answers with all
// objects.
const maxCountBytes = 4 << 20

// Objects is the number of objects of a resource.
type Objects struct {
	Count int64
	// Estimated means that the API server reported how many objects follow the first, which need not be exact.
	Estimated bool
}

// Count asks how many objects a resource has, with one request that reads the metadata of at most one of them (I9).
// Errors are those of the API server. It is meaningful only if Problem is nil.
func Count(ctx context.Context, client rest.Interface, r Resource) (Objects, error) {
	ctx, cancel := context.WithTimeout(ctx, discovery.Timeout)
	defer cancel()
	path, err := apipath.Collection(r.WithVersion(r.Endpoint), "")
	if err != nil {
		return Objects{}, fmt.Errorf("count %s: %w", r.GroupResource, err)
	}
	var list struct {
		Metadata struct {
			Continue           string `json:"continue"`
			RemainingItemCount *int64 `json:"remainingItemCount"`
		} `json:"metadata"`
		Items []struct{} `json:"items"`
	}
	err = apiserver.Send(bounded.WithLimit(ctx, maxCountBytes),
		client.Get().AbsPath(path).Param("limit", "1").MaxRetries(discovery.Retries).
			SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"), &list)
	if err != nil {
		return Objects{}, err
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
