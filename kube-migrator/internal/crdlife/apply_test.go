// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crdlife

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestOnlyWhatAUserMeansIsApplied(t *testing.T) {
	var object map[string]any
	if err := json.Unmarshal([]byte(`{"apiVersion":"a","kind":"b","metadata":{"name":"n","labels":{"a":"b"},"creationTimestamp":null,"resourceVersion":"1","uid":"x",
		"generation":3,"managedFields":[{}],"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","keep":"me"}},"spec":{"max":9007199254740993},"status":{"storedVersions":["v1"]}}`), &object); err != nil {
		t.Fatal(err)
	}
	body, err := applicable(object, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"apiVersion": "a", "kind": "b",
		"metadata": map[string]any{"name": "n", "labels": map[string]any{"a": "b"},
			"annotations": map[string]any{"keep": "me"}},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreMapEntries(func(k string,
		_ any) bool {
		return k == "spec"
	})); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
}
