// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/typed"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

// layoutOn returns the layout that is decided for a project. The go command is not started, and no file is changed.
func layoutOn(t *testing.T, dir string, asked request.Request) *layout.Layout {
	t.Helper()
	from, err := examine(t.Context(), typed.Load(t, dir), asked)
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := decide(from)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// outlined is the outcome of a request without the code that is generated for it, and without a trial: the go command is
// not started.
func outlined(t *testing.T, dir string, asked request.Request) *Outcome {
	t.Helper()
	from, err := examine(t.Context(), typed.Load(t, dir), asked)
	if err != nil {
		t.Fatal(err)
	}
	l, all, err := from.changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := newOutcome(l, all)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

// outcomeOf is the outcome of one of many requests that differ in a few options or in the folders of a project. What it
// is gets checked in any case; that it compiles, in make test-all.
func outcomeOf(t *testing.T, dir string, asked request.Request) *Outcome {
	t.Helper()
	if compiles {
		return made(t, dir, asked)
	}
	return outlined(t, dir, asked)
}
