// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package pruning

import (
	"encoding/json"
	"testing"
)

func TestOwnedFieldsAreThoseThatTheSchemaKeeps(t *testing.T) {
	var s Schema
	err := json.Unmarshal([]byte(`{"type":"object","properties":{"spec":{"type":"object","properties":{
		"a":{"type":"string"},"gone":{"type":"object"},"any":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
		"list":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"}}}}}}}}`), &s)
	if err != nil {
		t.Fatal(err)
	}
	for fields, want := range map[string]string{
		`{"f:metadata":{"f:labels":{"f:x":{}}},"f:spec":{"f:a":{}}}`:                 `{"f:metadata":{"f:labels":{"f:x":{}}},"f:spec":{"f:a":{}}}`,
		`{"f:spec":{"f:a":{},"f:b":{}}}`:                                             `{"f:spec":{"f:a":{}}}`,
		`{"f:spec":{".":{},"f:b":{}}}`:                                               `{"f:spec":{".":{}}}`,
		`{"f:spec":{"f:b":{}}}`:                                                      `{}`, // and not the whole of spec
		`{"f:spec":{"f:gone":{"f:x":{}}}}`:                                           `{}`,
		`{"f:spec":{"f:any":{"f:x":{}}}}`:                                            `{"f:spec":{"f:any":{"f:x":{}}}}`,
		`{"f:spec":{"f:list":{"k:{\"name\":\"n\"}":{".":{},"f:name":{},"f:x":{}}}}}`: `{"f:spec":{"f:list":{"k:{\"name\":\"n\"}":{".":{},"f:name":{}}}}}`,
		`not JSON`: `not JSON`,
	} {
		if got := s.Kept(fields); got != want {
			t.Errorf("of %s there is %s, want %s", fields, got, want)
		}
	}
}
