// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kube-migrator/kube-migrator/internal/bounded"
)

// maxPageItems bounds the objects of one page, whatever was asked for. An item of two bytes becomes hundreds in memory,
// so that the bytes of a page bound nothing by themselves (I6).
const maxPageItems = 10_000

// Protobuf in Kubernetes: a magic number, then runtime.Unknown, whose field 2 is the list, whose field 2 is an item.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding
var protobufMagic = []byte("k8s\x00")

const (
	unknownRaw = 2
	listItems  = 2
)

// countItems returns ErrAnswerTooLarge for a page with too many items, before they are decoded. What is no list it
// leaves to the decoder.
func countItems(raw []byte) error {
	body, isProtobuf := bytes.CutPrefix(raw, protobufMagic)
	if !isProtobuf {
		var list struct {
			Items bounded.List[json.RawMessage] `json:"items"`
		}
		if err := json.Unmarshal(raw, &list); err != nil {
			return fmt.Errorf("%w: %w", errMalformed, err)
		}
		return nil
	}
	items := 0
	for list := range fieldsOf(body, unknownRaw) {
		for range fieldsOf(list, listItems) {
			if items++; items > maxPageItems {
				return fmt.Errorf("%w: a page has more than %d items", ErrAnswerTooLarge, maxPageItems)
			}
		}
	}
	return nil
}

// fieldsOf yields the values of one field, which are messages; it ends where the bytes are no protobuf.
func fieldsOf(message []byte, number protowire.Number) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(message) > 0 {
			n, kind, size := protowire.ConsumeField(message)
			if size < 0 {
				return
			}
			if n == number && kind == protowire.BytesType {
				_, _, tag := protowire.ConsumeTag(message)
				value, _ := protowire.ConsumeBytes(message[tag:])
				if !yield(value) {
					return
				}
			}
			message = message[size:]
		}
	}
}
