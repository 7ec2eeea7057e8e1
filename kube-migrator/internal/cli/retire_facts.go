// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/manifest"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
	"github.com/kube-migrator/kube-migrator/internal/shell"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/checkpoint"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// readSchema reads the file of --schema-from. It returns nil without the flag.
func (env *environment) readSchema(f *retireFlags, name string) (map[string]any, error) {
	if f.schemaFrom == "" {
		return nil, nil //nolint:nilnil // no file and no error
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

// gather reads everything on which the plan depends. It writes nothing.
func (r *retirement) gather(ctx context.Context, gentle <-chan struct{}) (err error) {
	var schemas *pruning.CRD
	if r.facts.CRD, schemas, err = crd.GetWithSchemas(ctx, r.client, r.resource.CRD.Name); err != nil {
		return fmt.Errorf("read CustomResourceDefinition %s: %w", r.resource.CRD.Name, err)
	}
	if err := r.recall(); err != nil {
		return err
	}
	if r.facts.Running, err = r.running(ctx, r.resource); err != nil {
		return err
	}
	intent := r.flags.intent
	r.resource.Endpoint = retire.Endpoint(r.facts.CRD, intent.Version)
	objects := retire.Objects{Client: r.client, CRD: r.facts.CRD, Endpoint: r.resource.Endpoint,
		Schemas: schemas, Accepted: intent.AcceptFieldLoss}
	found, err := objects.Look(ctx, intent.Version)
	switch {
	case errors.Is(err, retire.ErrUnreadable):
		r.facts.Unreadable = exit.OneLine(err).Error()
	case err != nil:
		return r.unlisted(err)
	default:
		r.facts.Objects, r.facts.Owners, r.facts.Losses = found.Objects, found.Owners, found.Losses
	}
	r.facts.Dependents, err = intent.FindDependents(ctx, r.client, r.facts.CRD, dependents(r.all), stop(gentle))
	for _, f := range r.all.Failures {
		if f.HidesResources() {
			r.facts.Dependents.Unread = append(r.facts.Dependents.Unread,
				retire.Unread{Resource: f.What, Reason: f.String()})
		}
	}
	return err
}

// dependents returns the resources whose objects may be dependents: all that can be listed, but Events, which the garbage
// collector ignores.
func dependents(all *inventory.Inventory) (resources []retire.Resource) {
	for _, r := range all.Resources {
		version := r.Listed()
		if version == "" || r.Kind == "Event" && (r.Group == "" || r.Group == "events.k8s.io") {
			continue
		}
		resources = append(resources, retire.Resource{GroupVersionResource: r.WithVersion(version),
			Namespaced: r.Namespaced})
	}
	return resources
}

// stop returns an error once the user wants no further request to be started.
func stop(gentle <-chan struct{}) func() error {
	return func() error {
		if interrupted(gentle) {
			return migrate.ErrStopped
		}
		return nil
	}
}

// unlisted adds the command that helps if the objects cannot be listed.
func (r *retirement) unlisted(err error) error {
	if !apierrors.IsForbidden(err) {
		return exit.TryCode(err, r.again(r.facts.CRD.Metadata.Name), codeOf(err))
	}
	lacking := access.ForbiddenError{Permission: access.Permission{
		Verb: "list", Resource: r.resource.GroupResource, Namespaced: r.facts.CRD.Spec.Scope == "Namespaced",
	}}
	return exit.Try(err, lacking.Try())
}

// migrating reports whether another process of this machine is migrating a resource.
func (m *migration) migrating(resource schema.GroupResource) (bool, error) {
	return checkpoint.In(m.flags.dir, m.cluster, resource.String()).Locked()
}

// running names the other migrations of a resource that are running.
func (m *migration) running(ctx context.Context, resource inventory.Resource) (names []string, err error) {
	switch migrates, err := m.migrating(resource.GroupResource); {
	case err != nil:
		return nil, err
	case migrates:
		names = append(names, retire.ThisMachine)
	}
	all, err := m.env.records(m.config, m.client).List(ctx)
	if err != nil && !apierrors.IsForbidden(err) && !errors.Is(err, records.ErrNotInstalled) {
		return nil, err
	}
	for _, request := range records.Matches(all, records.IsAbout(resource)) {
		if records.Holds(&request, v1alpha1.ConditionRunning) {
			names = append(names, records.MigrationPrefix+request.Name)
		}
	}
	return names, nil
}

// run returns the execution of the plan.
func (r *retirement) run(gentle <-chan struct{}, schema map[string]any) *retire.Run {
	options := r.flags.migrate.options
	stopped := stop(gentle)
	return &retire.Run{
		Client: r.client, Intent: r.flags.intent, CRD: r.facts.CRD, Schema: schema,
		Limits: pace.Limits{ObjectsPerSecond: options.MaxObjectsPerSecond, InFlight: options.MaxInFlight,
			BytesPerSecond: options.MaxBytesPerSecond},
		Resources: dependents(r.all),
		Migrate: func(ctx context.Context) (migrate.Epoch, error) {
			report, err := r.migration.resource(ctx, gentle, r.resource)
			report.Next = "" // the command in the report continues this, too
			r.report.Migration = &report
			return report.Result.Epoch, err
		},
		Settle:  func(ctx context.Context, generation int64) error { return r.settle(ctx, stopped, generation) },
		Stopped: stopped,
		Report:  func(s retire.Step) { fmt.Fprintf(r.env.Err, "%s: %s\n", s.Name, s.What) },
	}
}

// started is what this machine records about retirements. Nothing in a cluster distinguishes a version that was removed
// from one that never existed, and the same command, run again, has to report the former as done and to refuse the
// latter.
type started struct {
	// UID is the UID of the CRD.
	UID types.UID `json:"uid"`
	// Versions are the versions whose retirement was started.
	Versions []string `json:"versions"`
}

// lock keeps other processes of this machine from retiring a version of the same resource. A dry run only checks
// whether one does. It creates no file, so it also works on a read-only file system.
func (r *retirement) lock() (unlock func(), err error) {
	name := "retire-" + r.resource.GroupResource.String()
	if r.flags.dryRun {
		r.notes, unlock = checkpoint.In(r.flags.migrate.dir, r.cluster, name), func() {}
		var locked bool
		if locked, err = r.notes.Locked(); locked {
			err = checkpoint.ErrLocked
		}
	} else if r.notes, err = checkpoint.New(r.flags.migrate.dir, r.cluster, name); err == nil {
		unlock, err = r.notes.Lock()
	}
	if errors.Is(err, checkpoint.ErrLocked) {
		return nil, exit.TryCode(fmt.Errorf("another kube-migrator of this machine is retiring a version of %s",
			r.resource.GroupResource),
			r.env.name+" plan "+r.resource.GroupResource.String(), exit.WorkLeft)
	}
	return unlock, err
}

// recall reads which retirements were started.
func (r *retirement) recall() error {
	var s started
	if _, err := r.notes.Read(&s); err != nil {
		try := "rm " + shell.Quote(r.notes.Path())
		if unread := (*fs.PathError)(nil); errors.As(err, &unread) {
			try = "ls -ld " + shell.Quote(r.notes.Path()) // its content may be valid
		}
		return exit.Try(fmt.Errorf("read which retirements were started: %w", err), try)
	}
	if s.UID == r.facts.CRD.Metadata.UID {
		r.facts.Attempted = s.Versions
	}
	return nil
}

// remember records that the retirement of the version was started.
func (r *retirement) remember() error {
	version := r.flags.intent.Version
	if slices.Contains(r.facts.Attempted, version) {
		return nil
	}
	err := r.notes.Write(started{UID: r.facts.CRD.Metadata.UID,
		Versions: append(slices.Clone(r.facts.Attempted), version)})
	if err != nil {
		return fmt.Errorf("record that the retirement was started: %w", err)
	}
	return nil
}
