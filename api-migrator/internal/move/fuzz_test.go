// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A plan that is taken says the same when it is written and read again.
func FuzzPlan(f *testing.F) {
	f.Add([]byte("format: " + Format + "\ntree: abc\nedits:\n- file: api/v1/types.go\n"))
	f.Add([]byte("format: " + Format + "\nedits: &a [{file: a}, {file: b}]\n"))
	f.Add([]byte("format: other\n"))
	f.Add([]byte("unknown: field\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		plan, err := Decode(content)
		if err != nil {
			return
		}
		again, err := plan.Encode()
		if err != nil {
			t.Fatal(err)
		}
		same, err := Decode(again)
		if err != nil {
			t.Fatalf("%v: %s", err, again)
		}
		if diff := cmp.Diff(plan, same, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("plan (-read +written and read):\n%s", diff)
		}
	})
}
