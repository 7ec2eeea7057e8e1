// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package pace

import "testing"

// A slot for one request among many, as each rewrite takes it.
func BenchmarkSlot(b *testing.B) {
	p := New(Limits{})
	b.ReportAllocs()
	b.RunParallel(func(each *testing.PB) {
		for each.Next() {
			slot, err := p.Acquire(b.Context())
			if err != nil {
				b.Error(err)
				return
			}
			p.Release(slot, Wrote, 0)
		}
	})
}
