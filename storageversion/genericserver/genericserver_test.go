// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package genericserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	restclient "k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/compare"

	"github.com/kube-migrator/kube-migrator/storageversion"
)

const group = "demo.example.com"

var (
	v1      = schema.GroupVersion{Group: group, Version: "v1"}
	v2      = schema.GroupVersion{Group: group, Version: "v2"}
	hub     = schema.GroupVersion{Group: group, Version: runtime.APIVersionInternal}
	widgets = schema.GroupResource{Group: group, Resource: "widgets"}
)

// widget looks the same in all versions.
type widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

func (w *widget) DeepCopyObject() runtime.Object {
	c := *w
	w.DeepCopyInto(&c.ObjectMeta)
	return &c
}

func schemeOf(versions ...schema.GroupVersion) *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	for _, version := range append(versions, hub) {
		s.AddKnownTypeWithName(version.WithKind("Widget"), &widget{})
	}
	return s
}

// storage has the methods of a store that decide what is published.
type storage struct{ versioner runtime.GroupVersioner }

func (storage) New() runtime.Object                      { return &widget{} }
func (storage) Destroy()                                 {}
func (s storage) StorageVersion() runtime.GroupVersioner { return s.versioner }

// virtual is a storage that persists nothing.
type virtual struct{}

func (virtual) New() runtime.Object { return &widget{} }
func (virtual) Destroy()            {}

// configOf is the configuration of a server that stores with a codec.
func configOf(codec runtime.Codec) *genericapiserver.RecommendedConfig {
	config := genericapiserver.NewRecommendedConfig(serializer.NewCodecFactory(schemeOf(v1, v2)))
	config.ClientConfig = &restclient.Config{Host: "https://192.0.2.1"}
	config.RESTOptionsGetter = generic.RESTOptions{StorageConfig: &storagebackend.ConfigForResource{
		Config: storagebackend.Config{Codec: codec},
	}}
	return config
}

