// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/printable"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/ledger"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// The labels of objects that this program creates.
const (
	nameLabel      = "app.kubernetes.io/name"
	managedByLabel = "app.kubernetes.io/managed-by"
	program        = "kube-migrator"
)

func labels() map[string]string {
	return map[string]string{nameLabel: program, managedByLabel: program}
}

// own returns the migration of a resource, by any of its names, through which this program requests runs, or nil.
// Migrations that users created are carried out and count like any other, but this program never raises their
// generation.
func own(all []v1alpha1.StorageVersionMigration, names []string) *v1alpha1.StorageVersionMigration {
	for i := range all {
		if m := &all[i]; m.Labels[managedByLabel] == program && about(m, names) {
			return m
		}
	}
	return nil
}

func about(m *v1alpha1.StorageVersionMigration, names []string) bool {
	for _, name := range names {
		if stateName(m.Spec.Resource.Group, m.Spec.Resource.Resource) == name {
			return true
		}
	}
	return false
}

// stateName returns the name of a resource's StorageState.
func stateName(group, resource string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}

// migrationsOf returns what the ledger has to know about the migrations of a resource, by any of its names: our own,
// and all others.
func migrationsOf(all []v1alpha1.StorageVersionMigration,
	names []string) (ours ledger.Migration, others []ledger.Migration) {
	requested := own(all, names)
	for i := range all {
		switch m := &all[i]; {
		case m == requested:
			ours = migrationOf(m)
		case about(m, names) && m.DeletionTimestamp == nil:
			other := migrationOf(m)
			other.Held = other.Held || m.Spec.State == v1alpha1.StatePaused
			others = append(others, other)
		}
	}
	return ours, others
}

// migrationOf returns what the ledger has to know about a migration.
func migrationOf(m *v1alpha1.StorageVersionMigration) ledger.Migration {
	s := m.Status
	start := number(s.Run.StartResourceVersion)
	known := ledger.Migration{
		Generation: m.Spec.Generation, Completed: s.CompletedGeneration, Failed: s.State == v1alpha1.PhaseFailed,
		Started: s.Run.Generation == m.Spec.Generation, Start: start, Held: m.Spec.State == v1alpha1.StateCancelled,
	}
	if s.Progress.WouldLoseFields > 0 && s.Epoch != nil {
		known.LeftAlone = &ledger.CRD{UID: uid(s.Epoch.CRDUID), Generation: s.Epoch.CRDGeneration}
	}
	if s.CompletedGeneration > 0 && s.Run.Generation == s.CompletedGeneration && s.Epoch != nil &&
		s.StorageVersionHash != "" {
		known.Proof = &ledger.Proof{Start: start, Epoch: epochOf(s.Epoch, s.StorageVersionHash),
			Baseline: number(s.ResourceVersion), Observed: isObserved(s.Epoch)}
	}
	return known
}

// proofsOf returns the proofs of the migrations of a resource.
func proofsOf(all []v1alpha1.StorageVersionMigration, names []string) (proofs []ledger.Proof) {
	for i := range all {
		if p := migrationOf(&all[i]).Proof; p != nil && about(&all[i], names) {
			proofs = append(proofs, *p)
		}
	}
	return proofs
}

// isObserved reports whether each API server of an epoch was asked: the evidence is Observed or Declared.
func isObserved(e *v1alpha1.Epoch) bool {
	var evidence migrate.Evidence
	return evidence.UnmarshalText([]byte(e.Evidence)) == nil && evidence >= migrate.Observed
}

func epochOf(e *v1alpha1.Epoch, hash string) ledger.EpochID {
	return ledger.EpochID{Hash: hash, Processes: e.Servers, UID: uid(e.CRDUID), Generation: e.CRDGeneration}
}

// asker requests migrations.
type asker struct {
	client    client.Client
	live      client.Reader
	namespace string
	// create allows migrations of resources for which there has been none yet.
	create bool
	// pace applies to migrations without bounds of their own.
	pace v1alpha1.Pace
}

