// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package apiserver makes the client with which kube-migrator sends its requests to API servers.
//
// All code sends requests through a rest.Interface with absolute paths: typed clients of all API groups would take more
// memory than the whole program may use. This package owns how such a client is configured. It sends nothing itself.
package apiserver

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/internal/pace"
)

// metadata has the types of lists and objects that are reduced to their metadata, and the API server's Status, in
// protobuf and in JSON (I9).
var metadata = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	utilruntime.Must(metav1.AddMetaToScheme(scheme))
	return serializer.NewCodecFactory(scheme)
}()

// NewClient returns a client for absolute paths. It neither limits the rate of requests nor repeats them: how fast to
// go and what to repeat is for the caller to decide (I7). Answers are JSON unless a request asks for something else. No
// answer is read beyond the limit of its kind (I6): reading it then fails with bounded.ErrTooLarge. NewClient does not
// change config.
func NewClient(config *rest.Config) (rest.Interface, error) {
	c := rest.CopyConfig(config)
	c.Wrap(pace.Metered(c.DisableCompression))
	c = bounded.Config(c) // outside of what decompresses
	c.QPS, c.RateLimiter = -1, nil
	c.WarningHandler = rest.NoWarnings{}
	c.NegotiatedSerializer = metadata.WithoutConversion()
	if c.UserAgent == "" {
		c.UserAgent = "kube-migrator"
	}
	client, err := rest.UnversionedRESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("configure client: %w", err)
	}
	return client, nil
}

// DecodeMetadata decodes an answer that holds metadata only: a *metav1.PartialObjectMetadata, a
// *metav1.PartialObjectMetadataList or a *metav1.Status.
func DecodeMetadata(answer []byte) (runtime.Object, error) {
	return runtime.Decode(metadata.UniversalDeserializer(), answer)
}
