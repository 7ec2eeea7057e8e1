// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

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

// metadata reads the answers the engine asks for, in protobuf and in JSON: lists and objects reduced to their
// metadata, and the API server's Status (I9).
var metadata = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	utilruntime.Must(metav1.AddMetaToScheme(scheme))
	return serializer.NewCodecFactory(scheme)
}()

// Considerate returns a copy of config whose clients, all of them together, send nothing while the API server asks them
// to wait (I7). Make every client that one sweep needs from one considerate config. No answer to these clients is read
// beyond the limit of its kind (I6, ErrAnswerTooLarge).
func Considerate(config *rest.Config) *rest.Config {
	c := bounded.Config(config)
	c.Wrap(new(pace.Gate).Wrap)
	return c
}

// NewClient returns a client for absolute paths that neither limits nor repeats requests on its own account: how fast
// to go and what to repeat is the engine's to decide (I7). JSON unless a request asks otherwise. No answer is read
// beyond the limit of its kind (I6): reading it fails with ErrAnswerTooLarge. The config is not changed.
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
