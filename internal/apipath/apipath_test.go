// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package apipath

import (
	"errors"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	segment "k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// hostile are words that would lead a request out of its resource.
var hostile = map[string]string{
	"empty":               "",
	"the folder itself":   ".",
	"the folder above":    "..",
	"out of the API":      "../../../../../../api/v1/namespaces/kube-system/secrets/x",
	"to a node's proxy":   "../../../../../../api/v1/nodes/http:n1:19080/proxy/metrics",
	"a subresource":       "a/scale",
	"an absolute path":    "/api",
	"escaped":             "..%2f..%2fsecrets",
	"a line end":          "a\nHost: b/",
	"a terminal's escape": "a\x1b[2J/",
	"not UTF-8":           "a\xff/\u202e",
	"long":                strings.Repeat("/", 2000),
}

// odd are names that API servers accept for some resources, such as Roles.
var odd = []string{
	"a\u00a0b", "a\x1b[2J", "a\u202eb", "a\nHost: b", "a\x00", "a\xff", "...", "..a", " ", "a?b#c;d e+f&g=h", "system:a",
	`a\b"c`, "世界", strings.Repeat("x", 1100), strings.Repeat("\x01", 500<<10),
}

func TestNoWordOfAServerLeadsOutOfItsResource(t *testing.T) {
	flunders := schema.GroupVersionResource{Group: "wardle.example.com", Version: "v1", Resource: "flunders"}
	for name, word := range hostile {
		for place, build := range map[string]func() (string, error){
			"name":        func() (string, error) { return Object(flunders, "default", word) },
			"subresource": func() (string, error) { return Object(flunders, "", "a", word) },
			"resource":    func() (string, error) { return Collection(flunders.GroupVersion().WithResource(word), "") },
			"version": func() (string, error) {
				return GroupVersion(schema.GroupVersion{Group: flunders.Group,
					Version: word})
			},
			"core": func() (string, error) { return GroupVersion(schema.GroupVersion{Version: word}) },
			"join": func() (string, error) { return Join("/apis", word) },
			"namespace": func() (string, error) {
				if word == "" {
					return "", ErrUnfit // stands for no namespace
				}
				return Object(flunders, word, "a")
			},
			"group": func() (string, error) {
				if word == "" {
					return "", ErrUnfit // is the core group
				}
				return Collection(schema.GroupVersionResource{Group: word, Version: "v1", Resource: "flunders"}, "")
			},
		} {
			got, err := build()
			if !errors.Is(err, ErrUnfit) || got != "" {
				t.Errorf("%s as %s: %q (%v), want ErrUnfit and no path", name, place, got, err)
			}
			if err != nil && (strings.ContainsAny(err.Error(), "\x00\x1b\n\u202e") ||
				strings.Contains(err.Error(), "\xff") || len(err.Error()) > 600) {
				t.Errorf("%s as %s: the error shows the word as it is: %q", name, place, err)
			}
		}
	}
}

func TestAPathIsWhatItsPartsSay(t *testing.T) {
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	roles := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	for want, build := range map[string]func() (string, error){
		"/api/v1":                             func() (string, error) { return GroupVersion(pods.GroupVersion()) },
		"/api/v1/pods":                        func() (string, error) { return Collection(pods, "") },
		"/api/v1/namespaces/a/pods":           func() (string, error) { return Collection(pods, "a") },
		"/api/v1/namespaces/a/pods/b":         func() (string, error) { return Object(pods, "a", "b") },
		"/api/v1/namespaces/a/pods/b/binding": func() (string, error) { return Object(pods, "a", "b", "binding") },
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a b|c": func() (string,
			error) {
			return Object(roles, "", "system:a b|c")
		},
		"/apis/x/y": func() (string, error) { return Join("/apis", "x", "y") },
	} {
		got, err := build()
		if err != nil || got != want || path.Clean(got) != got {
			t.Errorf("path = %q (%v), want %q", got, err, want)
		}
	}
}

func TestAnyOtherNameIsOneSegmentOfThePath(t *testing.T) {
	for _, name := range odd {
		wantRoundTrip(t, name)
	}
}

// A name is refused, or an API server that parses the URL finds the same name in the same place.
func FuzzName(f *testing.F) {
	for _, name := range slices.Concat(odd, slices.Collect(maps.Values(hostile))) {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		//nolint:staticcheck // see Segment
		if name == "" || len(segment.IsValidPathSegmentName(name)) > 0 {
			if err := Segment("name", name); !errors.Is(err, ErrUnfit) {
				t.Errorf("%q: %v, want ErrUnfit", name, err)
			}
			return
		}
		wantRoundTrip(t, name)
	})
}

func wantRoundTrip(t *testing.T, name string) {
	t.Helper()
	roles := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	built, err := Object(roles, "default", name)
	if err != nil {
		t.Fatalf("%.40q: %v", name, err)
	}
	client, err := rest.UnversionedRESTClientFor(&rest.Config{Host: "https://a.example.com/clusters/c1",
		ContentConfig: rest.ContentConfig{NegotiatedSerializer: serializer.NewCodecFactory(runtime.NewScheme())}})
	if err != nil {
		t.Fatal(err)
	}
	sent, err := url.Parse(client.Get().AbsPath(built).Param("limit", "1").URL().String())
	want := "/clusters/c1/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/" + name
	if err != nil || sent.Path != want || sent.RawQuery != "limit=1" || sent.Fragment != "" {
		t.Errorf("%.40q is sent for as %.80q (%v)", name, sent, err)
	}
}

// Together with its group, a name with a dot is that of another resource: as.a in zz.example.com, and as in
// a.zz.example.com. Adapters for metrics list every metric as a resource, under any name.
func TestOnlyNamesThatIdentifyAResourceAreStoredUnder(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, name := range []string{"as.a", "As", "a_s", "1as", "-as", "as-", "datadogmetric@default:a", long} {
		if is, err := Resource(name, true); !errors.Is(err, ErrUnfit) {
			t.Errorf("%q, stored: %t, %v, want ErrUnfit", name, is, err)
		}
		if is, err := Resource(name, false); is || err != nil {
			t.Errorf("%q, not stored: %t, %v, want none", name, is, err)
		}
	}
	for _, name := range []string{"pods", "validatingadmissionpolicies", "a-1", long[:63]} {
		for _, stored := range []bool{false, true} {
			if is, err := Resource(name, stored); !is || err != nil {
				t.Errorf("%q: %t, %v, want a resource", name, is, err)
			}
		}
	}
	for _, name := range []string{"pods/status", "jobs.batch/http_requests"} {
		if is, err := Resource(name, true); is || err != nil {
			t.Errorf("subresource %q: %t, %v, want none", name, is, err)
		}
	}
	for name, word := range hostile {
		if strings.Contains(word, "/") {
			continue
		}
		if is, err := Resource(word, false); !errors.Is(err, ErrUnfit) {
			t.Errorf("%s: %t, %v, want ErrUnfit", name, is, err)
		}
	}
}
