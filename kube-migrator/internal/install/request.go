// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/pace"
)

const (
	anyJSON      = "application/json"
	metadataJSON = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// TimeoutError reports that something did not happen in time.
type TimeoutError struct {
	// What was waited for, and State is how far it came.
	What, State string
	After       time.Duration
}

func (e *TimeoutError) Error() string {
	text := fmt.Sprintf("not within %v: %s", e.After, e.What)
	if e.State != "" {
		text += "; at last: " + e.State
	}
	return text
}

// read returns an object, or nil if it does not exist.
func read(ctx context.Context, client rest.Interface, k kind, namespace,
	name string) (*unstructured.Unstructured, error) {
	path, err := k.path(namespace, name)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", k.Kind, err)
	}
	o := &unstructured.Unstructured{}
	err = apiserver.Send(ctx, client.Get().AbsPath(path), &o.Object)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get %s %s: %w", k.Kind, name, err)
	}
	return o, nil
}

// list decodes a collection into a list type. A collection that the API server does not serve is empty. fields and
// labels are selectors.
func list(ctx context.Context, client rest.Interface, k kind, namespace, labels, fields string, into any) error {
	return listAs(ctx, client, k, namespace, labels, fields, anyJSON, into)
}

// found returns the metadata of the objects that a selector matches.
func found(ctx context.Context, client rest.Interface, k kind, namespace,
	labels string) ([]metav1.PartialObjectMetadata, error) {
	var l metav1.PartialObjectMetadataList
	err := listAs(ctx, client, k, namespace, labels, "", metadataJSON, &l)
	return l.Items, err
}

func listAs(ctx context.Context, client rest.Interface, k kind, namespace, labels, fields,
	accept string, into any) error {
	path, err := k.path(namespace, "")
	if err != nil {
		return fmt.Errorf("list %s: %w", k.GroupResource(), err)
	}
	request := client.Get().AbsPath(path).SetHeader("Accept", accept)
	if labels != "" {
		request.Param("labelSelector", labels)
	}
	if fields != "" {
		request.Param("fieldSelector", fields)
	}
	if err := apiserver.Send(ctx, request, into); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("list %s: %w", k.GroupResource(), err)
	}
	return nil
}

// remove deletes an object; the garbage collector deletes its dependents in the background. It reports whether the
// object existed. An empty UID matches any object of that name. A negative grace stands for the object's own grace
// period.
func remove(ctx context.Context, client rest.Interface, k kind, namespace, name string, uid types.UID, grace int64,
	dryRun bool) (bool, error) {
	options := metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		PropagationPolicy: new(metav1.DeletePropagationBackground),
	}
	if uid != "" {
		options.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	if grace >= 0 {
		options.GracePeriodSeconds = &grace
	}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	path, err := k.path(namespace, name)
	if err != nil {
		return false, fmt.Errorf("delete %s: %w", k.Kind, err)
	}
	body, err := json.Marshal(options)
	if err != nil {
		return false, fmt.Errorf("delete %s %s: %w", k.Kind, name, err)
	}
	err = apiserver.Send(ctx, client.Delete().AbsPath(path).SetHeader("Content-Type", anyJSON).Body(body), nil)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err) && uid != "": // another object has the name now
		return false, nil
	case err != nil:
		return false, fmt.Errorf("delete %s %s: %w", k.Kind, name, err)
	}
	return true, nil
}

// pollEvery is the interval at which await polls.
const pollEvery = time.Second

// await polls until something has happened. state says how far it is, and progress receives each new state.
func await(
	ctx context.Context, timeout time.Duration, what string, progress func(string),
	look func(context.Context) (done bool, state string, err error),
) error {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	last := ""
	for {
		done, state, err := look(waiting)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		case waiting.Err() != nil:
			return &TimeoutError{What: what, State: last, After: timeout}
		case err != nil:
			return fmt.Errorf("wait for %s: %w", what, err)
		case done:
			return nil
		case state != last && progress != nil:
			progress(state)
		}
		last = state
		_ = pace.Sleep(waiting, pollEvery)
	}
}
