// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestParseCurrentReadsYAMLAndJSON(t *testing.T) {
	want := &Current{Versions: map[schema.GroupResource]schema.GroupVersion{
		{Group: "demo.example.com", Resource: "widgets"}: {Group: "demo.example.com", Version: "v2"},
		{Resource: "secrets"}:                            {Version: "v1"},
		{Group: "events.k8s.io", Resource: "events"}:     {Version: "v1"},
	}}
	for name, file := range map[string]string{
		"YAML": "# mine\nwidgets.demo.example.com: v2\nsecrets: v1\nevents.events.k8s.io: /v1\n",
		"JSON": `{"widgets.demo.example.com":"demo.example.com/v2","secrets":"v1","events.events.k8s.io":"/v1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseCurrent([]byte(file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("current versions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseCurrentRefuses(t *testing.T) {
	for name, test := range map[string]struct{ file, want string }{
		"an empty file":        {"", "names no resource"},
		"a list":               {"- a", "want lines like"},
		"a nested map":         {"widgets:\n  v: 1\n", "want lines like"},
		"a resource twice":     {"a: v1\na: v2\n", "already"},
		"something no version": {"widgets: \"2!\"\n", "is not a version"},
		"an empty version":     {"widgets: \"\"\n", "is not a version"},
		"two slashes":          {"widgets: a/b/c\n", "is not a version"},
		"an empty resource":    {"\".demo\": v1\n", "is not a resource"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseCurrent([]byte(test.file))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	widgets := schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}
	some := &Current{Versions: map[schema.GroupResource]schema.GroupVersion{widgets: {Group: "demo.example.com",
		Version: "v2"}}}
	all := &Current{Versions: some.Versions, Complete: true}
	object := location{resource: widgets, name: "a", isObject: true}
	gadget := location{resource: schema.GroupResource{Resource: "gadgets"}, name: "a", isObject: true}
	v1, v2 := Envelope{APIVersion: "demo.example.com/v1"}, Envelope{APIVersion: "demo.example.com/v2"}
	for name, test := range map[string]struct {
		current  *Current
		at       location
		envelope Envelope
		want     Comparison
	}{
		"nothing is compared without current versions": {nil, object, v1, NotCompared},
		"another version is stale":                     {some, object, v1, IsStale},
		"the same version of another group is stale": {some, object,
			Envelope{APIVersion: "other.example.com/v2"}, IsStale},
		"the current version is current": {some, object, v2, IsCurrent},
		"an encrypted object is undetermined": {some, object,
			Envelope{Encoding: Encrypted}, IsUndetermined},
		"a resource that was not asked about is left out":  {some, gadget, v1, NotCompared},
		"a resource that should not exist is undetermined": {all, gadget, v1, IsUndetermined},
		"what is not an object is never stale":             {all, location{resource: widgets}, v1, NoObject},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.current.compare(test.at, test.envelope); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
