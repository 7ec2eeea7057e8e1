// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"
)

// InstallCRDs creates the CustomResourceDefinitions of a file system, one in each YAML file wherever it lies,
// and waits until every running server serves them.
func (c *Cluster) InstallCRDs(ctx context.Context, files fs.FS) error {
	return fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".yaml" {
			return err
		}
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if err := c.installCRD(ctx, raw); err != nil {
			return fmt.Errorf("install %s: %w", name, err)
		}
		return nil
	})
}

func (c *Cluster) installCRD(ctx context.Context, raw []byte) error {
	body, err := yaml.YAMLToJSON(raw)
	if err != nil {
		return err
	}
	var crd struct {
		Spec struct {
			Group    string
			Names    struct{ Plural string }
			Versions []struct {
				Name   string
				Served bool
			}
		}
	}
	if err := json.Unmarshal(body, &crd); err != nil {
		return err
	}
	if _, err := c.request(ctx, http.MethodPost, crdsPath, body); err != nil {
		return err
	}
	spec := crd.Spec
	for _, version := range spec.Versions {
		if !version.Served {
			continue
		}
		resource := "/apis/" + spec.Group + "/" + version.Name + "/" + spec.Names.Plural
		if err := c.everywhere(ctx, resource+"?limit=1", func([]byte) bool { return true }); err != nil {
			return err
		}
	}
	return nil
}

// DefineThings creates n CustomResourceDefinitions, each with a group of its own, whose schemas are as large as is
// said.
func (c *Cluster) DefineThings(ctx context.Context, n, schemaBytes int) error {
	const inFlight = 4
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.SetLimit(inFlight)
	for i := range n {
		tasks.Go(func() error {
			group := fmt.Sprintf("g%03d.example.com", i)
			schema := map[string]any{"type": "object", "description": strings.Repeat("x", schemaBytes)}
			body, err := json.Marshal(map[string]any{
				"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
				"metadata": map[string]any{"name": "things." + group},
				"spec": map[string]any{
					"group": group, "scope": "Namespaced", "names": map[string]any{"plural": "things",
						"singular": "thing", "kind": "Thing", "listKind": "ThingList"},
					"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
						"schema": map[string]any{"openAPIV3Schema": schema}}},
				},
			})
			if err != nil {
				return err
			}
			if _, err := c.request(ctx, http.MethodPost, crdsPath, body); err != nil {
				return fmt.Errorf("create CRD %d: %w", i, err)
			}
			return nil
		})
	}
	return tasks.Wait()
}
