// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos

import (
	"strings"
	"sync"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// Unseen implements judge.World: bindings are written by processes in the version of their release.
func (l *lab) Unseen(k testbed.Kind, look time.Time) (hashes []string, all bool) {
	look = l.clocks.Began(k.Name(), look, time.Now())
	if k == bindings {
		for _, p := range l.processes {
			if p.ended.IsZero() || !p.ended.Before(look) {
				hashes = append(hashes, p.hash)
			}
		}
	}
	return hashes, look.Before(l.amnesty)
}

// Creates and Deletes implement judge.World.
func (l *lab) Creates(key string) bool { return l.intents.creates(key) }
func (l *lab) Deletes(key string) bool { return l.intents.deletes(key) }

// Settling implements judge.World: only the gadgets' CustomResourceDefinition gets other schemas.
func (l *lab) Settling(k testbed.Kind) bool { return k == gadgets && time.Since(l.reshaped) < settling }

// begins notes that a process is about to be started.
func (l *lab) begins(s *server) {
	l.judging.Lock()
	defer l.judging.Unlock()
	l.processes = append(l.processes, &process{server: s, hash: bindings.Hash(editions[s.edition].Stores)})
}

// ended notes that a server's process has exited.
func (l *lab) ended(s *server) {
	l.judging.Lock()
	defer l.judging.Unlock()
	for _, p := range l.processes {
		if p.server == s && p.ended.IsZero() {
			p.ended = time.Now()
		}
	}
}

// intents are what writers have announced.
type intents struct {
	mu                sync.Mutex
	creating, leaving map[string]bool
	prefixes          map[string]int // whatever is below may go
}

func (i *intents) init() {
	i.creating, i.leaving, i.prefixes = map[string]bool{}, map[string]bool{}, map[string]int{}
}

func (i *intents) create(key string) { i.mu.Lock(); i.creating[key] = true; i.mu.Unlock() }
func (i *intents) remove(key string) { i.mu.Lock(); i.leaving[key] = true; i.mu.Unlock() }
func (i *intents) clear(prefix string) {
	i.mu.Lock()
	i.prefixes[prefix]++
	i.mu.Unlock()
}

// cleared takes back what clear announced. The last deletions may be on their way to the judge, who is behind etcd by
// some milliseconds.
func (i *intents) cleared(prefix string) {
	time.AfterFunc(5*time.Second, func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.prefixes[prefix]--; i.prefixes[prefix] == 0 {
			delete(i.prefixes, prefix)
		}
	})
}

func (i *intents) creates(key string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.creating[key]
}

func (i *intents) deletes(key string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for prefix := range i.prefixes {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return i.leaving[key]
}
