// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/internal/pruning"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func widgets() Migration {
	return Migration{
		Resource: "widgets.demo.example.com", StorageVersion: "v2", Outcome: Proven,
		Evidence: "Observed: 3 API servers, each was asked",
		Result: migrate.Result{
			Epoch: migrate.Epoch{Evidence: migrate.Observed}, Total: 10_000, RewritingSeconds: 25,
			Counts: migrate.Counts{Rewritten: 9_990, Current: 8, Gone: 2},
		},
		StoredVersionsBefore: []string{"v1", "v2"}, StoredVersionsAfter: []string{"v2"},
	}
}

func failed() Migration {
	m := widgets()
	m.Outcome, m.StoredVersionsAfter = Incomplete, nil
	m.Error = "objects could not be rewritten: 21"
	m.Next = "kube-migrator migrate widgets.demo.example.com --resume"
	m.Result.Counts = migrate.Counts{Rewritten: 9_979, Failed: 21, ChangedByAdmission: 4,
		ManagedFieldsDropped: 2, RewrittenBefore: 17}
	m.Result.Restarts = 2
	for range 21 {
		m.Result.Failures = append(m.Result.Failures,
			migrate.Failure{Namespace: "default", Name: "a", Reason: migrate.Rejected, Message: "no\ncolor"})
	}
	return m
}

