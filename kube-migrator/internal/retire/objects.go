// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package retire

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
)

const (
	// pageSize bounds a page: managedFields make metadata large, and only one page of a resource is in memory (I6).
	pageSize = 100
	// maxExpirations bounds how often the continue tokens of one list may expire.
	maxExpirations = 1000
	// transient bounds how long one request is repeated while the API server does not answer, or refuses it because of
	// load.
	transient = 2 * time.Minute
)

// Objects are the objects of a CRD, read at one served version.
type Objects struct {
	Client rest.Interface
	CRD    *crd.CRD
	// Endpoint is the served version.
	Endpoint string
	// Schemas are those of the CRD, and Accepted the fields that may be lost. Without schemas, no losses are found.
	Schemas  *pruning.CRD
	Accepted []string
}

func (o Objects) collection() collection {
	return collection{client: o.Client, resource: schema.GroupVersionResource{Group: o.CRD.Spec.Group,
		Version: o.Endpoint, Resource: o.CRD.Spec.Names.Plural}}
}

// ErrUnreadable wraps the error of an API server that cannot list the objects because of what is stored: 500. An API
// server that does not answer, is not ready, or is too slow shows nothing about what is stored.
var ErrUnreadable = errors.New("the objects cannot be listed")

// storageError is what an API server says of the first object that it cannot read, around the cause.
var storageError = regexp.MustCompile(`(?s)^.*Key: ([^,]+), ResourceVersion: \d+, AdditionalErrorMsg: ` +
	`(?:(?:object|data from the storage is) not \w+[^:]*: )?(.*)$`)

// causeFirst returns the message with the cause and then the object, and without what surrounds them.
func causeFirst(message string) string {
	if m := storageError.FindStringSubmatch(message); m != nil {
		return m[2] + ", at " + m[1]
	}
	return message
}

// Found is what a look at all objects shows.
type Found struct {
	Objects int64
	Owners  Owners
	Losses  Losses
}

// Look counts the objects, and finds the owners of fields in a version, and the objects that would lose fields. It reads
// every page, so a single object that the API server cannot read is enough for ErrUnreadable.
func (o Objects) Look(ctx context.Context, version string) (found Found, err error) {
	var rule *pruning.Rule
	if o.Schemas != nil {
		rule = pruning.NewRule(o.Schemas, o.Schemas.Endpoint(o.Endpoint), nil)
	}
	apiVersion := o.CRD.Spec.Group + "/" + version
	managers := map[Manager]int64{}
	err = o.Each(ctx, func(items []metav1.PartialObjectMetadata) error {
		for i := range items {
			found.Objects++
			if rule != nil {
				found.Losses.add(&items[i].ObjectMeta, rule.Lost(items[i].ManagedFields), o.Accepted)
			}
			seen := map[Manager]bool{}
			for _, e := range items[i].ManagedFields {
				if e.APIVersion == apiVersion {
					seen[Manager{Name: e.Manager, Operation: string(e.Operation)}] = true
				}
			}
			for m := range seen {
				managers[m]++
			}
			if len(seen) > 0 {
				found.Owners.Objects++
			}
		}
		return nil
	})
	owners := &found.Owners
	for _, m := range slices.Collect(maps.Keys(managers)) {
		n := managers[m]
		m.Objects = n
		owners.Managers = append(owners.Managers, m)
	}
	slices.SortFunc(owners.Managers, func(a, b Manager) int {
		return cmp.Or(cmp.Compare(b.Objects, a.Objects), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Operation, b.Operation))
	})
	return found, err
}

// Each calls f with every page. If a continue token has expired, the list continues with the new token in the answer.
// If there is none, it starts over, so f may get an object twice.
func (o Objects) Each(ctx context.Context, f func([]metav1.PartialObjectMetadata) error) error {
	return o.collection().each(ctx, f)
}
