// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

// A file has objects with a version and a kind, or is refused with its name, in memory in proportion to its bytes.
func FuzzObjects(f *testing.F) {
	for _, text := range []string{
		"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n---\n# nothing\n---\napiVersion: v1\nkind: " +
			"List\nitems:\n- {apiVersion: v1, kind: Pod}\n",
		`{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"}}]}{"apiVersion":"v1","kind":"Secret"}`,
		"%YAML 1.2\n---\na: 1\n...\nNOTES:\nhello\n", "\xef\xbb\xbf--- {apiVersion: v1, kind: Pod}",
		"a: &a [x,x,x]\nb: &b [*a,*a,*a]\nc: [*b,*b,*b]\n",
		strings.Repeat(`{"apiVersion":"v1","kind":"List","items":[`, 300) + strings.Repeat("]}", 300),
		`{"apiVersion":"v1","kind":"` + strings.Repeat("List", 300) + `","items":[` +
			strings.TrimSuffix(strings.Repeat("{},", 2000), ",") + `]}`,
		strings.Repeat("#\n%YAML 1.2\n", 2000),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 64<<10 {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		all, err := Objects("file.yaml", data)
		runtime.ReadMemStats(&after)
		if spent := after.TotalAlloc - before.TotalAlloc; spent > 256<<20 {
			t.Errorf("%d bytes led to %d MiB", len(data), spent>>20)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "file.yaml, document ") {
			t.Errorf("the error does not say where: %v", err)
		}
		for _, o := range all {
			if err != nil || o.APIVersion == "" || o.Kind == "" || !json.Valid(o.JSON) {
				t.Errorf("%+v (%v)", o, err)
			}
		}
	})
}
