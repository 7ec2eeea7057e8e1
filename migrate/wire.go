// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

const (
	// requestTimeout is a little more than the API server's own, so that its answer is heard.
	requestTimeout = 65 * time.Second
	// fieldManager names us where an API server asks who writes. An empty patch owns nothing.
	fieldManager = "kube-migrator"

	acceptList   = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	acceptObject = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

var (
	authorizationText = regexp.MustCompile(`is forbidden: User "[^"]*" cannot `)
	admissionDenial   = regexp.MustCompile(`admission webhook "[^"]*" denied the request`)
)

// emptyPatch changes nothing: the API server decodes the object, and encodes and stores it again (I3).
var emptyPatch = []byte("{}")

// object is what the engine knows of an object: its name and its versions, never its content (I9).
type object struct {
	namespace, name string
	uid             types.UID
	resourceVersion string
	generation      int64
	owners, labels  digest
}

// key orders objects as etcd does.
func (o object) key() string {
	if o.namespace == "" {
		return o.name
	}
	return o.namespace + "/" + o.name
}

func objectOf(m *metav1.ObjectMeta) object {
	return object{
		namespace: m.Namespace, name: m.Name, uid: m.UID, resourceVersion: m.ResourceVersion, generation: m.Generation,
		owners: ownersOf(m), labels: labelsOf(m),
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

// wire speaks with the API server about one resource. Each method sends one request.
type wire struct {
	client rest.Interface
	target Target
	dryRun bool
}

func (w *wire) root(version string) []string {
	if w.target.Resource.Group == "" {
		return []string{"/api", version}
	}
	return []string{"/apis", w.target.Resource.Group, version}
}

func (w *wire) collection(version string) []string {
	return append(w.root(version), w.target.Resource.Resource)
}

func (w *wire) path(o object) []string {
	segments := w.root(w.target.Resource.Version)
	if o.namespace != "" {
		segments = append(segments, "namespaces", o.namespace)
	}
	return append(segments, w.target.Resource.Resource, o.name)
}

var (
	// errTooLarge: the page is larger than a sweep may hold in memory (I6).
	errTooLarge = errors.New("page too large")
	// errMalformed: the API server, or something in between, sent something else than metadata.
	errMalformed = errors.New("malformed answer")
	// errNotTheObject: a 404 that is not the API server's word about the object or its namespace: the resource is not
	// served, or something in between answered. It proves nothing about what is stored (I4).
	errNotTheObject = errors.New("404 that says nothing about the object")
)

// decode reads an answer that must be metadata of type T.
func decode[T runtime.Object](raw []byte) (T, error) {
	var none T
	decoded, err := runtime.Decode(metadata.UniversalDeserializer(), raw)
	if err != nil {
		return none, fmt.Errorf("%w: %w", errMalformed, err)
	}
	typed, ok := decoded.(T)
	if !ok {
		return none, fmt.Errorf("%w: %T instead of %T", errMalformed, decoded, none)
	}
	return typed, nil
}

// list reads one page at the given version; more than maxBytes is not read (errTooLarge).
func (w *wire) list(ctx context.Context, version string, limit int64, token string, maxBytes int) (page, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := w.client.Get().AbsPath(w.collection(version)...).MaxRetries(0).
		SetHeader("Accept", acceptList).
		Param("limit", strconv.FormatInt(limit, 10)).Param("continue", token).
		Stream(ctx)
	if err != nil {
		return page{}, err
	}
	defer body.Close()
	raw, err := io.ReadAll(io.LimitReader(body, int64(maxBytes)+1))
	if err != nil {
		return page{}, fmt.Errorf("read list: %w", err)
	}
	if len(raw) > maxBytes {
		return page{}, errTooLarge
	}
	list, err := decode[*metav1.PartialObjectMetadataList](raw)
	if err != nil {
		return page{}, err
	}
	p := page{
		objects: make([]object, len(list.Items)), resourceVersion: number(list.ResourceVersion),
		next: list.Continue, remaining: -1, bytes: len(raw),
	}
	for i := range list.Items {
		p.objects[i] = objectOf(&list.Items[i].ObjectMeta)
	}
	switch {
	case list.RemainingItemCount != nil:
		p.remaining = *list.RemainingItemCount
	case list.Continue == "":
		p.remaining = 0
	}
	return p, nil
}

// rewrite sends the empty patch and returns the object as it is afterwards.
func (w *wire) rewrite(ctx context.Context, o object) (object, error) {
	patch := types.MergePatchType
	if w.target.Origin == BuiltIn {
		patch = types.StrategicMergePatchType // a quarter of the server's work for a large object
	}
	request := w.client.Patch(patch).AbsPath(w.path(o)...).
		Param("fieldManager", fieldManager).Param("fieldValidation", metav1.FieldValidationIgnore).
		Body(emptyPatch)
	if w.dryRun {
		request.Param("dryRun", metav1.DryRunAll)
	}
	return w.object(ctx, request, o)
}

// get reads the object's metadata.
func (w *wire) get(ctx context.Context, o object) (object, error) {
	return w.object(ctx, w.client.Get().AbsPath(w.path(o)...), o)
}

func (w *wire) object(ctx context.Context, request *rest.Request, o object) (object, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	raw, err := answer(request.SetHeader("Accept", acceptObject).MaxRetries(0).Do(ctx))
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
	return objectOf(&m.ObjectMeta), nil
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

// answer returns an answer as it is. The error is that of rest.Result.Error, which unlike that of Raw holds what the
// API server said.
func answer(result rest.Result) ([]byte, error) {
	raw, err := result.Raw()
	if err != nil {
		return nil, result.Error()
	}
	return raw, nil
}
