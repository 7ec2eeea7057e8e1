// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"net/http"

	"golang.org/x/sync/errgroup"
)

// thingGroups is the suffix of the groups of all Things.
const thingGroups = "things.example.com"

// Things are many custom resources with a few objects each, whose storage versions have moved from v1 to v2.
type Things struct {
	// Resources are the objects of each resource; there are Count of each.
	Resources []*Objects
	Count     int
}

// NewThings defines custom resources, ten to a group.
func (l *Lab) NewThings(ctx context.Context, resources, count int) (*Things, error) {
	t := &Things{Resources: make([]*Objects, resources), Count: count}
	return t, t.each(ctx, func(ctx context.Context, i int) (err error) {
		k := thing(i)
		if _, err := l.Send(ctx, http.MethodPost, CRDs, k.definition()); err != nil {
			return fmt.Errorf("create CRD: %w", err)
		}
		t.Resources[i], err = l.NewObjects(ctx, k, 1<<10)
		return err
	})
}

// Pattern matches the full names of all of them, and of no other resource.
func (t *Things) Pattern() string { return "*." + thingGroups }

// MakeOld stores all objects in their old form, one resource after the other, as Objects.MakeOld does.
func (t *Things) MakeOld(ctx context.Context) (revision int64, err error) {
	for _, o := range t.Resources {
		if revision, err = o.MakeOld(ctx, t.Count); err != nil {
			return 0, err
		}
	}
	return revision, nil
}

// Migrated is an error unless every object is stored in the current form and was written after a revision.
func (t *Things) Migrated(ctx context.Context, after int64) error {
	for _, o := range t.Resources {
		progress, err := o.Since(ctx, after)
		if err != nil {
			return err
		}
		if progress.Stored != t.Count {
			return fmt.Errorf("%s: stored again: %d of %d objects", o.FullName(), progress.Stored, t.Count)
		}
	}
	return nil
}

// each calls f for every resource, a few at a time.
func (t *Things) each(ctx context.Context, f func(ctx context.Context, i int) error) error {
	const inFlight = 4
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.SetLimit(inFlight)
	for i := range t.Resources {
		tasks.Go(func() error {
			if err := f(ctx, i); err != nil {
				return fmt.Errorf("resource %d: %w", i, err)
			}
			return nil
		})
	}
	return tasks.Wait()
}

func thing(i int) Kind {
	group, plural := fmt.Sprintf("g%02d.%s", i/10, thingGroups), fmt.Sprintf("thing%03ds", i)
	return Kind{
		Name: "custom resource", Group: group, Version: "v2", OldVersion: "v1", Plural: plural,
		Kind: fmt.Sprintf("Thing%03d", i), CRD: plural + "." + group,
		object: func(payload string) map[string]any {
			return map[string]any{"spec": map[string]any{"payload": payload}}
		},
	}
}

// definition is the CRD of a thing.
func (k Kind) definition() map[string]any {
	schema := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	var versions []any
	for _, name := range []string{k.OldVersion, k.Version} {
		versions = append(versions, map[string]any{"name": name, "served": true, "storage": name == k.Version,
			"schema": map[string]any{"openAPIV3Schema": schema}})
	}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": k.CRD},
		"spec": map[string]any{
			"group": k.Group, "scope": "Namespaced", "versions": versions,
			"names": map[string]any{"plural": k.Plural, "kind": k.Kind},
		},
	}
}
