// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/internal/pruning"
)

const (
	// fieldManager is our name where an API server asks for the writer. An empty patch owns no fields.
	fieldManager = "kube-migrator"
	// applier is the field manager of applies without fields. It must not be used for other applies: an apply removes
	// fields that its manager applied before and does not apply again.
	applier = "kube-migrator-rewrite"
)

// emptyPatch changes nothing: the API server decodes the object, and encodes and stores it again (I3).
var emptyPatch = []byte("{}")

// ownedIn says to which API versions the managedFields of an object refer.
type ownedIn int

const (
	// unknownVersions means that the object's metadata has not been read.
	unknownVersions ownedIn = iota
	// noVersion means that the object has no managedFields.
	noVersion
	// oneVersion means that all of them refer to the version in which the object was read.
	oneVersion
	// otherVersions means that at least one of them refers to another version, to which the API server converts the
	// object in every write.
	otherVersions
)

func ownedInOf(m *metav1.ObjectMeta, version string) ownedIn {
	in := noVersion
	for i := range m.ManagedFields {
		if m.ManagedFields[i].APIVersion != version {
			return otherVersions
		}
		in = oneVersion
	}
	return in
}

// rewrite makes the API server store the object again, with a request that changes nothing, and returns the object as
// it is afterwards. An apply that fails is replaced by the patch {}. If the patch could lose managedFields, that
// happens only if the apply would fail each time: by the API server's words (see hopeless), or because this is the last
// attempt.
//
// A request to the subresource "status" stores the whole object again, too.
func (w *wire) rewrite(ctx context.Context, o object, lastAttempt bool, subresource ...string) (object, error) {
	if len(o.loses) > 0 {
		return object{}, &pruning.LossError{Fields: o.loses}
	}
	applied := w.applies(o)
	if applied {
		body, err := w.identity(o)
		if err != nil {
			return object{}, err
		}
		after, err := w.patch(ctx, o, types.ApplyPatchType, applier, body, subresource...)
		if classify(err) != faulty || w.mayLoseOwners(o) && !hopeless(err, lastAttempt) {
			return after, err
		}
	}
	after, err := w.patch(ctx, o, w.form(), fieldManager, emptyPatch, subresource...)
	if applied && err == nil {
		w.failedApplies.Add(1)
	}
	return after, err
}

// hopeless reports whether an apply fails each time, and not because of the webhook. Two reasons have a known wording:
// managedFields name a version that the CRD does not have, and a list that is a map contains a key twice. For others,
// all attempts are made.
func hopeless(err error, lastAttempt bool) bool {
	text := err.Error()
	return !strings.Contains(text, conversionWebhook) && (lastAttempt ||
		strings.Contains(text, "invalid group/version") || strings.Contains(text, "duplicate entries for key"))
}

func (w *wire) patch(ctx context.Context, o object, form types.PatchType, manager string, body []byte,
	subresource ...string) (object, error) {
	path, err := w.path(o, subresource...)
	if err != nil {
		return object{}, err
	}
	request := w.client.Patch(form).AbsPath(path).
		Param("fieldManager", manager).Param("fieldValidation", metav1.FieldValidationIgnore).
		Body(body)
	if w.dryRun {
		request.Param("dryRun", metav1.DryRunAll)
	}
	return w.object(ctx, request, o)
}

// form returns the content type of the patch {}.
func (w *wire) form() types.PatchType {
	if w.target.Origin == BuiltIn {
		return types.StrategicMergePatchType // a quarter of the server's work for a large object
	}
	return types.MergePatchType
}

// maxFailedApplies is the number of objects whose apply may fail, although their patch {} succeeds, before no more
// applies are sent because they are cheaper. Each of them costs two requests, and the API server counts an error.
const maxFailedApplies = 20

// applies reports whether an object is rewritten by a server-side apply of no field instead of a patch {}: where
// that is cheaper, and where the patch could lose managedFields. An object without managedFields would get an entry.
func (w *wire) applies(o object) bool {
	if o.uid == "" || w.target.Kind == "" || o.ownedIn == noVersion || o.ownedIn == unknownVersions {
		return false
	}
	// For a custom resource an apply costs the API server less CPU than a merge patch, the more so the larger it is.
	cheaper := w.target.Origin == Custom && w.failedApplies.Load() < maxFailedApplies
	return cheaper || w.mayLoseOwners(o)
}

// mayLoseOwners reports whether the object could lose its managedFields in a merge patch (I3) because the webhook fails
// during it. Up to 1.36, an API server that cannot convert the object to the version of a managedFields entry removes
// all of them and stores the object (kubernetes/kubernetes#136919). In a server-side apply it returns the error
// instead.
func (w *wire) mayLoseOwners(o object) bool { return w.conversionWebhook && o.ownedIn == otherVersions }

// identity returns the body of a server-side apply without fields, so that its field manager owns nothing and adds no
// entry to managedFields. Because of the UID the API server creates nothing: it answers 409 if the object is gone.
func (w *wire) identity(o object) ([]byte, error) {
	version, kind := w.target.Resource.GroupVersion().WithKind(w.target.Kind).ToAPIVersionAndKind()
	return json.Marshal(metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: version, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: o.name, UID: o.uid},
	})
}

// known reads the metadata of an object if rewrite needs more of it than a checkpoint contains.
func (w *wire) known(ctx context.Context, o object) (object, error) {
	if !w.conversionWebhook && w.pruned == nil || o.ownedIn != unknownVersions {
		return o, nil
	}
	return w.get(ctx, o)
}

// replaced finds out whether an apply was refused because the object is gone, or because another object has its name by
// now. It returns the object to rewrite next, and the error: the 404 of an object that is gone.
func (w *wire) replaced(ctx context.Context, o object, refusal error) (object, error) {
	if c := classify(refusal); !w.applies(o) || c != conflict && c != rejected {
		return o, refusal
	}
	now, err := w.get(ctx, o)
	switch {
	case classify(err) == missing:
		return o, err
	case err != nil || now.uid == o.uid:
		return o, refusal
	}
	return now, fmt.Errorf("%w: %w", errReplaced, refusal)
}