// ask raises the generation of a resource's migration, or creates the migration, and returns it. It returns nil if it
// requests nothing. requested means that there has been a migration before. A crash before or after the write changes
// nothing, because the next look repeats the request from the record.
func (a *asker) ask(
	ctx context.Context, r inventory.Resource, all migrations, d ledger.Decision, requested bool,
) (*v1alpha1.StorageVersionMigration, error) {
	if m := own(all.of(r.Names()), r.Names()); m != nil {
		if err := a.raise(ctx, m, r, d); err != nil {
			return nil, fmt.Errorf("raise generation of migration %s: %w", m.Name, err)
		}
		return m, nil
	}
	if !a.create && !requested {
		return nil, nil
	}
	m, err := a.object(ctx, r, all)
	if err != nil {
		return nil, err
	}
	m.Spec.Generation, m.Spec.Reason, m.Spec.Priority = d.Request, oneLine(d.Reason), priority(r)
	if err := a.client.Create(ctx, m); err != nil {
		return nil, fmt.Errorf("create migration %s: %w", m.Name, err)
	}
	return m, nil
}

// priority is lower than that of migrations that users request.
func priority(r inventory.Resource) int32 { return 1 + int32(r.Risk()) } //nolint:gosec // at most inventory.MostRisk

// raise raises the generation, unless someone has changed it since it was read. Changes of the status in between do not
// matter.
func (a *asker) raise(ctx context.Context, m *v1alpha1.StorageVersionMigration, r inventory.Resource,
	d ledger.Decision) error {
	type change struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	changes := []change{
		{"test", "/metadata/uid", m.UID},
		{"test", "/spec/generation", m.Spec.Generation},
		{"replace", "/spec/generation", d.Request},
		{"add", "/spec/reason", oneLine(d.Reason)},
		{"add", "/spec/priority", priority(r)},
	}
	// A run that a user has requested, and that has not succeeded, was to rewrite everything. So is the one in its place.
	if m.Status.CompletedGeneration == m.Spec.Generation || m.Spec.IncrementalGeneration == m.Spec.Generation {
		changes = append(changes, change{"add", "/spec/incrementalGeneration", d.Request})
	}
	if pace := paceOf(m.Spec.Pace, a.pace); pace != m.Spec.Pace {
		changes = append(changes, change{"add", "/spec/pace", pace})
	}
	patch, err := json.Marshal(changes)
	if err != nil {
		return err
	}
	return a.client.Patch(ctx, m, client.RawPatch(types.JSONPatchType, patch))
}

// mostReason is how many characters spec.reason may have.
const mostReason = 1024

// oneLine returns a text that spec.reason accepts. The text contains names of versions that API servers chose.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(printable.Text(text)), " ")
	if runes := []rune(text); len(runes) > mostReason {
		return string(runes[:mostReason-1]) + "…"
	}
	return text
}

// paceOf returns a pace, with the default bounds in place of missing ones.
func paceOf(pace, otherwise v1alpha1.Pace) v1alpha1.Pace {
	return v1alpha1.Pace{
		MaxObjectsPerSecond: cmp.Or(pace.MaxObjectsPerSecond, otherwise.MaxObjectsPerSecond),
		MaxInFlight:         cmp.Or(pace.MaxInFlight, otherwise.MaxInFlight),
		MaxBytesPerSecond:   cmp.Or(pace.MaxBytesPerSecond, otherwise.MaxBytesPerSecond),
	}
}

// object returns the new migration of a resource that has none. Its owner is the namespace of the installation, because
// the owner of a cluster-scoped object has to be cluster-scoped.
func (a *asker) object(ctx context.Context, r inventory.Resource,
	all migrations) (*v1alpha1.StorageVersionMigration, error) {
	namespace := new(corev1.Namespace)
	if err := a.live.Get(ctx, client.ObjectKey{Name: a.namespace}, namespace); err != nil {
		return nil, fmt.Errorf("read the namespace that owns what is created: %w", err)
	}
	name := r.GroupResource.String()
	for _, m := range all {
		if m.Name == name {
			name = "auto." + name // a user has taken the name
			break
		}
	}
	m := &v1alpha1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: labels(),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace",
				Name: namespace.Name, UID: namespace.UID}},
		},
		Spec: v1alpha1.StorageVersionMigrationSpec{
			Resource:      v1alpha1.GroupVersionResource{Group: r.Group, Resource: r.Resource},
			GroupVersions: GroupVersions(r), Pace: a.pace,
		},
	}
	return m, nil
}
