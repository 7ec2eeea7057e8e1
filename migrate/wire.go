// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/internal/printable"
)

const (
	// requestTimeout is a little more than the API server's own, so that its answer is heard.
	requestTimeout = 65 * time.Second
	// fieldManager names us where an API server asks who writes. An empty patch owns nothing.
	fieldManager = "kube-migrator"
	// applier is the field manager of an apply of no field. Nothing else may apply by this name: an apply removes what
	// its manager applied before and does not apply again.
	applier = "kube-migrator-rewrite"

	acceptList   = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	acceptObject = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

// statusSubresource is the subresource that Options.RetryThroughStatus names.
const statusSubresource = "status"

var (
	authorizationText = regexp.MustCompile(`is forbidden: User "[^"]*" cannot `)
	admissionDenial   = regexp.MustCompile(`admission webhook "[^"]*" denied the request`)
	policyDenial      = regexp.MustCompile(`ValidatingAdmissionPolicy '[^']*' with binding '[^']*' denied request: `)
)

// emptyPatch changes nothing: the API server decodes the object, and encodes and stores it again (I3).
var emptyPatch = []byte("{}")

// object is what the engine knows of an object: its name and its versions, never its content (I9).
type object struct {
	namespace, name string
	uid             types.UID // "" where it is not known
	resourceVersion string
	generation      int64
	owners, labels  digest
	ownedIn         ownedIn
}

// ownedIn says in which API versions the managedFields of an object are.
type ownedIn int

const (
	// unknownVersions: the object's metadata has not been read.
	unknownVersions ownedIn = iota
	// noVersion: the object has no managedFields.
	noVersion
	// oneVersion: all of them are in the version that the object was read in.
	oneVersion
	// otherVersions: at least one of them is in another version, to which the API server converts the object with
	// every write.
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

// key orders objects as etcd does.
func (o object) key() string {
	if o.namespace == "" {
		return o.name
	}
	return o.namespace + "/" + o.name
}

// objectOf is what the engine keeps of metadata that was read at an API version.
func objectOf(m *metav1.ObjectMeta, version string) object {
	return object{
		namespace: m.Namespace, name: m.Name, uid: m.UID, resourceVersion: m.ResourceVersion, generation: m.Generation,
		owners: ownersOf(m), labels: labelsOf(m), ownedIn: ownedInOf(m, version),
	}
}

// number reads a resourceVersion; 0 where it is not a number, as some aggregated API servers have it.
func number(resourceVersion string) uint64 {
	n, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// page is a part of the list of all objects.
type page struct {
	objects         []object
	resourceVersion uint64
	next            string // continue token; "" on the last page
	remaining       int64  // objects on later pages; -1 where the server does not say
	bytes           int
}

// wire speaks with the API server about one resource. Each method sends one request, rewrite at most two.
type wire struct {
	client rest.Interface
	target Target
	dryRun bool
	// conversionWebhook is Epoch.ConversionWebhook of the present pass.
	conversionWebhook bool
}

// path is the only place where the path of an object is made: it never leaves the resource (I3).
func (w *wire) path(o object, subresource ...string) (string, error) {
	if err := w.named(o); err != nil {
		return "", w.untrusted(err)
	}
	path, err := apipath.Object(w.target.Resource, o.namespace, o.name, subresource...)
	if err != nil {
		return "", w.untrusted(err)
	}
	return path, nil
}

// untrusted names the resource and the server in an error about what the server said.
func (w *wire) untrusted(err error) error {
	return fmt.Errorf("%w of the API server of %s, asked at %s: %w", ErrUntrustedAnswer,
		w.target.GroupResource(), w.host(), err)
}

func (w *wire) host() string { return w.client.Get().URL().Host }

const (
	// maxVersionBytes bounds a resourceVersion and a UID, which are opaque: Kubernetes' own have 20 and 36 bytes.
	maxVersionBytes = 256
	// maxTokenBytes bounds a continue token, which is kept in the checkpoint: that of a kube-apiserver holds a key.
	maxTokenBytes = 16 << 10
)

// named returns why an object cannot be one of the resource.
func (w *wire) named(o object) error {
	if err := apipath.Segment("name", o.name); err != nil {
		return err
	}
	switch {
	case w.target.Namespaced && o.namespace == "":
		return fmt.Errorf("%s has no namespace, and the resource is namespaced", printable.Quote(o.name))
	case !w.target.Namespaced && o.namespace != "":
		return fmt.Errorf("%s has the namespace %s, and the resource is cluster-scoped",
			printable.Quote(o.name), printable.Quote(o.namespace))
	case o.namespace != "":
		if err := apipath.Segment("namespace", o.namespace); err != nil {
			return err
		}
	}
	if len(o.resourceVersion) > maxVersionBytes || len(o.uid) > maxVersionBytes {
		return fmt.Errorf("the resourceVersion or the UID of %s has more than %d bytes",
			printable.Quote(o.key()), maxVersionBytes)
	}
	return nil
}

// about returns why an answer is not about the object that was asked for, or does not say what is stored now (I4).
func (w *wire) about(asked, answered object) error {
	if answered.name != asked.name || answered.namespace != asked.namespace {
		return fmt.Errorf("it answered about %s when it was asked for %s", printable.Quote(answered.key()), printable.Quote(asked.key()))
	}
	if answered.resourceVersion == "" && asked.resourceVersion != "" {
		return fmt.Errorf("its answer about %s has no resourceVersion", printable.Quote(asked.key()))
	}
	return w.named(answered)
}

var (
	// errMalformed: the API server, or something in between, sent something else than metadata.
	errMalformed = errors.New("malformed answer")
	// errReplaced: the object was deleted, and another one has its name. To be tried again with that one.
	errReplaced = errors.New("the object was deleted and created again")
	// errNotTheObject: a 404 that is not the API server's word about the object or its namespace: the resource is not
	// served, or something in between answered. It proves nothing about what is stored (I4).
	errNotTheObject = errors.New("404 that says nothing about the object")
)

// decode reads an answer that must be metadata of type T.
func decode[T runtime.Object](raw []byte) (T, error) {
	var none T
	decoded, err := apiserver.DecodeMetadata(raw)
	if err != nil {
		return none, fmt.Errorf("%w: %w", errMalformed, err)
	}
	typed, ok := decoded.(T)
	if !ok {
		return none, fmt.Errorf("%w: %T instead of %T", errMalformed, decoded, none)
	}
	return typed, nil
}

// list reads one page at the given version; more than maxBytes is not read (ErrAnswerTooLarge).
func (w *wire) list(ctx context.Context, version string, limit int64, token string, maxBytes int) (page, error) {
	ctx, cancel := context.WithTimeout(bounded.WithLimit(ctx, int64(maxBytes)), requestTimeout)
	defer cancel()
	path, err := apipath.Collection(w.target.Resource.GroupResource().WithVersion(version), "")
	if err != nil {
		return page{}, w.untrusted(err)
	}
	raw, err := bounded.Read(ctx, w.client.Get().AbsPath(path).MaxRetries(0).
		SetHeader("Accept", acceptList).
		Param("limit", strconv.FormatInt(limit, 10)).Param("continue", token))
	if err != nil {
		return page{}, err
	}
	if err := countItems(raw); err != nil {
		return page{}, err
	}
	list, err := decode[*metav1.PartialObjectMetadataList](raw)
	if err != nil {
		return page{}, err
	}
	p := page{
		objects: make([]object, len(list.Items)), resourceVersion: number(list.ResourceVersion),
		next: list.Continue, remaining: -1, bytes: len(raw),
	}
	apiVersion := w.target.Resource.GroupResource().WithVersion(version).GroupVersion().String()
	for i := range list.Items {
		p.objects[i] = objectOf(&list.Items[i].ObjectMeta, apiVersion)
		if err := w.named(p.objects[i]); err != nil {
			return page{}, w.untrusted(fmt.Errorf("it listed an object that cannot be one: %w", err))
		}
	}
	if len(p.next) > maxTokenBytes {
		return page{}, w.untrusted(fmt.Errorf("its continue token has %d bytes (at most %d)",
			len(p.next), maxTokenBytes))
	}
	switch {
	case list.RemainingItemCount != nil:
		p.remaining = *list.RemainingItemCount
	case list.Continue == "":
		p.remaining = 0
	}
	return p, nil
}

// rewrite has the API server store the object again, by a request that changes nothing, and returns the object as it is
// afterwards. An apply that fails for another reason than the webhook would fail each time, and is replaced by the empty
// patch: managedFields name a version that the CRD does not have, for instance.
//
// Through the subresource "status" the whole object is stored again, too.
func (w *wire) rewrite(ctx context.Context, o object, subresource ...string) (object, error) {
	if w.mayLoseOwners(o) {
		body, err := w.identity(o)
		if err != nil {
			return object{}, err
		}
		after, err := w.patch(ctx, o, types.ApplyPatchType, applier, body, subresource...)
		if classify(err) != faulty || strings.Contains(err.Error(), conversionWebhook) {
			return after, err
		}
	}
	return w.patch(ctx, o, w.form(), fieldManager, emptyPatch, subresource...)
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

// form is that of the empty patch.
func (w *wire) form() types.PatchType {
	if w.target.Origin == BuiltIn {
		return types.StrategicMergePatchType // a quarter of the server's work for a large object
	}
	return types.MergePatchType
}

// mayLoseOwners reports whether a merge patch could cost the object its managedFields (I3) because the webhook fails in
// the middle of it. Up to 1.36, an API server that cannot convert the object to the version of a managedFields entry
// removes all of them and stores the object (kubernetes/kubernetes#136919). Server-side apply answers with the error
// instead.
func (w *wire) mayLoseOwners(o object) bool {
	return w.conversionWebhook && o.ownedIn == otherVersions && o.uid != "" && w.target.Kind != ""
}

// identity is the body of a server-side apply that applies no field, so that its field manager owns nothing and no
// entry of managedFields comes of it. With the UID the API server creates nothing: it answers 409 if the object is
// gone.
func (w *wire) identity(o object) ([]byte, error) {
	version, kind := w.target.Resource.GroupVersion().WithKind(w.target.Kind).ToAPIVersionAndKind()
	return json.Marshal(metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: version, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: o.name, UID: o.uid},
	})
}

// known reads the metadata of an object where rewrite needs more of it than what a checkpoint keeps.
func (w *wire) known(ctx context.Context, o object) (object, error) {
	if !w.conversionWebhook || o.ownedIn != unknownVersions {
		return o, nil
	}
	return w.get(ctx, o)
}

// replaced finds out whether an apply was refused because the object is gone, or because another object has its name by
// now. It returns the object to rewrite next, and the error: the 404 of an object that is gone.
func (w *wire) replaced(ctx context.Context, o object, refusal error) (object, error) {
	if c := classify(refusal); !w.mayLoseOwners(o) || c != conflict && c != rejected {
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

// get reads the object's metadata.
func (w *wire) get(ctx context.Context, o object) (object, error) {
	path, err := w.path(o)
	if err != nil {
		return object{}, err
	}
	return w.object(ctx, w.client.Get().AbsPath(path), o)
}

func (w *wire) object(ctx context.Context, request *rest.Request, o object) (object, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	raw, err := bounded.Read(ctx, request.SetHeader("Accept", acceptObject).MaxRetries(0))
	if err != nil {
		if classify(err) == missing && !isAbout(err, o) {
			err = fmt.Errorf("%w: %w", errNotTheObject, err)
		}
		return object{}, err
	}
	m, err := decode[*metav1.PartialObjectMetadata](raw)
	if err != nil {
		return object{}, err
	}
	after := objectOf(&m.ObjectMeta, w.target.Resource.GroupVersion().String())
	if err := w.about(o, after); err != nil {
		return object{}, w.untrusted(err)
	}
	return after, nil
}

// isAbout reports whether a 404 is the API server's own and names the object or its namespace.
func isAbout(err error, o object) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsUnexpectedServerError(err) {
		return false
	}
	d := status.Status().Details
	return d != nil && d.Name != "" && (d.Name == o.name || d.Name == o.namespace)
}
