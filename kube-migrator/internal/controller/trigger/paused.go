// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

// pausedEvery is how often the trigger checks, while everything is paused, whether it still is.
const pausedEvery = 2 * time.Second

// isPaused reads whether everything is paused. If it cannot read that, nothing is requested, and the error makes the
// look incomplete.
func (t *trigger) isPaused(ctx context.Context) (bool, error) {
	if t.Paused == nil {
		return false, nil
	}
	since, err := t.Paused(ctx, t.observer.rest)
	if err != nil {
		return false, fmt.Errorf("read whether everything is paused: %w", err)
	}
	if (since != "") != (t.paused != "") {
		t.Logger.Info("Whether everything is paused has changed: nothing is requested while it is", "paused",
			since != "", "since", since)
	}
	t.paused = since
	return since != "", nil
}

// resumed reports whether the pause of everything has ended.
func (t *trigger) resumed(ctx context.Context) bool {
	paused, err := t.isPaused(ctx)
	return err == nil && !paused
}

// keepPaused pauses a migration that was requested while a user paused everything. The command pause --all first marks
// the installation and then pauses every migration that it finds. A migration that was created too late for the command
// to find it was created before keepPaused reads the mark. Resuming works the same way in reverse. It reports whether
// everything is paused.
func (t *trigger) keepPaused(ctx context.Context, m *v1alpha1.StorageVersionMigration) (bool, error) {
	for state := v1alpha1.StateActive; ; {
		paused, err := t.isPaused(ctx)
		want := v1alpha1.StateActive
		if paused {
			want = v1alpha1.StatePaused
		}
		if err != nil || want == state {
			return paused, err
		}
		patch, err := json.Marshal([]map[string]any{
			{"op": "test", "path": "/metadata/uid", "value": m.UID},
			{"op": "test", "path": "/spec/state", "value": state}, // a user's change wins
			{"op": "replace", "path": "/spec/state", "value": want},
		})
		if err != nil {
			return paused, err
		}
		switch err := t.client.Patch(ctx, m.DeepCopy(), client.RawPatch(types.JSONPatchType, patch)); {
		case apierrors.IsInvalid(err), apierrors.IsNotFound(err): // a test failed, or it was deleted
			return paused, nil
		case err != nil:
			return paused, fmt.Errorf("pause migration %s: %w", m.Name, err)
		}
		state = want
	}
}
