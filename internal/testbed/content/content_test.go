// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// gadget is a custom object as an API server stores it. Its managedFields have one entry of the manager for each word of
// owners: a letter for the manager, and the second in which it wrote.
func gadget(version, owners, rest string) string {
	var entries []string
	for owner := range strings.FieldsSeq(owners) {
		entries = append(entries, `{"manager":"`+owner[:1]+`","operation":"Update","apiVersion":"`+version+
			`","time":"2026-01-01T00:00:0`+owner[1:]+`Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}}}`)
	}
	return `{"apiVersion":"` + version + `","kind":"Gadget","metadata":{"name":"g","uid":"u","managedFields":[` +
		strings.Join(entries, ",") + `]` + rest + "}\n"
}

func TestAWriteThatNoClientHasSignedLosesTheFieldsThatAreMissingAfterIt(t *testing.T) {
	const v1, v2 = "example.com/v1", "example.com/v2"
	for name, c := range map[string]struct {
		before, after string
		want          []string
	}{
		"nothing but the encoding changes": {
			gadget(v1, "a1", `},"spec":{"a":1,"b":2}`), gadget(v2, "a1", `},"spec":{"a":1,"b":2}`), nil},
		"a field is dropped": {
			gadget(v1, "a1", `},"spec":{"a":1,"b":2}`), gadget(v2, "a1", `},"spec":{"a":1}`), []string{"spec.b"}},
		"a field is dropped by a narrower schema of the same version": {
			gadget(v1, "a1", `},"spec":{"a":1,"b":2}`), gadget(v1, "a1", `},"spec":{"a":1}`), []string{"spec.b"}},
		"a field of an object without managedFields is dropped": {
			gadget(v1, "", `},"spec":{"a":1,"b":2}`), gadget(v1, "", `},"spec":{"a":1}`), []string{"spec.b"}},
		"everything is dropped": {
			gadget(v1, "a1", `},"spec":{"b":2},"status":{"c":3}`), gadget(v2, "a1", `}`), []string{"spec", "status"}},
		"fields of the items of a list are dropped": {
			gadget(v1, "a1", `},"spec":{"hosts":[{"name":"x","port":1},{"name":"y","port":2}]}`),
			gadget(v2, "a1", `},"spec":{"hosts":[{"name":"x"},{"name":"y"}]}`), []string{"spec.hosts[].port"}},
		"an item of a list is dropped": {
			gadget(v1, "a1", `},"spec":{"hosts":[1,2]}`), gadget(v2, "a1", `},"spec":{"hosts":[1]}`),
			[]string{"spec.hosts[]"}},
		"an annotation is dropped": {
			gadget(v1, "a1", `,"annotations":{"example.com/x":"y"}}`), gadget(v2, "a1", `,"annotations":{}}`),
			[]string{"metadata.annotations[example.com/x]"}},
		"an object becomes a string": {
			gadget(v1, "a1", `},"spec":{"a":{"x":1}}`), gadget(v2, "a1", `},"spec":{"a":"x=1"}`), []string{"spec.a"}},
		"a conversion renames a field": {
			gadget(v1, "a1", `},"spec":{"color":"red"}`), gadget(v2, "a1", `},"spec":{"colour":"red"}`),
			[]string{"spec.color"}},
		"a conversion adds a field": {
			gadget(v1, "a1", `},"spec":{"a":1}`), gadget(v2, "a1", `},"spec":{"a":1,"b":2}`), nil},
		"a conversion changes a value": {
			gadget(v1, "a1", `},"spec":{"a":"1"}`), gadget(v2, "a1", `},"spec":{"a":1}`), nil},
		"null is no field": {
			gadget(v1, "a1", `},"spec":{"a":1,"b":null}`), gadget(v2, "a1", `},"spec":{"a":1}`), nil},
		"a field becomes null": {
			gadget(v1, "a1", `},"spec":{"a":1,"b":2}`), gadget(v2, "a1", `},"spec":{"a":1,"b":null}`), []string{"spec.b"}},
		"an empty field is one": {
			gadget(v1, "a1", `},"spec":{"a":{}}`), gadget(v2, "a1", `},"spec":{}`), []string{"spec.a"}},
		"all managedFields are dropped": {
			gadget(v1, "a1", `},"spec":{"a":1}`),
			strings.Replace(gadget(v2, "", `},"spec":{"a":1}`), `,"managedFields":[]`, "", 1),
			[]string{"metadata.managedFields"}},
		"managedFields move to another version": {
			gadget(v1, "a1", `},"spec":{"a":1,"b":2}`),
			strings.Replace(gadget(v1, "a1", `},"spec":{"a":1}`), `"Update","apiVersion":"`+v1, `"Update","apiVersion":"`+v2, 1),
			[]string{"spec.b"}},
		"a client removes a field": {
			gadget(v1, "a1", `},"spec":{"a":1,"b":2}`), gadget(v1, "a2", `},"spec":{"a":1}`), nil},
		"another client removes a field": {
			gadget(v1, "a1", `},"spec":{"a":1,"b":2}`), gadget(v1, "a1 b2", `},"spec":{"a":1}`), nil},
		"a client removes the only field that another one owns": {
			gadget(v1, "a1 b2", `},"spec":{"a":1,"b":2}`), gadget(v1, "a1", `},"spec":{"a":1}`), nil},
		"a client that wrote in the same second removes an item of a list that it owns as a whole": {
			gadget(v1, "a1", `,"generation":1},"spec":{"a":[1,2]}`), gadget(v1, "a1", `,"generation":2},"spec":{"a":[1]}`), nil},
		"another object has the same key": {
			gadget(v1, "a1", `},"spec":{"a":1,"b":2}`),
			strings.Replace(gadget(v1, "a1", `},"spec":{"a":1}`), `"uid":"u"`, `"uid":"other"`, 1), nil},
		"a value is not JSON": {"k8s:enc:aescbc:v1:key1:x", gadget(v1, "a1", `}`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Lost([]byte(c.before), []byte(c.after))); diff != "" {
				t.Errorf("lost (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProtobufIsCompared(t *testing.T) {
	encode := func(data map[string]string, written int) []byte {
		info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
		entry := metav1.ManagedFieldsEntry{Manager: "a", Time: &metav1.Time{Time: time.Unix(int64(written), 0)}}
		var out bytes.Buffer
		if err := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion).Encode(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "u", ManagedFields: []metav1.ManagedFieldsEntry{entry}},
			Data:       data,
		}, &out); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	before := encode(map[string]string{"a": "1", "b": "2"}, 1)
	if diff := cmp.Diff([]string{"data.b"}, Lost(before, encode(map[string]string{"a": "1"}, 1))); diff != "" {
		t.Errorf("lost by a rewrite (-want +got):\n%s", diff)
	}
	if got := Lost(before, encode(map[string]string{"a": "1"}, 2)); got != nil {
		t.Errorf("lost by a write of a client: %v, want nothing", got)
	}
}
