// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleet runs the same work for each of many clusters: it owns which names patterns select, how many clusters
// are asked at the same time, how long one of them may take, and in which waves they are changed.
//
// It reads no cluster and no file, and knows nothing about the work.
//
// Invariants:
//   - The result of a cluster is in the place of that cluster, whatever the order in which they end.
//   - Work that hangs, fails or panics changes nothing for other clusters. It occupies its place until its time limit
//     and a short grace period have passed.
//   - Once the context has ended, no further work is started, and the results so far are kept.
package fleet

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// NoMatchError says that a pattern selects nothing.
type NoMatchError struct {
	Pattern string
	// Of is how many names there are.
	Of int
}

func (e *NoMatchError) Error() string {
	return fmt.Sprintf("no name matches the pattern %q (names: %d)", e.Pattern, e.Of)
}

// Select returns the names that patterns select, each once: one list for each pattern, in the order of the patterns,
// and each list in the order of the names. A name belongs to the first pattern that matches it, and a pattern whose
// names all belong to earlier ones has an empty list. Patterns are those of path.Match, except that * and ? also match
// slashes, which names of contexts contain. The error for a pattern that matches no name is a *NoMatchError.
func Select(names, patterns []string) ([][]string, error) {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	taken := map[string]bool{}
	selected := make([][]string, 0, len(patterns))
	for _, pattern := range patterns {
		matches := 0
		var list []string
		for _, name := range sorted {
			ok, err := path.Match(withoutSlashes(pattern), withoutSlashes(name))
			if err != nil {
				return nil, fmt.Errorf("read pattern %q: %w", pattern, err)
			}
			if !ok {
				continue
			}
			matches++
			if !taken[name] {
				taken[name] = true
				list = append(list, name)
			}
		}
		if matches == 0 {
			return nil, &NoMatchError{Pattern: pattern, Of: len(sorted)}
		}
		selected = append(selected, list)
	}
	return selected, nil
}

// withoutSlashes replaces slashes by a character that path.Match does not treat specially.
func withoutSlashes(text string) string { return strings.ReplaceAll(text, "/", "\x1f") }

// Waves divides lists into waves of at most that many elements. No wave contains elements of two lists.
func Waves[T any](lists [][]T, most int) [][]T {
	var waves [][]T
	for _, list := range lists {
		waves = slices.AppendSeq(waves, slices.Chunk(list, most))
	}
	return waves
}
