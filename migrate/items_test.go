// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

func TestAPageOfTooManyItemsIsNotDecoded(t *testing.T) {
	inProtobuf := func(n int) []byte {
		var b bytes.Buffer
		list := &metav1.PartialObjectMetadataList{Items: make([]metav1.PartialObjectMetadata, n)}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: "meta.k8s.io", Version: "v1",
			Kind: "PartialObjectMetadataList"})
		if err := protobuf.NewSerializer(nil, nil).Encode(list, &b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	inJSON := func(n int) []byte { return []byte(listOf("", strings.Split(strings.Repeat("{} ", n-1)+"{}", " ")...)) }
	for name, encode := range map[string]func(int) []byte{"protobuf": inProtobuf, "JSON": inJSON} {
		for n, want := range map[int]error{1: nil, maxPageItems: nil, maxPageItems + 1: ErrAnswerTooLarge} {
			if err := countItems(encode(n)); !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("%s, %d items: %v, want %v", name, n, err, want)
			}
		}
	}
	for _, text := range []string{"<html>", "[1]"} {
		if err := countItems([]byte(text)); !errors.Is(err, errMalformed) {
			t.Errorf("%q: %v, want errMalformed", text, err)
		}
	}
	for _, text := range []string{"k8s\x00", "k8s\x00\xff\xff\xff"} { // for the decoder to refuse
		if err := countItems([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}
