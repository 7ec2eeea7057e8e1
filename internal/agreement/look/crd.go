// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const (
	crdsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
	// metadataPage is how many CRDs' metadata one list request reads.
	metadataPage = 100
	// readSingly is how many changed CRDs are read one by one at most, before all of them are listed.
	readSingly = 10
)

// crds reads CRDs. The API server sends a CRD with all its schemas, which may be a megabyte, so a CRD is read
// again only when its generation, which counts every change of its spec, has changed. A look reads only its metadata.
type crds struct {
	client *client
	full   rest.Interface

	mu    sync.Mutex
	known map[string]*crd.CRD // by name; replaced by a round, added to by a look
	// listed means that known once contained every CRD.
	listed bool
}

// read returns the CRD as it is now. The value is not changed later.
func (d *crds) read(ctx context.Context, target migrate.Target) (*crd.CRD, error) {
	name := crd.Name(target.GroupResource())
	custom, err := d.readNamed(ctx, name)
	if statusOf(err) == http.StatusNotFound {
		return nil, fmt.Errorf("no CustomResourceDefinition %s: %w", name, snapshot.ErrNotServed)
	}
	if err != nil {
		return nil, fmt.Errorf("get CustomResourceDefinition %s: %w", name, err)
	}
	return custom, nil
}

func (d *crds) readNamed(ctx context.Context, name string) (*crd.CRD, error) {
	d.mu.Lock()
	known := d.known[name]
	d.mu.Unlock()
	if known != nil {
		body, err := d.client.getMetadata(ctx, objectPath(strings.TrimSuffix(crdsPath, "/"), name))
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
	custom, err := crd.Get(ctx, d.full, name)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known[name] = custom
	return custom, nil
}

// all returns every CRD as it is now, by resource. The first time it lists the complete CRDs, page by page; later it
// lists their metadata, and reads only the CRDs with another resourceVersion. The result is not changed later.
func (d *crds) all(ctx context.Context) (map[schema.GroupResource]*crd.CRD, error) {
	d.mu.Lock()
	known := d.known
	listed := d.listed
	d.mu.Unlock()
	now, changed := map[string]*crd.CRD{}, 0
	if listed {
		err := d.eachMetadata(ctx, func(m crdMetadata) {
			now[m.Name] = nil
			d.mu.Lock()
			defer d.mu.Unlock()
			if same := known[m.Name]; same != nil && same.Metadata.UID == m.UID &&
				same.Metadata.ResourceVersion == m.ResourceVersion {
				now[m.Name] = same
			} else {
				changed++
			}
		})
		if err != nil {
			return nil, err
		}
	}
	if err := d.fill(ctx, now, !listed || changed > readSingly); err != nil {
		return nil, err
	}
	found := make(map[schema.GroupResource]*crd.CRD, len(now))
	for _, crd := range now {
		found[schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}] = crd
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known, d.listed = now, true
	return found, nil
}

// fill reads the missing CRDs, or all of them.
func (d *crds) fill(ctx context.Context, now map[string]*crd.CRD, all bool) error {
	if all {
		clear(now)
		err := crd.Each(ctx, d.full, func(d *crd.CRD) { now[d.Metadata.Name] = compact(d) })
		if apierrors.IsNotFound(err) { // an API server without custom resources
			return nil
		}
		return err
	}
	for name, custom := range now {
		if custom != nil {
			continue
		}
		custom, err := crd.Get(ctx, d.full, name)
		switch {
		case apierrors.IsNotFound(err):
			delete(now, name)
		case err != nil:
			return fmt.Errorf("get CustomResourceDefinition %s: %w", name, err)
		default:
			now[name] = compact(custom)
		}
	}
	return nil
}

// crdMetadata identifies one state of a CRD.
type crdMetadata struct {
	Name            string    `json:"name"`
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion"`
}

// eachMetadata calls f for every CRD.
func (d *crds) eachMetadata(ctx context.Context, f func(crdMetadata)) error {
	var pages bounded.Pages
	for token := ""; ; {
		var err error
		var names []string
		token, err = d.metadata(ctx, token, func(m crdMetadata) {
			names = append(names, m.Name)
			f(m)
		})
		if err == nil {
			err = pages.Next(token, slices.Values(names))
		}
		if err != nil {
			return fmt.Errorf("list metadata of CustomResourceDefinitions: %w", err)
		}
		if token == "" {
			return nil
		}
	}
}

// metadata reads one page. Annotations may make it large, so it is decoded while it arrives.
func (d *crds) metadata(ctx context.Context, token string, f func(crdMetadata)) (next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.client.timeout)
	defer cancel()
	body, err := d.full.Get().AbsPath(crdsPath).SetHeader("Accept", metadataListJSON).
		Param("limit", strconv.Itoa(metadataPage)).Param("continue", token).Stream(ctx)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer body.Close()
	var list struct {
		Metadata metav1.ListMeta `json:"metadata"`
		Items    []struct {
			Metadata crdMetadata `json:"metadata"`
		} `json:"items"`
	}
	if err := json.NewDecoder(body).Decode(&list); err != nil {
		return "", fmt.Errorf("decode: %w", err)
	}
	for _, item := range list.Items {
		f(item.Metadata)
	}
	return list.Metadata.Continue, nil
}

// compact removes what field managers own apart from the versions: it takes more memory than the rest.
func compact(d *crd.CRD) *crd.CRD {
	for i := range d.Metadata.ManagedFields {
		m := &d.Metadata.ManagedFields[i]
		switch {
		case m.FieldsV1 == nil:
		case strings.Contains(pruning.FieldsOf(m.FieldsV1), `"f:versions"`):
			m.FieldsV1 = pruning.NewFields(`{"f:versions":{}}`)
		default:
			m.FieldsV1 = pruning.NewFields(`{}`)
		}
	}
	return d
}
