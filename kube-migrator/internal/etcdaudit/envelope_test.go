// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

func protobufValue(t testing.TB, apiVersion, kind, raw string) []byte {
	t.Helper()
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind},
		Raw: []byte(raw), ContentType: "x"}
	data, err := unknown.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte("k8s\x00"), data...)
}

func cborValue(t testing.TB, object any) []byte {
	t.Helper()
	data, err := direct.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte{0xd9, 0xd9, 0xf7}, data...)
}

func TestDecodeEnvelope(t *testing.T) {
	object := map[string]any{"apiVersion": "demo.example.com/v1", "kind": "Widget",
		"spec": map[string]any{"kind": "Trap", "a": []any{1, "x"}}}
	widget := Envelope{Encoding: JSON, APIVersion: "demo.example.com/v1", Kind: "Widget"}
	long := strings.Repeat("a", maxNameBytes+1)
	for name, test := range map[string]struct {
		value string
		want  Envelope
	}{
		"protobuf says its version and kind": {
			value: string(protobufValue(t, "apps/v1", "Deployment", "secret payload")),
			want:  Envelope{Encoding: Protobuf, APIVersion: "apps/v1", Kind: "Deployment"},
		},
		"CBOR, as an API server writes it, says its version and kind": {
			value: string(cborValue(t, object)), want: Envelope{Encoding: CBOR,
				APIVersion: "demo.example.com/v1", Kind: "Widget"},
		},
		"JSON says its version and kind": {
			value: `{"apiVersion":"demo.example.com/v1","kind":"Widget","spec":{}}`, want: widget,
		},
		"JSON is not read behind what is needed": {
			value: `{"apiVersion":"demo.example.com/v1","kind":"Widget","spec":{`, want: widget,
		},
		"JSON may have version and kind at the end": {
			value: " { \"spec\" : {\"kind\":\"Trap\",\"s\":\"}\\\"{\"} , \"n\": -1e5,\n\"a\":[[],{}], " +
				"\"kind\":\"Widget\",\"apiVersion\":\"demo.example.com/v1\"}", want: widget,
		},
		"JSON member names and texts may be escaped": {
			value: `{"\u006bind":"Wi\u0064get","apiVersion":"demo.example.com/v1"}`, want: widget,
		},
		"JSON member names are matched with their case": {
			value: `{"Kind":"Trap","kind":"Widget","apiVersion":"demo.example.com/v1"}`, want: widget,
		},
		"JSON with a version that is not a text is unknown": {value: `{"apiVersion":{"kind":"x"},"kind":"Widget"}`,
			want: Envelope{Encoding: Unknown}},
		"JSON without a kind is unknown": {value: `{"apiVersion":"v1","metadata":{"kind":"Trap"}}`,
			want: Envelope{Encoding: Unknown}},
		"JSON that ends in a text is unknown": {value: `{"apiVersion":"v1`,
			want: Envelope{Encoding: Unknown}},
		"an array is unknown":       {value: `[]`, want: Envelope{Encoding: Unknown}},
		"an empty value is unknown": {value: ``, want: Envelope{Encoding: Unknown}},
		"text is unknown":           {value: `hello`, want: Envelope{Encoding: Unknown}},
		"a version with two slashes is unknown": {value: `{"apiVersion":"a/b/c","kind":"Widget"}`,
			want: Envelope{Encoding: Unknown}},
		"a version too long to be one is unknown": {value: `{"apiVersion":"` + long + `","kind":"Widget"}`,
			want: Envelope{Encoding: Unknown}},
		"a version with control characters is unknown": {value: `{"apiVersion":"v1\u001b[31m","kind":"Widget"}`,
			want: Envelope{Encoding: Unknown}},
		"protobuf that is cut off is unknown": {value: "k8s\x00\x0a\x7f",
			want: Envelope{Encoding: Unknown}},
		"protobuf without a type is unknown": {value: string(protobufValue(t, "", "", "x")),
			want: Envelope{Encoding: Unknown}},
		"CBOR that is cut off is unknown": {value: "\xd9\xd9\xf7\xa2",
			want: Envelope{Encoding: Unknown}},
		"a value under aescbc names its key": {value: "k8s:enc:aescbc:v1:key1:\x00\x01",
			want: Envelope{Encoding: Encrypted, Provider: "aescbc", KeyName: "key1"}},
		"a value under aesgcm names its key": {value: "k8s:enc:aesgcm:v1:key1:",
			want: Envelope{Encoding: Encrypted, Provider: "aesgcm", KeyName: "key1"}},
		"a value under secretbox names its key": {value: "k8s:enc:secretbox:v1:k:x",
			want: Envelope{Encoding: Encrypted, Provider: "secretbox", KeyName: "k"}},
		"a value under kms v1 names its plugin": {value: "k8s:enc:kms:v1:vault:x",
			want: Envelope{Encoding: Encrypted, Provider: "kms", KeyName: "vault"}},
		"a value under kms v2 names its plugin": {value: "k8s:enc:kms:v2:vault:x",
			want: Envelope{Encoding: Encrypted, Provider: "kms", KeyName: "vault"}},
		"an unheard-of provider is unknown": {value: "k8s:enc:rot13:v1:key1:x",
			want: Envelope{Encoding: Unknown}},
		"an unheard-of version of a provider is unknown": {value: "k8s:enc:aescbc:v2:key1:x",
			want: Envelope{Encoding: Unknown}},
		"an encryption without the end of a key's name": {value: "k8s:enc:aescbc:v1:key1",
			want: Envelope{Encoding: Unknown}},
		"an encryption whose key's name is binary": {value: "k8s:enc:aescbc:v1:\x00\x01:x",
			want: Envelope{Encoding: Unknown}},
		"the magic of protobuf elsewhere is not looked at": {value: "x k8s\x00", want: Envelope{Encoding: Unknown}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, DecodeEnvelope([]byte(test.value))); diff != "" {
				t.Errorf("envelope (-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever the bytes are: no panic, nothing but names comes out, and JSON says what encoding/json says.
func FuzzDecodeEnvelope(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod"}`))
	f.Add([]byte(`{"a":[1,{"b":"\""}],"kind":"Pod","apiVersion":"apps/v1"}`))
	f.Add([]byte("k8s:enc:kms:v2:vault:x"))
	f.Add(protobufValue(f, "v1", "Secret", "x"))
	f.Add(cborValue(f, map[string]any{"apiVersion": "v1", "kind": "Pod"}))
	f.Fuzz(func(t *testing.T, value []byte) {
		e := DecodeEnvelope(value)
		for _, name := range []string{e.APIVersion, e.Kind, e.Provider, e.KeyName} {
			if name != "" && !isName(name) {
				t.Fatalf("%q is not a name", name)
			}
		}
		typed, encrypted := e.APIVersion != "" && e.Kind != "", e.Provider != "" && e.KeyName != ""
		switch e.Encoding {
		case Protobuf, JSON, CBOR:
			if !typed || encrypted {
				t.Fatalf("%+v", e)
			}
		case Encrypted:
			if typed || !encrypted {
				t.Fatalf("%+v", e)
			}
		default:
			if e != (Envelope{Encoding: Unknown}) {
				t.Fatalf("%+v", e)
			}
		}
		compareWithJSON(t, value, e)
	})
}

func compareWithJSON(t *testing.T, value []byte, e Envelope) {
	var members map[string]json.RawMessage
	if json.Unmarshal(value, &members) != nil || members == nil {
		return
	}
	if n := strings.Count(string(value), "\\") + strings.Count(string(value), "kind") +
		strings.Count(string(value), "apiVersion"); n > 2 {
		return // may have members twice: then the first one counts here, the last one there
	}
	var apiVersion, kind string
	if json.Unmarshal(members["apiVersion"], &apiVersion) != nil || json.Unmarshal(members["kind"], &kind) != nil {
		apiVersion, kind = "", ""
	}
	if want := typed(JSON, typeMeta{apiVersion: apiVersion, kind: kind}); e != want {
		t.Fatalf("got %+v, encoding/json says %+v", e, want)
	}
}
