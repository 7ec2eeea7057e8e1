// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package contestant

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

func TestTheDecoderTellsTheKindOfEachValue(t *testing.T) {
	var inProtobuf bytes.Buffer
	types := runtime.NewScheme()
	stored := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
	if err := protobuf.NewSerializer(types, types).Encode(stored, &inProtobuf); err != nil {
		t.Fatal(err)
	}
	var kvs []string
	for _, value := range []string{`{"apiVersion":"v1","kind":"ConfigMap"}`, inProtobuf.String(),
		`{"apiVersion":"demo.example.com/v1","kind":"Widget","metadata":{"name":"a"}}`, "no object"} {
		kvs = append(kvs, fmt.Sprintf(`{"key":"aw==","value":%q}`, base64.StdEncoding.EncodeToString([]byte(value))))
	}
	var got bytes.Buffer
	err := Decode(strings.NewReader(`{"header":{"revision":7},"kvs":[`+strings.Join(kvs, ",")+`],"count":4}`), &got)
	if err != nil {
		t.Fatal(err)
	}
	const want = "1 of /, Kind=\n2 of /v1, Kind=ConfigMap\n1 of demo.example.com/v1, Kind=Widget\n"
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}
