// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/internal/manifest"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/internal/retire"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// readSchema reads the file of --schema-from; nil where there is none.
func (env *environment) readSchema(f *retireFlags, name string) (map[string]any, error) {
	if f.schemaFrom == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	read := func() ([]byte, error) { return os.ReadFile(f.schemaFrom) }
	if f.schemaFrom == "-" {
		read = func() ([]byte, error) { return io.ReadAll(env.In) }
	}
	raw, err := read()
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	objects, err := manifest.Objects(f.schemaFrom, raw)
	if err != nil {
		return nil, err
	}
	err = fmt.Errorf("%s has no CustomResourceDefinition of apiextensions.k8s.io/v1", f.schemaFrom)
	for _, o := range objects {
		if o.Kind != "CustomResourceDefinition" || o.APIVersion != "apiextensions.k8s.io/v1" {
			continue
		}
		var schema map[string]any
		if schema, err = retire.SchemaIn(o.JSON, name, f.intent.Version); err == nil {
			return schema, nil
		}
		err = fmt.Errorf("%s: %w", o.From, err)
	}
	return nil, err
}

// gather finds out what the plan depends on. Nothing is written.
func (r *retirement) gather(ctx context.Context) (err error) {
	if r.facts.Definition, err = crd.Get(ctx, r.client, r.resource.CRD.Name); err != nil {
		return fmt.Errorf("read definition %s: %w", r.resource.CRD.Name, err)
	}
	if err := r.recall(); err != nil {
		return err
	}
	if r.facts.Running, err = r.running(ctx, r.resource); err != nil {
		return err
	}
	version := r.flags.intent.Version
	r.resource.Endpoint = retire.Endpoint(r.facts.Definition, version)
	objects := retire.Objects{Client: r.client, Definition: r.facts.Definition, Endpoint: r.resource.Endpoint}
	count, owners, err := objects.Look(ctx, version)
	switch {
	case errors.Is(err, retire.ErrUnreadable):
		r.facts.Unreadable = oneLine(err).Error()
	case err != nil:
		return r.unlisted(err)
	default:
		r.facts.Objects, r.facts.Owners = count, owners
	}
	return nil
}

// unlisted says what to try where the objects cannot be listed.
func (r *retirement) unlisted(err error) error {
	if !apierrors.IsForbidden(err) {
		return hintedCode(err, r.again(r.facts.Definition.Metadata.Name), codeOf(err))
	}
	lacking := access.ForbiddenError{Permission: access.Permission{
		Verb: "list", Resource: r.resource.GroupResource, Namespaced: r.facts.Definition.Spec.Scope == "Namespaced",
	}}
	return hinted(err, lacking.Try())
}

// migrating reports whether another process of this machine migrates a resource.
func (m *migration) migrating(resource schema.GroupResource) (bool, error) {
	return checkpointFileIn(m.flags.dir, m.cluster, resource.String()).locked()
}

// running names the migrations of a resource that others are carrying out.
func (m *migration) running(ctx context.Context, resource inventory.Resource) (names []string, err error) {
	switch migrates, err := m.migrating(resource.GroupResource); {
	case err != nil:
		return nil, err
	case migrates:
		names = append(names, retire.ThisMachine)
	}
	var list v1alpha1.StorageVersionMigrationList
	q := &requests{env: m.env, client: m.client}
	err = q.send(ctx, q.client.Get().AbsPath(requestsPath), &list)
	if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		return nil, q.explain("list StorageVersionMigrations", err)
	}
	for _, request := range matches(list.Items, isAbout(resource)) {
		if holds(&request, v1alpha1.ConditionRunning) {
			names = append(names, requestsName+request.Name)
		}
	}
	return names, nil
}

// run is the execution of a plan, with everything that it needs from here.
func (r *retirement) run(gentle <-chan struct{}, schema map[string]any) *retire.Run {
	options := r.flags.migrate.options
	stopped := func() error {
		if interrupted(gentle) {
			return migrate.ErrStopped
		}
		return nil
	}
	return &retire.Run{
		Client: r.client, Intent: r.flags.intent, Definition: r.facts.Definition, Schema: schema,
		Limits: pace.Limits{ObjectsPerSecond: options.MaxObjectsPerSecond, InFlight: options.MaxInFlight,
			BytesPerSecond: options.MaxBytesPerSecond},
		Migrate: func(ctx context.Context) (migrate.Epoch, error) {
			report, err := r.migration.resource(ctx, gentle, r.resource)
			report.Next = "" // ours goes on with everything
			r.report.Migration = &report
			return report.Result.Epoch, err
		},
		Settle:  func(ctx context.Context, generation int64) error { return r.settle(ctx, stopped, generation) },
		Stopped: stopped,
		Tell:    func(s retire.Step) { fmt.Fprintf(r.env.Err, "%s: %s\n", s.Name, s.What) },
	}
}
