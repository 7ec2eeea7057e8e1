// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package retire

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/refusal"
)

// Resource is a resource whose objects may be dependents, at a served version.
type Resource struct {
	schema.GroupVersionResource
	Namespaced bool
}

func (r Resource) permission(verb string) access.Permission {
	return access.Permission{Verb: verb, Resource: r.GroupResource(), Namespaced: r.Namespaced}
}

// Dependents are the objects with an ownerReference that names the kind at the version to retire. The garbage collector
// reads an owner at the version that the reference names. Once that version is not served, it cannot tell whether the
// owner still exists, and leaves the dependent behind.
type Dependents struct {
	// Objects is the number of dependents in all resources.
	Objects int64 `json:"objects"`
	// Resources are the resources that have dependents, the one with the most first.
	Resources []Dependent `json:"resources,omitempty"`
	// Unread are the resources that could not be listed. Each may have dependents.
	Unread []Unread `json:"unread,omitempty"`
}

// Dependent is a resource that has dependents.
type Dependent struct {
	// Resource is the full name, such as deployments.apps.
	Resource string `json:"resource"`
	Objects  int64  `json:"objects"`
	// Names are the first few dependents, each as namespace/name, or as its name if it has no namespace.
	Names []string `json:"names"`
	// At is where the resource was listed.
	At Resource `json:"-"`
	// Losses are the dependents that would lose a field if their ownerReferences were moved, with Intent.FixOwners.
	Losses pruning.Losses `json:"-"`
}

// Unread is a resource, or a group and version, that could not be listed.
type Unread struct {
	Resource string `json:"resource"`
	Reason   string `json:"reason"`
	// Try is the command that shows the reason; it is empty if there is none.
	Try string `json:"-"`
}

// namedDependents bounds how many dependents of a resource are named.
const namedDependents = 3

// FindDependents looks for dependents of the version in the resources, one page of metadata at a time. A
// resource that cannot be listed is in Unread. The error is that of the context, or of stopped.
func (want Intent) FindDependents(ctx context.Context, client rest.Interface, d *crd.CRD,
	resources []Resource, stopped func() error) (found Dependents, err error) {
	from, to := apiVersions(d, want.Version)
	for _, r := range resources {
		in := Dependent{Resource: r.GroupResource().String(), At: r}
		keeps := &keeper{client: client, resource: r.GroupVersionResource, accepted: want.AcceptFieldLoss}
		err := collection{client: client, resource: r.GroupVersionResource}.each(ctx, func(items []metav1.PartialObjectMetadata) error {
			if err := stopped(); err != nil {
				return err
			}
			for i := range items {
				if _, names := Pointed(items[i].OwnerReferences, d.Spec.Names.Kind, from, to); !names {
					continue
				}
				if in.Objects++; len(in.Names) < namedDependents {
					in.Names = append(in.Names, key(&items[i].ObjectMeta))
				}
				if want.FixOwners && in.Objects == 1 {
					if _, err := keeps.look(ctx); err != nil {
						return err
					}
				}
				in.Losses.Add(&items[i].ObjectMeta, keeps.lost(&items[i].ObjectMeta))
			}
			return nil
		})
		if ctx.Err() != nil {
			return found, context.Cause(ctx)
		}
		if err := stopped(); err != nil {
			return found, err
		}
		if in.Objects > 0 {
			found.Objects += in.Objects
			found.Resources = append(found.Resources, in)
		}
		if err != nil && !apierrors.IsNotFound(err) { // a resource that is not served any more has no objects
			found.Unread = append(found.Unread, unread(r, err))
		}
	}
	slices.SortStableFunc(found.Resources, func(a, b Dependent) int { return cmp.Compare(b.Objects, a.Objects) })
	return found, nil
}

func unread(r Resource, err error) Unread {
	if apierrors.IsForbidden(err) {
		lacking := access.ForbiddenError{Permission: r.permission("list")}
		return Unread{Resource: r.GroupResource().String(), Reason: lacking.Error(), Try: lacking.Try()}
	}
	return Unread{Resource: r.GroupResource().String(), Reason: err.Error()}
}

