// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
)

// configMap is one ConfigMap on the API server.
type configMap struct {
	client    rest.Interface
	namespace string
	name      string
}

func (c configMap) path() (string, error) {
	return apipath.Object(corev1.SchemeGroupVersion.WithResource("configmaps"), c.namespace, c.name)
}

func (c configMap) get(ctx context.Context) (*corev1.ConfigMap, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	path, err := c.path()
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap: %w", err)
	}
	object := new(corev1.ConfigMap)
	err = apiserver.Send(ctx, c.client.Get().AbsPath(path).MaxRetries(0), object)
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", c.name, err)
	}
	return object, nil
}

// send writes the object under its resourceVersion, and stores the new one in it.
func (c configMap) send(ctx context.Context, next *corev1.ConfigMap) error {
	body, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("encode ConfigMap: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	path, err := c.path()
	if err != nil {
		return fmt.Errorf("write ConfigMap: %w", err)
	}
	var written metav1.PartialObjectMetadata
	err = apiserver.Send(ctx, c.client.Verb(http.MethodPut).AbsPath(path).Param("fieldManager", "kube-migrator").
		SetHeader("Content-Type", "application/json").
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").
		MaxRetries(0).Body(body), &written)
	if err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", next.Name, err)
	}
	next.ResourceVersion = written.ResourceVersion
	return nil
}

// isGone reports whether the error is a 404 about the object of that name.
func isGone(err error, name string) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) || apierrors.IsUnexpectedServerError(err) {
		return false
	}
	d := status.Status().Details
	return d != nil && d.Name == name
}
