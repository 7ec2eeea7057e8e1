// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package bounded

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// maxElements bounds a List. An element of three bytes may take hundreds of bytes in memory, so a limit in bytes is not
// enough.
const maxElements = 10_000

// List is a JSON array of at most 10,000 elements. Decoding a longer one stops with ErrTooLarge.
type List[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (l *List[T]) UnmarshalJSON(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	start, err := d.Token()
	if err != nil {
		return err
	}
	if start == nil { // null
		*l = nil
		return nil
	}
	if start != json.Delim('[') {
		return fmt.Errorf("decode list: it begins with %v", start)
	}
	elements := List[T]{}
	for d.More() {
		if len(elements) == maxElements {
			return fmt.Errorf("%w: a list has more than %d elements", ErrTooLarge, maxElements)
		}
		var element T
		if err := d.Decode(&element); err != nil {
			return err
		}
		elements = append(elements, element)
	}
	*l = elements
	return nil
}
