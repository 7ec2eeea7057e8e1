// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"bytes"

	"github.com/fxamacker/cbor/v2"
	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Encoding is how an API server encoded a value.
type Encoding string

// The encodings. The version of an Encrypted or Unknown value cannot be determined.
const (
	Protobuf  Encoding = "protobuf"
	JSON      Encoding = "json"
	CBOR      Encoding = "cbor"
	Encrypted Encoding = "encrypted"
	Unknown   Encoding = "unknown"
)

// Envelope is what a value says about itself. Fields that do not exist in its encoding are empty.
type Envelope struct {
	Encoding   Encoding
	APIVersion string // "demo.example.com/v2", "v1"
	Kind       string
	Provider   string // aescbc, aesgcm, secretbox or kms, for Encrypted
	KeyName    string // the name that the EncryptionConfiguration gives the key or, with kms, the plugin
}

// Sources: k8s.io/apimachinery/pkg/runtime/serializer/protobuf, .../serializer/cbor,
// k8s.io/apiserver/pkg/storage/value/encrypt.
var (
	protobufMagic  = []byte("k8s\x00")
	encryptedMagic = []byte("k8s:enc:")
	cborMagic      = []byte{0xd9, 0xd9, 0xf7}
)

// maxNameBytes bounds what is read from a value. It is longer than any valid group, version, kind or key name.
const maxNameBytes = 320

// DecodeEnvelope reads the envelope of a value. It does no I/O, keeps no reference to value, and accepts any bytes.
func DecodeEnvelope(value []byte) Envelope {
	switch {
	case bytes.HasPrefix(value, protobufMagic):
		return typed(Protobuf, protobufTypeMeta(value[len(protobufMagic):]))
	case bytes.HasPrefix(value, encryptedMagic):
		return encrypted(value[len(encryptedMagic):])
	case bytes.HasPrefix(value, cborMagic):
		return typed(CBOR, cborTypeMeta(value))
	default:
		return typed(JSON, jsonTypeMeta(value))
	}
}

// typeMeta is the apiVersion and kind of an object, empty if there are none.
type typeMeta struct{ apiVersion, kind string }

func typed(encoding Encoding, found typeMeta) Envelope {
	gv, err := schema.ParseGroupVersion(found.apiVersion)
	if err != nil || gv.Version == "" || !isName(found.apiVersion) || !isName(found.kind) {
		return Envelope{Encoding: Unknown}
	}
	return Envelope{Encoding: encoding, APIVersion: found.apiVersion, Kind: found.kind}
}

// encrypted reads "<provider>:<v1 or v2>:<key name>:". A colon ends the name of a key.
func encrypted(rest []byte) Envelope {
	provider, rest, _ := bytes.Cut(rest[:min(len(rest), 2*maxNameBytes)], []byte(":"))
	version, rest, _ := bytes.Cut(rest, []byte(":"))
	keyName, _, terminated := bytes.Cut(rest, []byte(":"))
	known := false
	switch string(provider) {
	case "aescbc", "aesgcm", "secretbox":
		known = string(version) == "v1"
	case "kms":
		known = string(version) == "v1" || string(version) == "v2"
	}
	if !known || !terminated || !isName(string(keyName)) {
		return Envelope{Encoding: Unknown}
	}
	return Envelope{Encoding: Encrypted, Provider: string(provider), KeyName: string(keyName)}
}

// isName rejects payloads, which are not envelopes, and control characters, which must not reach a terminal.
func isName(s string) bool {
	if s == "" || len(s) > maxNameBytes {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// protobufTypeMeta reads runtime.Unknown up to its field typeMeta, which every writer puts first.
func protobufTypeMeta(data []byte) (found typeMeta) {
	const fieldTypeMeta, fieldAPIVersion, fieldKind = 1, 1, 2
	meta, ok := protobufField(data, fieldTypeMeta)
	if !ok {
		return typeMeta{}
	}
	apiVersion, _ := protobufField(meta, fieldAPIVersion)
	kind, _ := protobufField(meta, fieldKind)
	if len(apiVersion) > maxNameBytes || len(kind) > maxNameBytes {
		return typeMeta{}
	}
	return typeMeta{apiVersion: string(apiVersion), kind: string(kind)}
}

// protobufField returns the first field with a number, of wire type bytes, without copying it.
func protobufField(data []byte, wanted protowire.Number) ([]byte, bool) {
	for len(data) > 0 {
		number, wireType, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil, false
		}
		data = data[n:]
		if number == wanted && wireType == protowire.BytesType {
			field, n := protowire.ConsumeBytes(data)
			return field, n >= 0
		}
		if n = protowire.ConsumeFieldValue(number, wireType, data); n < 0 {
			return nil, false
		}
		data = data[n:]
	}
	return nil, false
}

// cborLimits are those of the API server, which writes field names and strings as byte strings
// (k8s.io/apimachinery/pkg/runtime/serializer/cbor/internal/modes).
var cborLimits = must(cbor.DecOptions{
	MaxNestedLevels:     10000,
	MaxArrayElements:    2147483647,
	MaxMapPairs:         2097152,
	FieldNameMatching:   cbor.FieldNameMatchingCaseSensitive,
	FieldNameByteString: cbor.FieldNameByteStringAllowed,
	ByteStringToString:  cbor.ByteStringToStringAllowed,
	UTF8:                cbor.UTF8DecodeInvalid,
}.DecMode())

func must(mode cbor.DecMode, err error) cbor.DecMode {
	if err != nil {
		panic(err)
	}
	return mode
}

func cborTypeMeta(data []byte) typeMeta {
	var object struct {
		APIVersion string `cbor:"apiVersion"`
		Kind       string `cbor:"kind"`
	}
	if err := cborLimits.Unmarshal(data, &object); err != nil {
		return typeMeta{}
	}
	return typeMeta{apiVersion: object.APIVersion, kind: object.Kind}
}
