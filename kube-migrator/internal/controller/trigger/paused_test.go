// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

// patched notes the values to which spec.state is patched.
type patched struct {
	client.Client
	states []string
	err    error
}

func (p *patched) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	raw, err := patch.Data(o)
	if err != nil {
		return err
	}
	var operations []struct{ Path, Value string }
	if err := json.Unmarshal(raw, &operations); err != nil {
		return err
	}
	p.states = append(p.states, operations[1].Value+" → "+operations[2].Value)
	return p.err
}

// A command pauses or resumes everything at any moment while a migration is being requested.
func TestWhatIsRequestedWhileEverythingIsPausedIsPaused(t *testing.T) {
	const yes, no = "2026-01-02T12:00:00Z", ""
	unreadable := errors.New("unreadable")
	for name, c := range map[string]struct {
		answers []string // of one reading after the other; the last one is repeated
		err     error    // of the patch
		patches []string
		paused  bool
		fails   bool
	}{
		"not paused": {answers: []string{no}},
		"paused":     {answers: []string{yes}, patches: []string{"Active → Paused"}, paused: true},
		"paused, and resumed at once": {answers: []string{yes, no},
			patches: []string{"Active → Paused", "Paused → Active"}},
		"paused by someone else before": {answers: []string{yes},
			err: apierrors.NewGenericServerResponse(422, "patch",
				schema.GroupResource{Resource: "storageversionmigrations"}, "a", "", 0, true),
			patches: []string{"Active → Paused"}, paused: true},
		"the mark cannot be read": {fails: true},
		"the patch fails": {answers: []string{yes}, err: unreadable, patches: []string{"Active → Paused"},
			paused: true, fails: true},
	} {
		p := &patched{err: c.err}
		read := 0
		tr := &trigger{client: p, Options: Options{Logger: slog.New(slog.DiscardHandler), Paused: func(context.Context,
			rest.Interface) (string, error) {
			if len(c.answers) == 0 {
				return "", unreadable
			}
			read++
			return c.answers[min(read, len(c.answers))-1], nil
		}}}
		paused, err := tr.keepPaused(t.Context(), &v1alpha1.StorageVersionMigration{})
		if diff := cmp.Diff(c.patches, p.states); diff != "" || paused != c.paused || (err != nil) != c.fails {
			t.Errorf("%s: paused %t, %v, patches (-want +got):\n%s", name, paused, err, diff)
		}
	}
}

func TestNothingIsRequestedWhereItIsUnknownWhetherEverythingIsPaused(t *testing.T) {
	for answer, err := range map[string]error{"": errors.New("forbidden"), "2026-01-02T12:00:00Z": nil} {
		tr := &trigger{Options: Options{Logger: slog.New(slog.DiscardHandler),
			Paused: func(context.Context, rest.Interface) (string, error) { return answer, err }}}
		// it would panic if it continued
		if problems := errors.Join(tr.request(t.Context(), nil, nil)...); (problems != nil) != (err != nil) {
			t.Errorf("paused %q, %v: %v", answer, err, problems)
		}
	}
}
