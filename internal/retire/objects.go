// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package retire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/migrate"
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
}

func (o Objects) resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: o.CRD.Spec.Group, Version: o.Endpoint,
		Resource: o.CRD.Spec.Names.Plural}
}

func (o Objects) path(m *metav1.ObjectMeta) (string, error) {
	return apipath.Object(o.resource(), m.Namespace, m.Name)
}

// ErrUnreadable wraps the error of an API server that cannot list the objects because of what is stored: 500. An API
// server that does not answer, is not ready, or is too slow shows nothing about what is stored.
var ErrUnreadable = errors.New("the objects cannot be listed")

// Look counts the objects, and finds the owners of fields in a version. It reads every page, so a single object that
// the API server cannot read is enough for ErrUnreadable.
func (o Objects) Look(ctx context.Context, version string) (count int64, owners Owners, err error) {
	apiVersion := o.CRD.Spec.Group + "/" + version
	managers := map[Manager]int64{}
	err = o.Each(ctx, func(items []metav1.PartialObjectMetadata) error {
		for i := range items {
			count++
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
				owners.Objects++
			}
		}
		return nil
	})
	for _, m := range slices.Collect(maps.Keys(managers)) {
		n := managers[m]
		m.Objects = n
		owners.Managers = append(owners.Managers, m)
	}
	slices.SortFunc(owners.Managers, func(a, b Manager) int {
		return cmp.Or(cmp.Compare(b.Objects, a.Objects), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Operation, b.Operation))
	})
	return count, owners, err
}

// Each calls f with every page. If a continue token has expired, the list continues with the new token in the answer.
// If there is none, it starts over, so f may get an object twice.
func (o Objects) Each(ctx context.Context, f func([]metav1.PartialObjectMetadata) error) error {
	path, err := apipath.Collection(o.resource(), "")
	if err != nil {
		return fmt.Errorf("list %s: %w", o.CRD.Metadata.Name, err)
	}
	var pages bounded.Pages
	expirations := 0
	for token := ""; ; {
		var list metav1.PartialObjectMetadataList
		err := patiently(ctx, func() error {
			list = metav1.PartialObjectMetadataList{}
			return get(ctx, o.Client.Get().AbsPath(path).
				Param("limit", strconv.Itoa(pageSize)).Param("continue", token), "PartialObjectMetadataList", &list)
		})
		var status apierrors.APIStatus
		switch {
		case errors.As(err, &status) && status.Status().Code == http.StatusGone:
			token = status.Status().Continue
			if expirations++; expirations > maxExpirations {
				return fmt.Errorf("list %s: its continue tokens expired %d times: %w",
					o.CRD.Metadata.Name, expirations, err)
			}
			if token == "" {
				pages = bounded.Pages{}
			}
			continue
		case errors.As(err, &status) && status.Status().Code == http.StatusInternalServerError:
			return fmt.Errorf("%w: %w", ErrUnreadable, err)
		case err != nil:
			return fmt.Errorf("list %s: %w", o.CRD.Metadata.Name, err)
		}
		if err := f(list.Items); err != nil {
			return err
		}
		token = list.Continue
		err = pages.Next(token, func(yield func(string) bool) {
			for i := range list.Items {
				if !yield(key(&list.Items[i].ObjectMeta) + "\x00" + string(list.Items[i].UID)) {
					return
				}
			}
		})
		if err != nil {
			return fmt.Errorf("list %s: %w", o.CRD.Metadata.Name, err)
		}
		if token == "" {
			return nil
		}
	}
}

// read returns the current metadata of an object.
func (o Objects) read(ctx context.Context, m *metav1.ObjectMeta) (*metav1.ObjectMeta, error) {
	path, err := o.path(m)
	if err != nil {
		return nil, err
	}
	var object metav1.PartialObjectMetadata
	err = patiently(ctx, func() error {
		object = metav1.PartialObjectMetadata{}
		return get(ctx, o.Client.Get().AbsPath(path), "PartialObjectMetadata", &object)
	})
	if err == nil && (object.Name != m.Name || object.Namespace != m.Namespace) {
		return nil, fmt.Errorf("%w: it was asked for %s and answered about %q", migrate.ErrUntrustedAnswer, key(m),
			key(&object.ObjectMeta))
	}
	return &object.ObjectMeta, err
}

func get(ctx context.Context, request *rest.Request, as string, into any) error {
	return apiserver.Send(ctx, request.SetHeader("Accept", "application/json;as="+as+";g=meta.k8s.io;v=v1"), into)
}

// patiently repeats a request that fails for a temporary reason: no answer, load, an API server that is just starting.
// After a 500 it repeats the request only a few times, because the API server also answers 500 for an object that it
// cannot read.
func patiently(ctx context.Context, f func() error) error {
	const fewTimes = 3
	deadline := time.Now().Add(transient)
	for failures, delay := 0, 100*time.Millisecond; ; delay = min(2*delay, 5*time.Second) {
		err := f()
		if err == nil || ctx.Err() != nil {
			return err
		}
		var status apierrors.APIStatus
		if errors.As(err, &status) {
			switch code := status.Status().Code; {
			case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable,
				code == http.StatusGatewayTimeout:
				if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
					delay = max(delay, time.Duration(seconds)*time.Second)
				}
			case code >= http.StatusInternalServerError && failures < fewTimes:
				failures++
			default:
				return err
			}
		}
		if time.Now().Add(delay).After(deadline) {
			return err
		}
		if ended := pace.Sleep(ctx, delay); ended != nil {
			return ended
		}
	}
}
