// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package waitgroup has the method Go that sync.WaitGroup has from Go 1.25 on. It goes when the library requires that.
package waitgroup

import "sync"

// Group is a sync.WaitGroup.
type Group struct{ sync.WaitGroup }

// Go calls f in a goroutine that Wait waits for.
func (g *Group) Go(f func()) {
	g.Add(1)
	go func() {
		defer g.Done()
		f()
	}()
}
