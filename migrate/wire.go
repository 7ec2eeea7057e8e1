// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"regexp"
	"strconv"
	"sync/atomic"
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
	"github.com/kube-migrator/kube-migrator/internal/pruning"
)

const (
	// requestTimeout is a little longer than the API server's own timeout, so that its answer still arrives.
	requestTimeout = 65 * time.Second

	acceptList   = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	acceptObject = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

// statusSubresource is the subresource of Options.RetryThroughStatus.
const statusSubresource = "status"

var (
	authorizationText = regexp.MustCompile(`is forbidden: User "[^"]*" cannot `)
	admissionDenial   = regexp.MustCompile(`admission webhook "[^"]*" denied the request`)
	policyDenial      = regexp.MustCompile(`ValidatingAdmissionPolicy '[^']*' with binding '[^']*' denied request: `)
)

// object is what the engine knows about an object: its name and its versions, never its content (I9).
type object struct {
	namespace, name string
	uid             types.UID // "" if it is unknown
	resourceVersion string
	generation      int64
	owners, labels  digest
	ownedIn         ownedIn
	// loses are the fields that a rewrite would drop. Such an object is not rewritten (I3).
	loses []string
}

// key returns the key by which etcd orders objects.
func (o object) key() string {
	if o.namespace == "" {
		return o.name
	}
	return o.namespace + "/" + o.name
}

// objectOf returns what the engine keeps of metadata that was read at an API version.
func (w *wire) objectOf(m *metav1.ObjectMeta, version string) object {
	o := object{
		namespace: m.Namespace, name: m.Name, uid: m.UID, resourceVersion: m.ResourceVersion, generation: m.Generation,
		owners: ownersOf(m), labels: labelsOf(m), ownedIn: ownedInOf(m, version),
	}
	if w.pruned != nil {
		o.loses = w.pruned.Lost(m.ManagedFields)
	}
	return o
}

// number parses a resourceVersion. It returns 0 if that is not a number, as on some aggregated API servers.
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
	remaining       int64  // objects on later pages; -1 if the server does not say
	bytes           int
}

// wire sends requests about one resource to the API server. Each method sends one request, rewrite up to two.
type wire struct {
	client rest.Interface
	target Target
	dryRun bool
	// conversionWebhook is Epoch.ConversionWebhook of the current pass.
	conversionWebhook bool
	// pruned tells which fields of an object a rewrite would drop. nil: none.
	pruned *pruning.Rule
	// failedApplies counts the objects whose apply failed and whose empty patch succeeded, at any server.
	failedApplies *atomic.Int64
}

func newWire(client rest.Interface, target Target, dryRun bool) *wire {
	return &wire{client: client, target: target, dryRun: dryRun, failedApplies: new(atomic.Int64)}
}

// path is the only function that builds the path of an object. The path never leaves the resource (I3).
func (w *wire) path(o object, subresource ...string) (string, error) {
	if err := w.named(o); err != nil {
		return "", w.untrusted(err)
	}
	path, err := apipath.Object(w.target.Resource, o.namespace, o.name, subresource...)
	if err != nil {
		return "", w.untrusted(err)
	}
	if escaped := (&url.URL{Path: path}).EscapedPath(); len(escaped) > maxPathBytes {
		return "", fmt.Errorf("%w: its path has %d bytes (at most %d)", errUnnamable, len(escaped), maxPathBytes)
	}
	return path, nil
}

// untrusted adds the resource and the server to an error about an answer.
func (w *wire) untrusted(err error) error {
	return fmt.Errorf("%w of the API server of %s, asked at %s: %w", ErrUntrustedAnswer,
		w.target.GroupResource(), w.host(), err)
}

func (w *wire) host() string { return w.client.Get().URL().Host }

const (
	// maxVersionBytes bounds a resourceVersion and a UID, which are opaque: Kubernetes' own have 20 and 36 bytes.
	maxVersionBytes = 256
	// maxPathBytes bounds the escaped path of a request: API servers refuse a request whose URL and headers have more
	// than 1 MiB.
	maxPathBytes = 960 << 10
)

// named returns why a listed object cannot be one of the resource, or nil.
func (w *wire) named(o object) error {
	name, namespace := apipath.Segment("name", o.name), apipath.Segment("namespace", o.namespace)
	switch {
	case w.target.Namespaced && o.namespace == "":
		return fmt.Errorf("%s has no namespace, and the resource is namespaced", printable.Quote(o.name))
	case !w.target.Namespaced && o.namespace != "":
		return fmt.Errorf("%s has the namespace %s, and the resource is cluster-scoped",
			printable.Quote(o.name), printable.Quote(o.namespace))
	case name != nil && o.namespace != "":
		return fmt.Errorf("%w, in the namespace %s", name, printable.Quote(o.namespace))
	case name != nil:
		return name
	case o.namespace != "" && namespace != nil:
		return fmt.Errorf("%w, of %s", namespace, printable.Quote(o.name))
	}
	if len(o.resourceVersion) > maxVersionBytes || len(o.uid) > maxVersionBytes {
		return fmt.Errorf("the resourceVersion or the UID of %s has more than %d bytes",
			printable.Quote(o.key()), maxVersionBytes)
	}
	return nil
}

// about returns why an answer is not about the requested object, or does not say what is stored now (I4).
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
	// errMalformed reports that the API server, or something in between, sent something other than metadata.
	errMalformed = apiserver.ErrMalformed
	// errReplaced reports that the object was deleted and another one has its name. The caller tries again with the new
	// one.
	errReplaced = errors.New("the object was deleted and created again")
	// errNotTheObject reports a 404 that is not the API server's statement about the object or its namespace: the
	// resource is not served, or something in between answered. It proves nothing about what is stored (I4).
	errNotTheObject = errors.New("404 that says nothing about the object")
	// errUnnamable reports that the name of an object is too long for a request. No request was sent.
	errUnnamable = errors.New("the name is too long for a request about the object")
)

// decode parses an answer that must be metadata of type T.
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

// list reads one page at the given version. It fails with ErrAnswerTooLarge after maxBytes.
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
		p.objects[i] = w.objectOf(&list.Items[i].ObjectMeta, apiVersion)
		if err := w.named(p.objects[i]); err != nil {
			return page{}, w.untrusted(fmt.Errorf("it listed an object that cannot be one: %w", err))
		}
	}
	switch {
	case list.RemainingItemCount != nil:
		p.remaining = *list.RemainingItemCount
	case list.Continue == "":
		p.remaining = 0
	}
	return p, nil
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
	after := w.objectOf(&m.ObjectMeta, w.target.Resource.GroupVersion().String())
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

// digest is what the sweep keeps of an object's metadata to detect changes (I6, I9). 0 means no metadata.
type digest uint64

// ownersOf digests who set which fields, and when. Every client's write changes it. Changes by admission do not,
// because the API server computes managedFields before admission runs.
func ownersOf(m *metav1.ObjectMeta) digest {
	if len(m.ManagedFields) == 0 {
		return 0
	}
	return digestOf(m.ManagedFields)
}

// labelsOf digests the metadata that clients and admission set.
func labelsOf(m *metav1.ObjectMeta) digest {
	return digestOf([]any{m.Labels, m.Annotations, m.Finalizers, m.OwnerReferences})
}

func digestOf(value any) digest {
	h := fnv.New64a()
	if err := json.NewEncoder(h).Encode(value); err != nil {
		return 0 // cannot happen for metadata that was decoded from JSON or protobuf
	}
	return max(1, digest(h.Sum64()))
}