// ownersRead refuses to say that ownerReferences were moved, and to unserve the version, while there may be references
// that could not be read.
func (want Intent) ownersRead(f Facts) *refusal.Error {
	unread := f.Dependents.Unread
	if want.LeaveOwners || len(unread) == 0 || !want.FixOwners && !want.unserves(f.CRD) {
		return nil
	}
	try := unread[0].Try
	if try == "" {
		try = want.command(f.CRD, want.Version, append(want.flags(), "--leave-owners")...)
	}
	return refusal.New(UnreadOwners, try,
		"ownerReferences may name %s of %s in resources that cannot be listed: %s; --leave-owners goes on without them",
		want.Version, f.CRD.Metadata.Name, f.Dependents.UnreadNames())
}

// independent refuses to unserve a version that ownerReferences name.
func (want Intent) independent(f Facts) *refusal.Error {
	if f.Dependents.Objects == 0 || want.FixOwners || want.LeaveOwners || !want.unserves(f.CRD) {
		return nil
	}
	return want.hasDependents(f)
}

// unserves reports whether the version will stop being served.
func (want Intent) unserves(d *crd.CRD) bool { return want.Unserve && d.Served(want.Version) }

func (want Intent) hasDependents(f Facts) *refusal.Error {
	return refusal.New(HasDependents, want.command(f.CRD, want.Version, append(want.flags(), "--fix-owners")...),
		"ownerReferences of %s name %s of %s: %s; while it is not served, the garbage collector leaves these "+
			"objects behind when their owner is deleted", phrase.Objects(f.Dependents.Objects), want.Version, f.CRD.Metadata.Name,
		f.Dependents)
}

func (want Intent) pointingStep(f Facts) Step {
	n := f.Dependents
	step := Step{Pointing, Done, "no ownerReference names " + want.Version}
	switch {
	case n.Objects > 0 && want.FixOwners:
		step.State, step.What = Todo, fmt.Sprintf("move the ownerReferences of %s from %s to %s: %s", phrase.Objects(n.Objects),
			want.Version, moveTo(f.CRD, want.Version), n)
	case want.FixOwners: // clients may add some until the version is not served
		step.State, step.What = Todo, "look again for ownerReferences that name "+want.Version
	case n.Objects > 0:
		step.State, step.What = NotAsked, fmt.Sprintf("ownerReferences of %s name %s: %s; --fix-owners moves them",
			phrase.Objects(n.Objects), want.Version, n)
	case len(n.Unread) > 0:
		step.State, step.What = NotAsked, "no ownerReference that could be read names "+want.Version
	}
	if len(n.Unread) > 0 {
		step.What += "; resources that could not be listed: " + n.UnreadNames()
	}
	return step
}

// String names resources and a few dependents, for users.
func (d Dependents) String() string {
	const shown = 5
	var words []string
	for _, r := range d.Resources[:min(shown, len(d.Resources))] {
		names := strings.Join(r.Names, ", ")
		if r.Objects > int64(len(r.Names)) {
			names += ", …"
		}
		words = append(words, fmt.Sprintf("%d %s (%s)", r.Objects, r.Resource, names))
	}
	if more := len(d.Resources) - shown; more > 0 {
		words = append(words, fmt.Sprintf("and those of %d more resources", more))
	}
	return strings.Join(words, ", ")
}

// UnreadNames names the first few resources that could not be listed, with the reason for the first one.
func (d Dependents) UnreadNames() string {
	const shown = 5
	var words []string
	for i, u := range d.Unread[:min(shown, len(d.Unread))] {
		if i == 0 {
			u.Resource += " (" + u.Reason + ")"
		}
		words = append(words, u.Resource)
	}
	if more := len(d.Unread) - shown; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, ", ")
}

// apiVersions returns the apiVersion that references have, and the one that they get.
func apiVersions(d *crd.CRD, version string) (from, to string) {
	return d.Spec.Group + "/" + version, d.Spec.Group + "/" + moveTo(d, version)
}
