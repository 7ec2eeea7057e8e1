// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
)

// What an API server answers for its CRDs is read, or refused, in memory in proportion to its bytes (I6).
func FuzzList(f *testing.F) {
	f.Add([]byte(`{"metadata":{"continue":"t"},"items":[{"metadata":{"name":"widgets.demo.example.com","uid":"u","generation":2,"managedFields":[{"manager":"a","time":"2026-01-01T00:00:00Z"}]},` +
		`"spec":{"group":"demo.example.com","names":{"plural":"widgets","kind":"Widget"},"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true}]},` +
		`"status":{"storedVersions":["v1"],"conditions":[{"type":"Established","status":"True"}]}}]}`))
	f.Add([]byte(`{"items":null,"kind":"List"}`))
	f.Add([]byte(`[{"items":[]}]`))
	for _, field := range []string{`"spec":{"versions":`, `"status":{"conditions":`, `"metadata":{"managedFields":`} {
		f.Add([]byte(`{"items":[{` + field + `[` + strings.TrimSuffix(strings.Repeat("{},", 300_000), ",") + `]}}]}`))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := decodeList(bytes.NewReader(raw), func(d *CRD) {
			d.StorageVersion()
			d.Served("v1")
			d.Established()
			d.SpecWritten()
		})
		runtime.ReadMemStats(&after)
		if spent := after.TotalAlloc - before.TotalAlloc; spent > 16<<20+30*uint64(len(raw)) {
			t.Errorf("%d bytes led to %d MiB (%v)", len(raw), spent>>20, err)
		}
		if err == nil && !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
			t.Errorf("%.40q is taken for a list", raw)
		}
	})
}
