// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package retire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// collection reads and writes the metadata of the objects of one resource, and nothing else of them (I9).
type collection struct {
	client   rest.Interface
	resource schema.GroupVersionResource
	// keeps refuses writes that would drop fields. It is nil for a collection that is only read.
	keeps *keeper
}

func (c collection) String() string { return c.resource.GroupResource().String() }

func (c collection) path(m *metav1.ObjectMeta) (string, error) {
	return apipath.Object(c.resource, m.Namespace, m.Name)
}

// each calls f with every page. If a continue token has expired, the list continues with the new token in the answer.
// If there is none, it starts over, so f may get an object twice.
func (c collection) each(ctx context.Context, f func([]metav1.PartialObjectMetadata) error) error {
	path, err := apipath.Collection(c.resource, "")
	if err != nil {
		return fmt.Errorf("list %s: %w", c, err)
	}
	var pages bounded.Pages
	expirations := 0
	for token := ""; ; {
		var list metav1.PartialObjectMetadataList
		err := patiently(ctx, func() error {
			list = metav1.PartialObjectMetadataList{}
			return get(ctx, c.client.Get().AbsPath(path).
				Param("limit", strconv.Itoa(pageSize)).Param("continue", token), "PartialObjectMetadataList", &list)
		})
		var status apierrors.APIStatus
		switch {
		case errors.As(err, &status) && status.Status().Code == http.StatusGone:
			token = status.Status().Continue
			if expirations++; expirations > maxExpirations {
				return fmt.Errorf("list %s: its continue tokens expired %d times: %w",
					c, expirations, err)
			}
			if token == "" {
				pages = bounded.Pages{}
			}
			continue
		case errors.As(err, &status) && status.Status().Code == http.StatusInternalServerError:
			return fmt.Errorf("%w: %s", ErrUnreadable, causeFirst(err.Error()))
		case err != nil:
			return fmt.Errorf("list %s: %w", c, err)
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
			return fmt.Errorf("list %s: %w", c, err)
		}
		if token == "" {
			return nil
		}
	}
}

// read returns the current metadata of an object.
func (c collection) read(ctx context.Context, m *metav1.ObjectMeta) (*metav1.ObjectMeta, error) {
	path, err := c.path(m)
	if err != nil {
		return nil, err
	}
	var object metav1.PartialObjectMetadata
	err = patiently(ctx, func() error {
		object = metav1.PartialObjectMetadata{}
		return get(ctx, c.client.Get().AbsPath(path), "PartialObjectMetadata", &object)
	})
	if err == nil && (object.Name != m.Name || object.Namespace != m.Namespace) {
		return nil, fmt.Errorf("%w: it was asked for %s and answered about %s", migrate.ErrUntrustedAnswer, key(m),
			key(&object.ObjectMeta))
	}
	return &object.ObjectMeta, err
}

// patch writes fields of an object's metadata, and returns its new metadata. The uid and the resourceVersion are the
// preconditions of the write: if another client has written the object since it was read, the API server answers 409. An
// object that would lose a field is not written (I3).
func (c collection) patch(ctx context.Context, m *metav1.ObjectMeta,
	fields map[string]any) (*metav1.ObjectMeta, error) {
	if lost := c.keeps.lost(m); len(lost) > 0 {
		return nil, &pruning.LossError{Fields: lost}
	}
	fields["uid"], fields["resourceVersion"] = m.UID, m.ResourceVersion
	body, err := json.Marshal(map[string]any{"metadata": fields})
	if err != nil {
		return nil, err
	}
	path, err := c.path(m)
	if err != nil {
		return nil, err
	}
	var object metav1.PartialObjectMetadata
	err = apiserver.Send(ctx, c.client.Patch(types.MergePatchType).AbsPath(path).
		Param("fieldManager", fieldManager).Param("fieldValidation", metav1.FieldValidationIgnore).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").Body(body), &object)
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
