// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package genericserver_test

import (
	"context"
	"errors"
	"log"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"

	"github.com/kube-migrator/kube-migrator/storageversion"
	"github.com/kube-migrator/kube-migrator/storageversion/genericserver"
)

// What every server on k8s.io/apiserver has; a real one registers its types in the scheme.
var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme)
	stored = schema.GroupVersion{Group: "demo.example.com", Version: "v2"}
)

// widgets makes the stores of the group, and the APIGroupInfo with them.
func widgets(generic.RESTOptionsGetter) (*genericapiserver.APIGroupInfo, error) {
	return nil, errors.New("this is the part that differs between servers")
}

// run is a server on k8s.io/apiserver. What is there for this package is marked.
func run(ctx context.Context, o *genericoptions.RecommendedOptions) error {
	config := genericapiserver.NewRecommendedConfig(codecs)
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	if err := o.ApplyTo(config); err != nil {
		return err
	}
	// this package
	publication, err := genericserver.AddTo(config, storageversion.Options{Component: "widgets-apiserver"})
	if err != nil {
		return err
	}
	server, err := config.Complete().New("widgets-apiserver", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return err
	}
	group, err := widgets(config.RESTOptionsGetter)
	if err != nil {
		return err
	}
	// this package, instead of server.InstallAPIGroups(group)
	if err := publication.InstallAPIGroups(server, group); err != nil {
		return err
	}
	return server.PrepareRun().RunWithContext(ctx)
}

// A whole server on k8s.io/apiserver, without its types.
func ExampleAddTo() {
	o := genericoptions.NewRecommendedOptions("/registry/demo.example.com", codecs.LegacyCodec(stored))
	o.Etcd.StorageConfig.EncodeVersioner = stored // what discovery shows: the version that the codec encodes
	if err := run(genericapiserver.SetupSignalContext(), o); err != nil {
		log.Fatal(err)
	}
}
