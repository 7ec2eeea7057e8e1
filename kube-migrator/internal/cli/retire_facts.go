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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/manifest"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
	"github.com/kube-migrator/kube-migrator/internal/shell"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/checkpoint"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/crdlife"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// readSchema reads the file of --schema-from. It returns nil without the flag.
func (r *retirement) readSchema() (map[string]any, error) {
	if r.schemaFrom == "" {
		return nil, nil //nolint:nilnil // no file and no error
	}
	read := func() ([]byte, error) { return os.ReadFile(r.schemaFrom) }
	if r.schemaFrom == "-" {
		read = func() ([]byte, error) { return io.ReadAll(r.In) }
	}
	raw, err := read()
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	objects, err := manifest.Objects(r.schemaFrom, raw)
	if err != nil {
		return nil, err
	}
	err = fmt.Errorf("%s has no CustomResourceDefinition of apiextensions.k8s.io/v1", r.schemaFrom)
	for _, o := range objects {
		if o.Kind != "CustomResourceDefinition" || o.APIVersion != "apiextensions.k8s.io/v1" {
			continue
		}
		var schema map[string]any
		if schema, err = retire.SchemaIn(o.JSON, r.resource.CRD.Name, r.intent.Version); err == nil {
			return schema, nil
		}
		err = fmt.Errorf("%s: %w", o.From, err)
	}
	return nil, err
}

// gather reads everything on which the plan depends. It writes nothing.
func (r *retirement) gather(ctx context.Context) (err error) {
	var schemas *pruning.CRD
	if r.facts.CRD, schemas, err = crd.GetWithSchemas(ctx, r.REST, r.resource.CRD.Name); err != nil {
		return fmt.Errorf("read CustomResourceDefinition %s: %w", r.resource.CRD.Name, err)
	}
	if err := r.recall(); err != nil {
		return err
	}
	if r.facts.Running, err = r.running(ctx); err != nil {
		return err
	}
	r.resource.Endpoint = retire.Endpoint(r.facts.CRD, r.intent.Version)
	objects := retire.Objects{Client: r.REST, CRD: r.facts.CRD, Endpoint: r.resource.Endpoint,
		Schemas: schemas, Accepted: r.intent.AcceptFieldLoss}
	found, err := objects.Look(ctx, r.intent.Version)
	switch {
	case errors.Is(err, retire.ErrUnreadable):
		r.facts.Unreadable = exit.OneLine(err).Error()
	case err != nil:
		return r.unlisted(err)
	default:
		r.facts.Objects, r.facts.Owners, r.facts.Losses = found.Objects, found.Owners, found.Losses
	}
	r.facts.Dependents, err = findDependents(ctx, r.REST, r.all, r.intent, r.facts.CRD, r.stopped)
	return err
}

// findDependents looks for dependents in all resources of the cluster, until stopped returns an error.
func findDependents(ctx context.Context, client rest.Interface, all *inventory.Inventory, want retire.Intent, d *crd.CRD,
	stopped func() error) (retire.Dependents, error) {
	found, err := want.FindDependents(ctx, client, d, dependents(all), stopped)
	for _, f := range all.Failures {
		if !f.HidesResources() || slices.Contains(computed, f.Group) {
			continue
		}
		hidden := retire.Unread{Resource: f.What, Reason: f.String()}
		if f.APIService != "" {
			hidden.Try = "kubectl get apiservices " + f.APIService
		}
		found.Unread = append(found.Unread, hidden)
	}
	return found, err
}

// finder looks for dependents of versions of CRDs, once for each version: it lists every object of the cluster.
func finder(q *records.Client, stopped func() error) crdlife.FindDependents {
	var all *inventory.Inventory
	known := map[string]retire.Dependents{}
	return func(ctx context.Context, live *crdlife.CRD, version string) (retire.Dependents, error) {
		of := live.Name() + "/" + version
		if found, ok := known[of]; ok {
			return found, nil
		}
		if all == nil {
			var err error
			if all, err = inventory.Take(ctx, q.REST); err != nil {
				return retire.Dependents{}, exit.Unreachable(q.Host, err)
			}
		}
		found, err := findDependents(ctx, q.REST, all, retire.Intent{Program: q.Program, Version: version}, &live.CRD, stopped)
		if err == nil {
			known[of] = found
		}
		return found, err
	}
}

// computed are the groups of API servers that compute what they serve from metrics: nothing of it has ownerReferences.
var computed = []string{"metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"}

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

// running names the other migrations of the resource that are running.
func (r *retirement) running(ctx context.Context) (names []string, err error) {
	switch migrates, err := r.migrating(r.resource.GroupResource); {
	case err != nil:
		return nil, err
	case migrates:
		names = append(names, retire.ThisMachine)
	}
	all, err := r.List(ctx)
	if err != nil && !apierrors.IsForbidden(err) && !errors.Is(err, records.ErrNotInstalled) {
		return nil, err
	}
	for _, request := range records.Matches(all, records.IsAbout(r.resource)) {
		if records.Holds(&request, v1alpha1.ConditionRunning) {
			names = append(names, records.MigrationPrefix+request.Name)
		}
	}
	return names, nil
}

// steps returns the execution of the plan.
func (r *retirement) steps(schema map[string]any) *retire.Run {
	return &retire.Run{
		Client: r.REST, Intent: r.intent, CRD: r.facts.CRD, Schema: schema,
		Limits:    r.limits(),
		Resources: dependents(r.all),
		Migrate: func(ctx context.Context) (migrate.Epoch, error) {
			report, err := r.migrate(ctx, r.resource)
			report.Next = "" // the command in the report continues this, too
			r.report.Migration = &report
			return report.Result.Epoch, err
		},
		Settle:  r.settle,
		Stopped: r.stopped,
		Report:  func(s retire.Step) { fmt.Fprintf(r.Err, "%s: %s\n", s.Name, s.What) },
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
	if r.dryRun {
		r.notes, unlock = checkpoint.In(r.dir, r.cluster, name), func() {}
		var locked bool
		if locked, err = r.notes.Locked(); locked {
			err = checkpoint.ErrLocked
		}
	} else if r.notes, err = checkpoint.New(r.dir, r.cluster, name); err == nil {
		unlock, err = r.notes.Lock()
	}
	if errors.Is(err, checkpoint.ErrLocked) {
		return nil, exit.TryCode(fmt.Errorf("another kube-migrator of this machine is retiring a version of %s",
			r.resource.GroupResource),
			r.name+" plan "+r.resource.GroupResource.String(), exit.WorkLeft)
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
	version := r.intent.Version
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
