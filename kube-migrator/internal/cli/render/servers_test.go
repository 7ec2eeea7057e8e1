// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestServersShowWhatARunWouldProve(t *testing.T) {
	verdict := func(name string, evidence migrate.Evidence, why string, servers ...agreement.Server) agreement.Verdict {
		return agreement.Verdict{Resource: schema.GroupResource{Resource: name}, Servers: servers, Why: why,
			Evidence: evidence, Epoch: &migrate.Epoch{Evidence: evidence}}
	}
	first := agreement.Server{ID: "a", Hash: "h", Version: "v1", Answered: true}
	second := agreement.Server{ID: "b", Hash: "h2", Version: "v2", Answered: true}
	silent := agreement.Server{ID: "b"}
	disagreed := verdict("pods", 0, "API servers disagree about pods: a writes v1, b writes v2", first, second)
	disagreed.Epoch, disagreed.Disagree = nil, true
	for name, test := range map[string]struct {
		verdicts []agreement.Verdict
		byName   bool
		want     string
	}{
		"each was asked": {[]agreement.Verdict{verdict("pods", migrate.Observed, "", first), verdict("secrets",
			migrate.Observed, "", first)}, false, `
API SERVER   ADDRESS   STARTED                ASKED   WRITES
a            -         2026-01-01T12:00:00Z   yes     2 resources

releases    v1.37.0
evidence    a run would be Observed
`},
		"one cannot be asked": {[]agreement.Verdict{verdict("pods", migrate.Sampled, "it is hidden", first, silent)}, true, `
API SERVER   ADDRESS   STARTED                ASKED   WRITES
a            -         2026-01-01T12:00:00Z   yes     pods as v1
b            -         -                      no      unknown

releases    v1.37.0
evidence    a run would be Verified, by reading everything twice: it is hidden
next        an installation: from a pod in the cluster each API server may have an address of its own
`},
		"they disagree": {[]agreement.Verdict{disagreed}, true, `
API SERVER   ADDRESS   STARTED                ASKED   WRITES
a            -         2026-01-01T12:00:00Z   yes     pods as v1
b            -         -                      yes     pods as v2

releases    v1.37.0
evidence    none: no run can begin
disagree    API servers disagree about pods: a writes v1, b writes v2
next        wait until the upgrade of the control plane is over: kube-migrator servers --context=a
`},
	} {
		t.Run(name, func(t *testing.T) {
			report := ServersOf(test.verdicts, test.byName)
			report.Releases = []string{"v1.37.0"}
			report.Servers[0].Started = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
			var b strings.Builder
			if err := report.Text(&b, "kube-migrator servers --context=a"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), b.String()); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}
