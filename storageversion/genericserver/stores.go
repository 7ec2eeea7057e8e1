// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package genericserver

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/kube-migrator/kube-migrator/storageversion"
)

// stores is a RESTOptionsGetter that notes the codec of each store that is made with it.
type stores struct {
	generic.RESTOptionsGetter

	mu     sync.RWMutex
	codecs map[schema.GroupResource]runtime.Codec
	// byType has the same codecs: a store may be installed in a second group, under a resource that it does not name.
	byType map[reflect.Type]runtime.Codec
}

func newStores(getter generic.RESTOptionsGetter) *stores {
	return &stores{
		RESTOptionsGetter: getter, codecs: map[schema.GroupResource]runtime.Codec{},
		byType: map[reflect.Type]runtime.Codec{},
	}
}

// GetRESTOptions is called by Store.CompleteWithOptions, with an example. Without one, the server's configuration asks
// where a resource would be stored.
func (s *stores) GetRESTOptions(r schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := s.RESTOptionsGetter.GetRESTOptions(r, example)
	if err == nil && example != nil && options.StorageConfig != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.codecs[r] = options.StorageConfig.Codec
		s.byType[reflect.TypeOf(example)] = options.StorageConfig.Codec
	}
	return options, err
}

func (s *stores) has(r schema.GroupResource) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := s.codecs[r]
	return ok
}

// named are the resources whose stores were made, sorted.
func (s *stores) named() []schema.GroupResource {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.SortedFunc(maps.Keys(s.codecs), func(a, b schema.GroupResource) int {
		return strings.Compare(a.String(), b.String())
	})
}

// codec returns the storage codec of a resource.
func (s *stores) codec(r schema.GroupResource, example runtime.Object) runtime.Codec {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if codec := s.codecs[r]; codec != nil {
		return codec
	}
	return s.byType[reflect.TypeOf(example)]
}

// resources returns what the server stores of a group, in a stable order.
func (s *stores) resources(group *genericapiserver.APIGroupInfo) ([]storageversion.Resource, error) {
	storages, served := map[schema.GroupResource]rest.Storage{}, map[schema.GroupResource][]schema.GroupVersion{}
	for _, version := range group.PrioritizedVersions {
		for name, storage := range group.VersionedResourcesStorageMap[version.Version] {
			r := schema.GroupResource{Group: version.Group, Resource: name}
			if _, provides := storage.(rest.StorageVersionProvider); strings.Contains(name, "/") ||
				!provides && !s.has(r) {
				continue // a subresource, or not persisted
			}
			storages[r] = storage
			served[r] = append(served[r], version)
		}
	}
	var found []storageversion.Resource
	for r, storage := range storages {
		resource, err := s.resource(r, storage, group.Scheme)
		if err != nil {
			return nil, fmt.Errorf("resource %s: %w", r, err)
		}
		resource.ServedVersions = served[r]
		found = append(found, resource)
	}
	slices.SortFunc(found, func(a, b storageversion.Resource) int { return strings.Compare(a.String(), b.String()) })
	return found, nil
}

func (s *stores) resource(r schema.GroupResource, storage rest.Storage, scheme *runtime.Scheme) (
	found storageversion.Resource, err error,
) {
	example := storage.New()
	codec := s.codec(r, example)
	if codec == nil {
		return found, errors.New("its store was not made with the RESTOptionsGetter of the server's configuration, as " +
			"AddTo has left it: the version that it stores is unknown")
	}
	encoding, err := encodes(codec, example, scheme)
	if err != nil {
		return found, err
	}
	kinds, _, err := scheme.ObjectKinds(example)
	if err != nil {
		return found, err
	}
	if provider, ok := storage.(rest.StorageVersionProvider); ok && provider.StorageVersion() != nil {
		shown, ok := provider.StorageVersion().KindForGroupVersionKinds(kinds)
		if !ok || shown != encoding {
			return found, fmt.Errorf("its store writes %s, and discovery would show %s: let StorageConfig.EncodeVersioner "+
				"choose the version that StorageConfig.Codec encodes", encoding, shown)
		}
	}
	found = storageversion.Resource{GroupResource: r, EncodingVersion: encoding.GroupVersion()}
	candidates := []schema.GroupKind{encoding.GroupKind()}
	for _, kind := range kinds {
		if !slices.Contains(candidates, kind.GroupKind()) {
			candidates = append(candidates, kind.GroupKind())
		}
	}
	for _, kind := range candidates {
		for _, version := range scheme.VersionsForGroupKind(kind) {
			if decodes(codec, version.WithKind(kind.Kind)) {
				found.DecodableVersions = append(found.DecodableVersions, version)
			}
		}
	}
	return found, nil
}

// encodes returns as what a codec encodes an object.
func encodes(codec runtime.Codec, example runtime.Object, scheme *runtime.Scheme) (schema.GroupVersionKind, error) {
	raw, err := runtime.Encode(codec, example)
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("encode an object with its storage codec: %w", err)
	}
	codecs := serializer.NewCodecFactory(scheme, serializer.WithSerializer(cbor.NewSerializerInfo))
	_, kind, err := codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("read what its storage codec has encoded: %w", err)
	}
	return *kind, nil
}

// decodes reports whether a codec decodes a version.
func decodes(codec runtime.Codec, kind schema.GroupVersionKind) bool {
	version, name := kind.ToAPIVersionAndKind()
	_, err := runtime.Decode(codec, fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q}`, version, name))
	return err == nil
}
