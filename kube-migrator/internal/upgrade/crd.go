// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
)

// Manifest is a CustomResourceDefinition that someone wants to apply, or the live one: the fields that decide whether
// stored objects stay readable.
type Manifest struct {
	// From names the file and document; empty for the live one.
	From           string
	Name           string
	Group          string
	Plural, Kind   string
	Versions       []pruning.Version
	StoredVersions []string
	// ResourceVersion is that of the live one, or empty if it says nothing about the order of the CRD and the snapshot.
	ResourceVersion string
	// Webhook means that a webhook converts versions. Otherwise only their apiVersion changes.
	Webhook bool
	// Reachable means that the webhook has a URL or a service.
	Reachable bool
}

// StandardInput is the From of a Manifest that was read from a pipe.
const StandardInput = "standard input"

// ParseManifest reads a CustomResourceDefinition of apiextensions.k8s.io/v1.
func ParseManifest(raw []byte) (Manifest, error) {
	var d struct {
		APIVersion string `json:"apiVersion"`
		Metadata   struct {
			Name            string `json:"name"`
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Spec struct {
			Names struct {
				Plural string `json:"plural"`
				Kind   string `json:"kind"`
			} `json:"names"`
			Conversion struct {
				Webhook struct {
					ClientConfig struct {
						URL     string          `json:"url"`
						Service json.RawMessage `json:"service"`
					} `json:"clientConfig"`
				} `json:"webhook"`
			} `json:"conversion"`
		} `json:"spec"`
		Status struct {
			StoredVersions []string `json:"storedVersions"`
		} `json:"status"`
	}
	decides, err := pruning.Parse(raw)
	if err != nil {
		return Manifest{}, err
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return Manifest{}, fmt.Errorf("read CustomResourceDefinition: %w", err)
	}
	webhook := d.Spec.Conversion.Webhook.ClientConfig
	m := Manifest{
		Name: d.Metadata.Name, Group: decides.Group, Plural: d.Spec.Names.Plural, Kind: d.Spec.Names.Kind,
		Versions: decides.Versions, Webhook: decides.Webhook,
		StoredVersions: d.Status.StoredVersions, ResourceVersion: d.Metadata.ResourceVersion,
		Reachable: webhook.URL != "" || len(webhook.Service) > 0,
	}
	switch {
	case d.APIVersion != "apiextensions.k8s.io/v1":
		return m, fmt.Errorf("CustomResourceDefinition %s is of %s, want apiextensions.k8s.io/v1", m.Name, d.APIVersion)
	case m.Name == "" || m.Group == "" || m.Plural == "" || m.Kind == "":
		return m, errors.New("the CustomResourceDefinition lacks one of metadata.name, spec.group, spec.names.plural " +
			"and spec.names.kind")
	case m.Name != m.Plural+"."+m.Group:
		return m, fmt.Errorf("CustomResourceDefinition %s should be named %s.%s", m.Name, m.Plural, m.Group)
	case len(m.Versions) == 0:
		return m, fmt.Errorf("CustomResourceDefinition %s has no spec.versions", m.Name)
	}
	return m, nil
}

// Resource returns the resource that the CRD defines.
func (m Manifest) Resource() schema.GroupResource {
	return schema.GroupResource{Group: m.Group, Resource: m.Plural}
}

// storage returns the version that spec marks as the storage version, or "" if it does not mark exactly one.
func (m Manifest) storage() string {
	var marked []string
	for _, v := range m.Versions {
		if v.Storage {
			marked = append(marked, v.Name)
		}
	}
	if len(marked) != 1 {
		return ""
	}
	return marked[0]
}

func (m Manifest) version(name string) (pruning.Version, bool) {
	for _, v := range m.Versions {
		if v.Name == name {
			return v, true
		}
	}
	return pruning.Version{}, false
}

func (m Manifest) crd() *CRD {
	d := &CRD{Group: m.Group, Kind: m.Kind, StorageVersion: m.storage(), StoredVersions: m.StoredVersions,
		ResourceVersion: m.ResourceVersion}
	for _, v := range m.Versions {
		d.Versions = append(d.Versions, v.Name)
	}
	return d
}

// JudgeCRD decides whether applying a CRD would strand stored objects. live is the CRD in the cluster, or nil if there
// is none and so no objects.
func (q Question) JudgeCRD(proposed Manifest, live *Manifest, f Facts) Finding {
	finding := Finding{Resource: proposed.Resource().String(), From: proposed.From}
	edit := q.Program + " upgrade-crd -f " + file(proposed.From)
	switch {
	case proposed.storage() == "":
		return finding.is(Unsafe, "it does not mark exactly one version as the storage version", edit)
	case proposed.Webhook && !proposed.Reachable:
		return finding.is(Unsafe, "its conversion is by a webhook that it does not name", edit)
	case live == nil && len(f.Held) == 0:
		return finding.is(Safe, "the cluster does not have it yet: nothing is stored", "")
	case live == nil:
		live = &Manifest{}
	}
	if m := f.Migration(); m != nil {
		finding.Migration, finding.Run = m.Name, RunOf(m)
	}
	b := q.storedOf(live, f)
	finding.Source, finding.Stored, finding.Current = b.source, names(b.stored), live.storage()
	next := proposed.crd()
	var gone []stored
	for _, s := range b.stored {
		if !next.defines(s.hash) {
			gone = append(gone, s)
		}
	}
	removed := removedVersions(proposed, live)
	switch lost := q.losses(proposed, live, b.stored); {
	case len(gone) > 0:
		finding.Stranded = names(gone)
		if slices.Contains(finding.Stranded, live.storage()) {
			return finding.is(Unsafe, b.stillStored(gone, proposed)+"; keep "+live.storage()+
				" until everything is migrated to another version", edit)
		}
		return q.migrated(f, finding, Unsafe, b.stillStored(gone, proposed))
	case b.disagree != "" && len(removed) > 0:
		return finding.is(Unsafe, removes(removed)+b.disagree,
			"kubectl describe storagestates.migration.k8s.io "+finding.Resource)
	case b.unknown != "" && len(removed) > 0:
		return q.migrated(f, finding, Undetermined, removes(removed)+b.unknown)
	case live.Webhook && !proposed.Webhook && len(proposed.Versions) > 1:
		return finding.is(Unsafe, "it takes the conversion webhook away, and has several versions", edit)
	case lost != "":
		return finding.is(Unsafe, lost, edit)
	case live.storage() != "" && live.storage() != proposed.storage():
		return finding.is(Safe, fmt.Sprintf("every stored version stays readable; the storage version moves from %s "+
			"to %s, so migrate afterwards",
			live.storage(), proposed.storage()), q.migrate(finding.Resource))
	}
	return finding.is(Safe, "every stored version stays readable", "")
}

// file returns the file in a name like "crds.yaml, document 2". Standard input has none.
func file(from string) string {
	name, _, _ := strings.Cut(from, ", document ")
	if name == StandardInput {
		return "FILE"
	}
	return name
}

func removes(versions []string) string {
	return "it removes " + strings.Join(versions, ", ") + ", and "
}

// storedOf returns the versions that may be stored, from the strongest source, and why there may be others.
func (q Question) storedOf(live *Manifest, f Facts) (b basis) {
	d := live.crd()
	if f.CRD != nil {
		d.UID, d.Generation = f.CRD.UID, f.CRD.Generation
	}
	f.CRD = d
	opaque := slices.ContainsFunc(f.Held, func(h Held) bool { return h.Opaque })
	switch {
	case q.Etcd && !opaque:
		b = q.byEtcd(f)
	case f.State != nil:
		b = q.byState(f)
		b.stored = f.byStoredVersions().and(b, "").stored
	default:
		b = f.byStoredVersions()
	}
	b.stored = slices.DeleteFunc(b.stored, func(s stored) bool { return s.hash == v1alpha1.Unknown })
	b.unknown = cmp.Or(b.unknown, b.unsure)
	return b
}

func removedVersions(proposed Manifest, live *Manifest) (removed []string) {
	for _, v := range live.Versions {
		if _, kept := proposed.version(v.Name); !kept {
			removed = append(removed, v.Name)
		}
	}
	return removed
}

func (b basis) stillStored(gone []stored, proposed Manifest) string {
	what := strings.Join(names(gone), ", ")
	switch b.source {
	case ByEtcd:
		what = b.inEtcd(gone)
	case ByStorageState:
		what = "the StorageState or status.storedVersions says that objects may be stored as " + what
	case ByStoredVersions, ByCount, ByNothing:
		what = "status.storedVersions says that objects are stored as " + what
	}
	return what + ", and it has only " + strings.Join(proposed.crd().Versions, ", ")
}

// losses says which fields stored objects would lose without a webhook that they do not lose already.
func (q Question) losses(proposed Manifest, live *Manifest, all []stored) string {
	if proposed.Webhook {
		return ""
	}
	for _, s := range all {
		from, ok := proposed.byHash(s.hash)
		if !ok {
			continue
		}
		for _, to := range proposed.Versions {
			if to.Name == from.Name || !to.Served && !to.Storage {
				continue
			}
			fields := from.Schema.Lost(to.Schema)
			if len(fields) == 0 || live.loses(from.Name, to.Name) {
				continue
			}
			return fmt.Sprintf("it has no conversion webhook, and %s of %s does not fit %s: objects stored as %s lose it", fields[0].Path, from.Name, to.Name, from.Name)
		}
	}
	return ""
}

func (m Manifest) byHash(hash string) (pruning.Version, bool) {
	d := m.crd()
	for _, v := range m.Versions {
		if d.hash(v.Name) == hash {
			return v, true
		}
	}
	return pruning.Version{}, false
}

// loses reports whether a CRD already loses fields between two versions.
func (m Manifest) loses(from, to string) bool {
	a, okA := m.version(from)
	b, okB := m.version(to)
	return okA && okB && !m.Webhook && (b.Served || b.Storage) && len(a.Schema.Lost(b.Schema)) > 0
}
