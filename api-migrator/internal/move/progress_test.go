// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/progress"
)

func TestAPlanTellsItsSteps(t *testing.T) {
	t.Parallel()
	fixture.NeedsGo(t)
	var mu sync.Mutex
	var got []string
	ctx := progress.With(t.Context(), func(step string) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, step)
	})
	if _, err := Make(ctx, fixture.Repository(t, "kubebuilder"), memcachedRequest); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"loading and type-checking github.com/test-org/cache-operator",
		"deciding where declarations go, and editing",
		"trying the plan in a copy: copying, and generating code",
		"trying the plan in a copy: loading and type-checking github.com/test-org/cache-operator",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}
