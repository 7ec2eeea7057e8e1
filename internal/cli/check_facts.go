// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/internal/etcdaudit"
	"github.com/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/internal/upgrade"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// gathering is everything that check looks at.
type gathering struct {
	*requests
	command  *cobra.Command
	question upgrade.Question

	inv    *inventory.Inventory
	states map[schema.GroupResource]*v1alpha1.StorageStateStatus
	held   map[schema.GroupResource][]upgrade.Held
}

// look reads the cluster's inventory and StorageStates, and etcd where source is not nil.
func (g *gathering) look(ctx context.Context, source etcdaudit.Source, prefix string) (err error) {
	if g.inv, err = inventory.Take(ctx, g.client); err != nil {
		return g.env.unreachable(g.config, err)
	}
	if err := g.readStates(ctx); err != nil {
		return err
	}
	g.question.Installed = len(g.states) > 0
	if source == nil {
		return nil
	}
	report, err := etcdaudit.Audit(ctx, source, etcdaudit.Options{Prefix: prefix})
	if err != nil {
		return explainAudit(g.command, err)
	}
	g.held = heldOf(report)
	fmt.Fprintf(g.env.Err, "Read %s objects from etcd at revision %d.\n", render.Count(report.Totals.Objects), report.Source.Revision)
	return nil
}

// readStates reads the StorageStates; a cluster that does not know them has none.
func (g *gathering) readStates(ctx context.Context) error {
	var list v1alpha1.StorageStateList
	err := g.send(ctx, g.client.Get().AbsPath(statesPath), &list)
	if err != nil && !apierrors.IsNotFound(err) {
		return g.explain("list StorageStates", err)
	}
	g.states = map[schema.GroupResource]*v1alpha1.StorageStateStatus{}
	for i := range list.Items {
		r := list.Items[i].Spec.Resource
		g.states[schema.GroupResource{Group: r.Group, Resource: r.Resource}] = &list.Items[i].Status
	}
	return nil
}

// heldOf sorts what etcd holds by resource.
func heldOf(report *etcdaudit.Report) map[schema.GroupResource][]upgrade.Held {
	held := map[schema.GroupResource][]upgrade.Held{}
	for _, row := range report.Rows {
		if row.Verdict == etcdaudit.NoObject {
			continue
		}
		gv, _ := schema.ParseGroupVersion(row.APIVersion) // the audit has seen that it parses
		resource := schema.ParseGroupResource(row.Resource)
		held[resource] = append(held[resource], upgrade.Held{Version: gv, Kind: row.Kind, Objects: row.Objects, Opaque: row.APIVersion == ""})
	}
	return held
}

// facts are those of all resources, or of those that are named; strays are findings about what the API server does not have.
func (g *gathering) facts(ctx context.Context, args []string) (facts []upgrade.Facts, strays []upgrade.Finding, err error) {
	resources := g.inv.Resources
	if len(args) > 0 {
		if resources, err = g.inv.FindAll(args); err != nil {
			return nil, nil, g.env.notFound(g.command, err)
		}
	}
	counts := make([]count, len(resources))
	if !g.question.Etcd && (g.question.Target != nil || !g.question.Installed) {
		if counts, err = countAll(ctx, g.client, resources); err != nil {
			return nil, nil, err
		}
	}
	for i, r := range resources {
		f := g.factsOf(r)
		f.Empty = counts[i].objects != nil && counts[i].objects.Count == 0
		if f.NotStored && len(args) == 0 && len(f.Held) == 0 {
			continue
		}
		facts = append(facts, f)
	}
	if len(args) > 0 {
		return facts, nil, nil
	}
	gone, strays := g.unserved()
	return append(facts, gone...), strays, nil
}

// factsOf puts together what is known of one resource, under any of its names.
func (g *gathering) factsOf(r inventory.Resource) upgrade.Facts {
	f := upgrade.Facts{
		Resource: r.GroupResource, Kind: r.Kind, Aggregated: r.Origin == migrate.Aggregated,
		Current: r.StorageVersion, CurrentHash: r.StorageVersionHash,
	}
	if r.Problem != nil {
		f.Unfit, f.NotStored = r.Problem.Message, r.Problem.Reason == inventory.NotPersisted
	}
	if r.CRD != nil {
		f.Definition = &upgrade.Definition{
			Group: r.Group, Kind: r.Kind, Versions: r.CRD.Versions, StorageVersion: r.CRD.StorageVersion, StoredVersions: r.CRD.StoredVersions,
		}
	}
	for _, name := range namesOf(r) {
		if state := g.states[name]; state != nil && f.State == nil {
			f.State = state
		}
		f.Held = append(f.Held, g.held[name]...)
	}
	return f
}

func namesOf(r inventory.Resource) (names []schema.GroupResource) {
	for _, name := range r.Names() {
		names = append(names, schema.ParseGroupResource(name))
	}
	return names
}

// unserved are resources that records or etcd know of and the API server does not have.
func (g *gathering) unserved() (gone []upgrade.Facts, strays []upgrade.Finding) {
	served := map[schema.GroupResource]bool{}
	for _, r := range g.inv.Resources {
		for _, name := range namesOf(r) {
			served[name] = true
		}
	}
	for r, state := range g.states {
		if !served[r] {
			gone = append(gone, upgrade.Facts{Resource: r, State: state, Held: g.held[r], Gone: true})
		}
	}
	slices.SortFunc(gone, func(a, b upgrade.Facts) int { return strings.Compare(a.Resource.String(), b.Resource.String()) })
	for r, held := range g.held {
		if !served[r] && g.states[r] == nil {
			strays = append(strays, g.question.Stray(r, held))
		}
	}
	return gone, strays
}

// notLookedAt are the parts of the cluster that the answer lacks; those who name a resource have found it.
func (g *gathering) notLookedAt(args []string) (all []string) {
	if len(args) > 0 {
		return nil
	}
	for _, failure := range g.inv.Failures {
		if text := strings.Join(strings.Fields(failure.String()), " "); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}
