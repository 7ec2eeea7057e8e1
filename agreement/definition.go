// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"

// definitions reads CustomResourceDefinitions. The API server sends one with all its schemas, which may be a megabyte, so it
// is read again only when its generation, which counts every change of its spec, has moved; a look reads its metadata.
type definitions struct {
	client *client
	full   rest.Interface

	mu    sync.Mutex
	known map[string]*crd.Definition // by name
}

// read returns the definition as it is now. What it returns is not changed later.
func (d *definitions) read(ctx context.Context, target migrate.Target) (*crd.Definition, error) {
	name := crd.Name(target.GroupResource())
	definition, err := d.readNamed(ctx, name)
	if statusOf(err) == http.StatusNotFound {
		return nil, fmt.Errorf("no CustomResourceDefinition %s: %w", name, ErrNotServed)
	}
	if err != nil {
		return nil, fmt.Errorf("get CustomResourceDefinition %s: %w", name, err)
	}
	return definition, nil
}

func (d *definitions) readNamed(ctx context.Context, name string) (*crd.Definition, error) {
	d.mu.Lock()
	known := d.known[name]
	d.mu.Unlock()
	if known != nil {
		body, err := d.client.getMetadata(ctx, definitionsPath+name)
		if err != nil {
			return nil, err
		}
		var now metav1.PartialObjectMetadata
		if err := json.Unmarshal(body, &now); err != nil {
			return nil, fmt.Errorf("decode metadata: %w", err)
		}
		if now.UID == known.Metadata.UID && now.Generation == known.Metadata.Generation {
			same := *known
			same.Metadata.ResourceVersion, same.Metadata.ManagedFields = now.ResourceVersion, now.ManagedFields
			return &same, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, d.client.timeout)
	defer cancel()
	definition, err := crd.Get(ctx, d.full, name)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known[name] = definition
	return definition, nil
}
