// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package apiserver makes the client with which kube-migrator sends its requests to API servers, and sends requests
// whose answers are JSON.
//
// All code sends requests through a rest.Interface with absolute paths: typed clients of all API groups would take more
// memory than the whole program may use. This package owns how such a client is configured, and Send, which returns the
// API server's own error. It decides neither what to request nor what to repeat.
package apiserver

import (
	"fmt"
	"net/http"

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
func NewClient(config *rest.Config) (rest.Interface, error) { return newClient(config, "") }

// NewClientApart is NewClient, but shares no connection with other clients of the config: a load balancer may lead it to
// another API server. A transport that was made by hand decides for itself.
func NewClientApart(config *rest.Config) (rest.Interface, error) {
	c := rest.CopyConfig(config)
	if c.Proxy == nil && c.Transport == nil {
		c.Proxy = http.ProxyFromEnvironment // what would be used anyway; transports with a Proxy are not shared
	}
	return newClient(c, "")
}

// newClient is NewClient, or NewClientAt if own is the address of an API server. Plugins for authentication know the
// cluster by the address in config, so the connection is configured with that one.
func newClient(config *rest.Config, own string) (rest.Interface, error) {
	c := rest.CopyConfig(config)
	c.Wrap(pace.Metered(c.DisableCompression))
	c = bounded.Config(c) // outside of what decompresses
	c.QPS, c.RateLimiter = -1, nil
	c.AcceptContentTypes = "application/json"
	c.WarningHandler = rest.NoWarnings{}
	c.NegotiatedSerializer = metadata.WithoutConversion()
	if c.UserAgent == "" {
		c.UserAgent = "kube-migrator"
	}
	shared, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("configure client: %w", err)
	}
	connection := *shared // which may be http.DefaultClient
	if own != "" {
		c.Host, c.APIPath = "https://"+own, ""
		connection.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	client, err := rest.UnversionedRESTClientForConfigAndClient(c, &connection)
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
