// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/ledger"
)

func TestTheResourceAtTheGreatestRiskIsRequestedFirstAndTheReasonIsLogged(t *testing.T) {
	r := newRolling()
	r.observer.known.Resources = nil
	var (
		s    = &observation{round: &agreement.Round{}, states: map[string]*v1alpha1.StorageState{}}
		plan []entryPlan
		log  bytes.Buffer
	)
	r.Logger = slog.New(slog.NewTextHandler(&log, nil))
	for _, at := range []struct{ name, served, stored string }{
		{"calm.demo.example.com", "v1", "v1"},
		{"early.demo.example.com", "v1alpha1", "v1alpha1"},
		{"outdated.demo.example.com", "v1beta1", "v1beta1"},
		{"unreadable.demo.example.com", "v1", "v0"},
	} {
		found := r.of(at.name)
		found.entry.Versions = []inventory.Version{{Name: at.served}}
		found.entry.StorageVersion.Version = at.served
		found.entry.CRD = &inventory.CRD{StorageVersion: at.served, StoredVersions: []string{at.stored}}
		r.observer.known.Resources = append(r.observer.known.Resources, *found.entry)
		plan = append(plan, entryPlan{name: at.name, resource: found, decision: ledger.Decision{
			Request: 1, Reason: "the reason of " + at.name, State: ledger.State{Heartbeat: time.Now(), Current: "h"}}})
	}
	if err := errors.Join(r.carryOut(t.Context(), plan, s)...); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, done := range r.did() {
		if name, ok := strings.CutPrefix(done, "create "); ok {
			got = append(got, strings.TrimSuffix(name, ".demo.example.com"))
			want := fmt.Sprintf(`generation=1 reason="the reason of %s"`, name)
			if !strings.Contains(log.String(), "resource="+name+" "+want) {
				t.Errorf("the log lacks %s of %s:\n%s", want, name, log.String())
			}
		}
	}
	if diff := cmp.Diff([]string{"unreadable", "early", "outdated", "calm"}, got); diff != "" {
		t.Errorf("order of the requests (-want +got):\n%s", diff)
	}
}
