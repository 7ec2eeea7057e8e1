// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package retire

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/pace"
)

const (
	// pageSize bounds a page: managedFields make metadata large, and a page is all that is held of a resource (I6).
	pageSize = 100
	// transient bounds how long one request is repeated while the API server does not answer or refuses because of load.
	transient = 2 * time.Minute
)

// Objects are the objects of a definition, seen at one served version.
type Objects struct {
	Client     rest.Interface
	Definition *crd.Definition
	// Endpoint is the served version.
	Endpoint string
}

func (o Objects) root() string { return "/apis/" + o.Definition.Spec.Group + "/" + o.Endpoint }

func (o Objects) path(m *metav1.ObjectMeta) []string {
	path := []string{o.root()}
	if m.Namespace != "" {
		path = append(path, "namespaces", m.Namespace)
	}
	return append(path, o.Definition.Spec.Names.Plural, m.Name)
}

// ErrUnreadable wraps what an API server says of a list that it cannot give because of what it finds stored: 500. An API server that
// is not there, not ready or too slow says nothing about what is stored.
var ErrUnreadable = errors.New("the objects cannot be listed")

// Look counts the objects, and who owns fields of them in a version. It reads every page, so one object that the API server
// cannot read is enough for ErrUnreadable.
func (o Objects) Look(ctx context.Context, version string) (count int64, owners Owners, err error) {
	apiVersion := o.Definition.Spec.Group + "/" + version
	managers := map[Manager]int64{}
	err = o.each(ctx, func(items []metav1.PartialObjectMetadata) error {
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
		return cmp.Or(cmp.Compare(b.Objects, a.Objects), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Operation, b.Operation))
	})
	return count, owners, err
}

// each calls f with every page. A continue token that has expired comes with one that goes on from the same key; where it does not,
// the list begins anew, so f may see an object twice.
func (o Objects) each(ctx context.Context, f func([]metav1.PartialObjectMetadata) error) error {
	for token := ""; ; {
		var list metav1.PartialObjectMetadataList
		err := patiently(ctx, func() error {
			list = metav1.PartialObjectMetadataList{}
			return get(ctx, o.Client.Get().AbsPath(o.root(), o.Definition.Spec.Names.Plural).
				Param("limit", strconv.Itoa(pageSize)).Param("continue", token), "PartialObjectMetadataList", &list)
		})
		var status apierrors.APIStatus
		switch {
		case errors.As(err, &status) && status.Status().Code == http.StatusGone:
			token = status.Status().Continue
			continue
		case errors.As(err, &status) && status.Status().Code == http.StatusInternalServerError:
			return fmt.Errorf("%w: %w", ErrUnreadable, err)
		case err != nil:
			return fmt.Errorf("list %s: %w", o.Definition.Metadata.Name, err)
		}
		if err := f(list.Items); err != nil {
			return err
		}
		if token = list.Continue; token == "" {
			return nil
		}
	}
}

// read returns an object's metadata as it is now.
func (o Objects) read(ctx context.Context, m *metav1.ObjectMeta) (*metav1.ObjectMeta, error) {
	var object metav1.PartialObjectMetadata
	err := patiently(ctx, func() error {
		object = metav1.PartialObjectMetadata{}
		return get(ctx, o.Client.Get().AbsPath(o.path(m)...), "PartialObjectMetadata", &object)
	})
	return &object.ObjectMeta, err
}

func get(ctx context.Context, request *rest.Request, as string, into any) error {
	result := request.SetHeader("Accept", "application/json;as="+as+";g=meta.k8s.io;v=v1").Do(ctx)
	raw, err := result.Raw()
	if err != nil {
		return result.Error() // unlike err with what the API server said
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("decode %s: %w", as, err)
	}
	return nil
}

// patiently repeats what fails for reasons that pass: no answer, load, an API server that is just starting. An answer of 500 is
// repeated a few times only: it is also what an object is answered with that cannot be read.
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
			case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
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