func TestTheSummaryNamesWhatHappened(t *testing.T) {
	var b strings.Builder
	if err := (&Migrations{Resources: []Migration{widgets()}}).Text(&b); err != nil {
		t.Fatal(err)
	}
	const want = `widgets.demo.example.com (v2): every object is stored as v2
  objects     9,990 rewritten, 8 already current, 2 gone, 0 failed, in 25s
  evidence    Observed: 3 API servers, each was asked
  CRD         status.storedVersions [v1 v2] → [v2]
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

func TestTheSummaryOfFailuresNamesTwentyAndTheCommandThatRetries(t *testing.T) {
	var b strings.Builder
	if err := (&Migrations{Resources: []Migration{failed()}}).Text(&b); err != nil {
		t.Fatal(err)
	}
	want := `widgets.demo.example.com (v2): finished with failures
  objects     9,979 rewritten, 0 already current, 0 gone, 21 failed, in 25s
              17 more were rewritten in 2 earlier passes that the end of an epoch cut short
  admission   changed 4 objects when they were rewritten
  ownership   2 objects lost their managedFields: the API server drops them if an object is too large for etcd with them or, before 1.37, if they name a version that it cannot convert the object to
  evidence    Observed: 3 API servers, each was asked
` + strings.Repeat("  failed      default/a: Rejected: no color\n", 20) + `  failed      and 1 more, see -o json
  error       objects could not be rewritten: 21
  next        kube-migrator migrate widgets.demo.example.com --resume
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

// The API server stores nothing in a dry run, so its answers do not tell which objects are current.
func TestTheSummaryOfADryRunSaysOnlyWhatTheAPIServerAccepts(t *testing.T) {
	passes, rejects := widgets(), failed()
	passes.Outcome, passes.Result.Counts = WouldPass, migrate.Counts{Accepted: 10_000}
	passes.Evidence, passes.StoredVersionsBefore, passes.StoredVersionsAfter = "", nil, nil
	rejects.Outcome, rejects.Result.Counts = WouldReject, migrate.Counts{Accepted: 7, Gone: 1, Failed: 2}
	rejects.Evidence, rejects.Result.Failures, rejects.Error, rejects.Next = "", rejects.Result.Failures[:2], "", ""
	var b strings.Builder
	if err := (&Migrations{Resources: []Migration{passes, rejects}}).Text(&b); err != nil {
		t.Fatal(err)
	}
	const want = `widgets.demo.example.com (v2): a dry run: the API server would refuse no object
  objects     10,000 accepted, 0 gone, 0 refused, in 25s
widgets.demo.example.com (v2): a dry run: the API server would refuse some objects
  objects     7 accepted, 1 gone, 2 refused, in 25s
  failed      default/a: Rejected: no color
  failed      default/a: Rejected: no color
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

func TestTheSummaryOfADryRunSaysWhatWouldBeLeftAlone(t *testing.T) {
	client, server := widgets(), widgets()
	client.Outcome, client.Losses = WouldRun, &pruning.Outlook{Possible: []string{"spec.b"}, Looked: 100}
	client.Losses.Add(&metav1.ObjectMeta{Namespace: "default", Name: "a"}, []string{"spec.b"})
	possible := client
	possible.Losses = &pruning.Outlook{Possible: []string{"spec.b"}, Looked: 100}
	none := client
	none.Losses = &pruning.Outlook{Possible: []string{"spec.b"}, Looked: 3, All: true}
	server.Outcome, server.Evidence, server.StoredVersionsBefore, server.StoredVersionsAfter = WouldReject, "", nil, nil
	server.Result.Counts = migrate.Counts{Accepted: 7, Failed: 1, WouldLoseFields: 1}
	server.Result.Failures = []migrate.Failure{{Namespace: "default", Name: "a", Reason: migrate.WouldLoseFields,
		Message: "the API server would drop spec.b"}}
	var b strings.Builder
	if err := (&Migrations{Resources: []Migration{client, possible, none, server}}).Text(&b); err != nil {
		t.Fatal(err)
	}
	const want = `widgets.demo.example.com (v2): would rewrite about 10,000 objects, but not all
  left alone  1 of the first 100 objects would be left alone, because they would lose fields: default/a (spec.b)
widgets.demo.example.com (v2): would rewrite about 10,000 objects
  left alone  objects that have spec.b would be left alone, because they would lose it
widgets.demo.example.com (v2): would rewrite about 10,000 objects
widgets.demo.example.com (v2): a dry run: some objects would be left alone, because they would lose fields
  objects     7 accepted, 0 gone, 0 refused, 1 left alone, in 25s
  failed      default/a: WouldLoseFields: the API server would drop spec.b
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

func TestOfManyResourcesOnlyThoseThatNeedAttentionAreDescribed(t *testing.T) {
	all := &Migrations{Resources: []Migration{widgets(), widgets(), failed(), widgets(), widgets()}}
	var b strings.Builder
	if err := all.Text(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	want := []string{
		"RESOURCE                   STORAGE   OUTCOME      OBJECTS   REWRITTEN   CURRENT   GONE   FAILED   PRUNED TO " +
			"  EVIDENCE",
		"widgets.demo.example.com   v2        Proven       10,000    9,990       8         2      0        v2        " +
			"  Observed",
		"widgets.demo.example.com   v2        Proven       10,000    9,990       8         2      0        v2        " +
			"  Observed",
		"widgets.demo.example.com   v2        Incomplete   10,000    9,996       0         0      21       -         " +
			"  Observed",
	}
	if diff := cmp.Diff(want, lines[:4]); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if got := strings.Count(b.String(), "widgets.demo.example.com (v2): "); got != 1 {
		t.Errorf("%d resources are described, want the one that failed:\n%s", got, b.String())
	}
}

func TestProgressSaysWhatIsDone(t *testing.T) {
	rewriting := migrate.Progress{
		Phase: migrate.Rewriting, Total: 10_000, Counts: migrate.Counts{Rewritten: 2_400, Current: 99, Failed: 1},
		Pace: migrate.Pace{InFlightLimit: 9},
	}
	for name, test := range map[string]struct {
		progress migrate.Progress
		rate     float64
		width    int
		want     string
	}{
		"a bar on a wide terminal": {rewriting, 250, 120,
			"widgets  [=======                       ]   25%  2,500/10,000  250/s  ETA 30s  9 in flight  1 failed"},
		"no bar on a narrow one": {rewriting, 250, 60,
			"widgets   25%  2,500/10,000  250/s  ETA 30s  9 in flight  1"},
		"no rate before it is known": {rewriting, 0, 60, "widgets   25%  2,500/10,000  9 in flight  1 failed"},
		"what it waits for": {migrate.Progress{Phase: migrate.Waiting,
			Waiting: "until 12:00:00: requests that began before the API servers agreed may still write", Total: 5}, 0,
			120,
			"widgets  waiting until 12:00:00: requests that began before the API servers agreed may still write"},
		"that it verifies": {migrate.Progress{Phase: migrate.Verifying, Total: 10, Verified: 5,
			Pace: migrate.Pace{InFlightLimit: 1}}, 1, 60,
			"widgets  verifying   50%  5/10  1/s  ETA 5s  1 in flight"},
		"that it confirms": {migrate.Progress{Phase: migrate.Confirming, Total: 10}, 0, 120,
			"widgets  confirming that the API servers still agree"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Bar("widgets", test.progress, test.rate, test.width)); diff != "" {
				t.Errorf("bar (-want +got):\n%s", diff)
			}
		})
	}
}