func publicationOf(t *testing.T, config *genericapiserver.RecommendedConfig) *Publication {
	t.Helper()
	p, err := AddTo(config, storageversion.Options{Component: "widgets-apiserver"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// complete does what Store.CompleteWithOptions does.
func complete(t *testing.T, config *genericapiserver.RecommendedConfig, r schema.GroupResource) {
	t.Helper()
	if _, err := config.RESTOptionsGetter.GetRESTOptions(r, &widget{}); err != nil {
		t.Fatal(err)
	}
}

// groupOf serves widgets as v1.
func groupOf(s rest.Storage) *genericapiserver.APIGroupInfo {
	return &genericapiserver.APIGroupInfo{
		PrioritizedVersions: []schema.GroupVersion{v1, v2}, Scheme: schemeOf(v1, v2),
		VersionedResourcesStorageMap: map[string]map[string]rest.Storage{
			"v1": {"widgets": s, "widgets/status": s, "widgetreviews": virtual{}},
		},
	}
}

func TestWhatIsPublishedIsWhatTheStorageCodecDoes(t *testing.T) {
	versions := []schema.GroupVersion{v1, v2}
	for name, test := range map[string]struct {
		codec runtime.Codec
		store rest.Storage
		want  storageversion.Resource
	}{
		"the codec encodes v1": {
			codec: serializer.NewCodecFactory(schemeOf(v1, v2)).LegacyCodec(v1), store: storage{v1},
			want: storageversion.Resource{EncodingVersion: v1, DecodableVersions: versions},
		},
		"the codec encodes v2": {
			codec: serializer.NewCodecFactory(schemeOf(v1, v2)).LegacyCodec(v2), store: storage{v2},
			want: storageversion.Resource{EncodingVersion: v2, DecodableVersions: versions},
		},
		"the codec decodes fewer versions than the scheme has": {
			codec: serializer.NewCodecFactory(schemeOf(v1)).LegacyCodec(v1), store: storage{v1},
			want: storageversion.Resource{EncodingVersion: v1, DecodableVersions: []schema.GroupVersion{v1}},
		},
		"discovery shows no hash": {
			codec: serializer.NewCodecFactory(schemeOf(v1, v2)).LegacyCodec(v2), store: storage{},
			want: storageversion.Resource{EncodingVersion: v2, DecodableVersions: versions},
		},
		"a storage of the author's own uses the RESTOptionsGetter": {
			codec: serializer.NewCodecFactory(schemeOf(v1, v2)).LegacyCodec(v2), store: virtual{},
			want: storageversion.Resource{EncodingVersion: v2, DecodableVersions: versions},
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := configOf(test.codec)
			p := publicationOf(t, config)
			complete(t, config, widgets)
			if err := p.add([]*genericapiserver.APIGroupInfo{groupOf(test.store)}); err != nil {
				t.Fatal(err)
			}
			test.want.GroupResource, test.want.ServedVersions = widgets, []schema.GroupVersion{v1}
			if diff := compare.Diff([]storageversion.Resource{test.want}, p.resources); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAServerDoesNotStartThatWouldShowSomethingElseThanItStores(t *testing.T) {
	codec := serializer.NewCodecFactory(schemeOf(v1, v2)).LegacyCodec(v2)
	for name, test := range map[string]struct {
		before bool
		store  rest.Storage
		want   string
	}{
		"discovery shows another version than the codec encodes": {store: storage{v1}, want: "discovery would show"},
		"the store was made before AddTo":                        {before: true, store: storage{v2}, want: "was not made with"},
	} {
		t.Run(name, func(t *testing.T) {
			config := configOf(codec)
			if test.before {
				complete(t, config, widgets)
			}
			p := publicationOf(t, config)
			if !test.before {
				complete(t, config, widgets)
			}
			err := p.add([]*genericapiserver.APIGroupInfo{groupOf(test.store)})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func TestAddToRefusesAConfigurationThatIsNotComplete(t *testing.T) {
	for name, change := range map[string]func(*genericapiserver.RecommendedConfig, *storageversion.Options){
		"without the RESTOptionsGetter": func(c *genericapiserver.RecommendedConfig, _ *storageversion.Options) {
			c.RESTOptionsGetter = nil
		},
		"without a cluster": func(c *genericapiserver.RecommendedConfig, _ *storageversion.Options) {
			c.ClientConfig = nil
		},
		"with resources of the author's": func(_ *genericapiserver.RecommendedConfig, o *storageversion.Options) {
			o.Resources = []storageversion.Resource{{GroupResource: widgets, EncodingVersion: v1}}
		},
	} {
		config, o := configOf(nil), storageversion.Options{Component: "widgets-apiserver"}
		change(config, &o)
		if _, err := AddTo(config, o); err == nil {
			t.Errorf("%s it is taken", name)
		}
	}
}

func TestTheHandlerChainRefusesWritesUntilTheyArePublished(t *testing.T) {
	config := configOf(serializer.NewCodecFactory(schemeOf(v1, v2)).LegacyCodec(v2))
	config.BuildHandlerChainFunc = func(handler http.Handler, _ *genericapiserver.Config) http.Handler {
		resolver := &genericrequest.RequestInfoFactory{APIPrefixes: sets.NewString("apis")}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			info, err := resolver.NewRequestInfo(r)
			if err != nil {
				t.Error(err)
			}
			handler.ServeHTTP(w, r.WithContext(genericrequest.WithRequestInfo(r.Context(), info)))
		})
	}
	p := publicationOf(t, config)
	if p.Check(nil) == nil {
		t.Error("the server is ready before any group is installed")
	}
	complete(t, config, widgets)
	complete(t, config, schema.GroupResource{Group: "other.example.com", Resource: "gadgets"})
	if err := p.add([]*genericapiserver.APIGroupInfo{groupOf(storage{v2})}); err != nil {
		t.Fatal(err)
	}
	p.installed = true
	if err := p.Check(nil); err == nil || !strings.Contains(err.Error(), "gadgets.other.example.com") {
		t.Errorf("a store that is not published: %v", err)
	}
	chain := config.BuildHandlerChainFunc(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), &config.Config)
	for request, want := range map[string]int{
		"POST /apis/demo.example.com/v1/namespaces/a/widgets":         http.StatusServiceUnavailable,
		"PUT /apis/demo.example.com/v1/namespaces/a/widgets/b/status": http.StatusServiceUnavailable,
		"POST /apis/other.example.com/v1/gadgets":                     http.StatusServiceUnavailable,
		"GET /apis/other.example.com/v1/gadgets":                      http.StatusOK,
		"GET /apis/demo.example.com/v1/namespaces/a/widgets":          http.StatusOK,
		"POST /apis/demo.example.com/v1/widgetreviews":                http.StatusOK,
		"POST /apis/third.example.com/v1/gizmos":                      http.StatusOK,
		"GET /healthz":                                                http.StatusOK,
	} {
		method, path, _ := strings.Cut(request, " ")
		answer := httptest.NewRecorder()
		chain.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		if answer.Code != want {
			t.Errorf("%s: %d, want %d: %s", request, answer.Code, want, answer.Body)
		}
	}
}

func TestAServerThatNeverStartedEndsAtOnce(t *testing.T) {
	config := configOf(serializer.NewCodecFactory(schemeOf(v1, v2)).LegacyCodec(v2))
	p := publicationOf(t, config)
	complete(t, config, widgets)
	if err := p.add([]*genericapiserver.APIGroupInfo{groupOf(storage{v2})}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.wait()
		p.wait() // Destroy may be called more than once
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for a publisher that does not run")
	}
	if err := p.start(genericapiserver.PostStartHookContext{Context: t.Context()}); err != nil || p.running {
		t.Errorf("a hook that comes too late: %v, running %t", err, p.running)
	}
}

func TestAServerEndsOnlyAfterThePublisher(t *testing.T) {
	cluster := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(cluster.Close)
	config := configOf(serializer.NewCodecFactory(schemeOf(v1, v2)).LegacyCodec(v2))
	config.ClientConfig.Host = cluster.URL
	p := publicationOf(t, config)
	complete(t, config, widgets)
	if err := p.add([]*genericapiserver.APIGroupInfo{groupOf(storage{v2})}); err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(t.Context())
	defer stop()
	if err := p.start(genericapiserver.PostStartHookContext{Context: serving}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.wait()
	}()
	select {
	case <-ended:
		t.Error("it does not wait for the publisher, which runs")
	case <-time.After(50 * time.Millisecond):
	}
	stop()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("it waits though the publisher has ended")
	}
}
