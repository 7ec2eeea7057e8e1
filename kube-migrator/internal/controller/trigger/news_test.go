// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/ledger"
)

func TestEachChangeOfARecordIsToldOnce(t *testing.T) {
	var (
		record   = new(v1alpha1.StorageStateStatus)
		nothing  []string
		together = func(changes ...func(*ledger.State, *agreement.Verdict)) func(*ledger.State, *agreement.Verdict) {
			return func(s *ledger.State, v *agreement.Verdict) {
				for _, change := range changes {
					change(s, v)
				}
			}
		}
	)
	const (
		isUnknown = "Warning StoredVersionsUnknown Objects may be stored in versions that cannot be determined: a server " +
			"was replaced"
		disagrees = "Warning EncodingVersionsDisagree The API servers encode the resource in different versions: " +
			"api-1 writes v1, api-2 writes v2"
		agreeWeakly = "Normal EncodingVersionsAgree All API servers seem to encode the resource in one version, " +
			"but the evidence is only Sampled, and the installation requires more"
		agreeAgain = "Normal EncodingVersionsAgree All API servers encode the resource in one version (Observed)"
	)
	for _, step := range []struct {
		name   string
		change func(*ledger.State, *agreement.Verdict)
		doubt  string
		want   []string
	}{
		{"a record begins", unknown, "nothing is recorded", nothing},
		{"the next look", unknown, "", nothing},
		{"a proof", proven, "", nothing},
		{"a server is silent", together(proven, silent), "", nothing},
		{"it answers", proven, "", nothing}, // they did not disagree
		{"a doubt", unknown, "a server was replaced", []string{isUnknown}},
		{"another doubt", unknown, "another server was replaced", nothing},
		{"a disagreement", together(unknown, disagreeing), "", []string{disagrees}},
		{"it lasts", together(unknown, disagreeing), "", nothing},
		{"one of them is silent", together(unknown, silent), "", nothing},
		{"they still disagree", together(unknown, disagreeing), "", nothing},
		{"one of them is silent again", together(unknown, silent), "", nothing},
		{"agreement", unknown, "", []string{agreeAgain}},
		{"a disagreement again", together(unknown, disagreeing), "", []string{disagrees}},
		{"agreement that proves nothing", together(unknown, weak), "", []string{agreeWeakly}},
		{"agreement that would", unknown, "", nothing},
		{"it lasts, too", unknown, "", nothing},
		{"everything at once", together(proven, disagreeing), "", []string{disagrees}},
		{"agreement and a doubt", unknown, "a server was replaced", []string{isUnknown, agreeAgain}},
	} {
		s, v := full, view
		s.OnlyDecodable = false
		step.change(&s, &v)
		next := status(record, s, &v, step.doubt, noon)
		var got []string
		for _, n := range news(record, &next, step.doubt) {
			got = append(got, n.kind+" "+n.reason+" "+n.message)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
		record = &next
	}
	excluded := *record
	excluded.Excluded = true
	if got := news(stateThat(t, proven), &excluded, "because"); got != nil {
		t.Errorf("of an excluded resource it is told: %v", got)
	}
	if got := news(stateThat(t, proven), stateThat(t, unknown), ""); len(got) != 1 ||
		got[0].kind != corev1.EventTypeWarning ||
		got[0].message != "Objects may be stored in versions that cannot be determined" {
		t.Errorf("without a reason it is told: %v", got)
	}
}

func TestALongReasonFitsIntoAnEvent(t *testing.T) {
	got := news(stateThat(t, proven), stateThat(t, unknown), strings.Repeat("€", longestNote))
	if len(got) != 1 || len(got[0].message) > longestNote || !utf8.ValidString(got[0].message) {
		t.Errorf("%d Events, the first one of %d bytes", len(got), len(got[0].message))
	}
}
