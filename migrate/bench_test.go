// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
)

// canned is a RoundTripper that gives the same answer to everything, in the encoding of the API server.
type canned []byte

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Request: r, ContentLength: int64(len(c)),
		Header: http.Header{"Content-Type": {"application/vnd.kubernetes.protobuf"}},
		Body:   io.NopCloser(bytes.NewReader(c))}, nil
}

// metadataOf is what an API server tells of object number i that two managers wrote.
func metadataOf(i int) metav1.PartialObjectMetadata {
	at := metav1.NewTime(time.Unix(1_700_000_000, 0))
	entry := func(manager string, operation metav1.ManagedFieldsOperationType, fields int) metav1.ManagedFieldsEntry {
		var set strings.Builder
		for f := range fields {
			fmt.Fprintf(&set, `,"f:field%d":{}`, f)
		}
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, APIVersion: "wardle.example.com/v1",
			Time: &at, FieldsType: "FieldsV1",
			FieldsV1: pruning.NewFields(`{"f:spec":{".":{}` + set.String() + `}}`)}
	}
	return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: fmt.Sprintf("object-%06d", i), UID: "b3a9a2a0-58b2-4a4e-9f42-0e3d6b1d6f10",
		ResourceVersion: fmt.Sprint(1000 + i), Generation: 3, CreationTimestamp: at,
		Labels:        map[string]string{"app.kubernetes.io/name": "demo", "app.kubernetes.io/part-of": "bench"},
		ManagedFields: []metav1.ManagedFieldsEntry{entry("kubectl", "Apply", 12), entry("controller", "Update", 4)},
	}}
}

// cannedWire is a wire to an API server that always answers with an object.
func cannedWire(b *testing.B, answer runtime.Object) *wire {
	b.Helper()
	answer.GetObjectKind().SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind(
		strings.TrimPrefix(fmt.Sprintf("%T", answer), "*v1.")))
	raw, err := runtime.Encode(protobuf.NewSerializer(nil, nil), answer)
	if err != nil {
		b.Fatal(err)
	}
	client, err := apiserver.NewClient(&rest.Config{Host: "http://example.com", Transport: canned(raw)})
	if err != nil {
		b.Fatal(err)
	}
	return &wire{client: client, target: Target{Kind: "Flunder", Namespaced: true, Origin: Custom,
		Resource: schema.GroupVersionResource{Group: "wardle.example.com", Version: "v1", Resource: "flunders"}}}
}

// A page of 500 objects, from the bytes of the answer to what the sweep keeps of them.
func BenchmarkPage(b *testing.B) {
	list := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "5000"}}
	for i := range 500 {
		list.Items = append(list.Items, metadataOf(i))
	}
	w := cannedWire(b, list)
	b.ReportAllocs()
	for b.Loop() {
		p, err := w.list(b.Context(), "v1", 500, "", 1<<20)
		if err != nil || len(p.objects) != 500 {
			b.Fatal(len(p.objects), err)
		}
	}
}

// One rewrite without the network: the request, and the answer to what the sweep compares.
func BenchmarkRewrite(b *testing.B) {
	answer := metadataOf(0)
	w := cannedWire(b, &answer)
	o := new(wire).objectOf(&answer.ObjectMeta, "wardle.example.com/v1")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.rewrite(b.Context(), o, false); err != nil {
			b.Fatal(err)
		}
	}
}
