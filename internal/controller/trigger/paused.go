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

// pausedEvery is how often is asked, while everything is paused, whether it still is.
const pausedEvery = 2 * time.Second

// isPaused reads whether everything is paused. Where that cannot be read, nothing is requested: the error keeps the
// look from being complete.
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

// resumed reports whether nothing is paused any more.
func (t *trigger) resumed(ctx context.Context) bool {
	paused, err := t.isPaused(ctx)
	return err == nil && !paused
}

// keepPaused pauses a migration that was requested while someone paused everything: the command marks the installation
// first, and then pauses every migration that it finds. One that was requested too late to be found was created before
// this reads the mark. The reverse holds for resuming. It reports whether everything is paused.
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
			{"op": "test", "path": "/spec/state", "value": state}, // what someone else has changed is theirs
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
