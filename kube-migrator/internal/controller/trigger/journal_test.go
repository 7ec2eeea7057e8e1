// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"slices"
	"testing"
	"time"
)

func TestAJournalTellsWhatCameAndWhatWasMissed(t *testing.T) {
	woken := 0
	j := newJournal(func() { woken++ })
	start := j.here()
	if j.since(start, "").serversWatched {
		t.Error("no one watches, and nothing was missed")
	}
	j.serversListed(map[string]tenure{"lease-a": {"a1", noon}}, 10)
	if p := j.since(start, ""); p.serversWatched || !slices.Equal(p.processes, []string{"a1"}) {
		t.Errorf("from before the first list: %+v", p)
	}
	listed := j.here()
	j.holds("lease-a", tenure{"a1", noon.Add(10 * time.Second)}, 11) // renewed
	if j.here() != listed {
		t.Error("a renewal is worth no word")
	}
	j.holds("lease-b", tenure{"b1", noon}, 12)
	j.holds("lease-b", tenure{}, 13)
	j.holds("lease-a", tenure{"a2", noon}, 14)
	if p := j.since(listed, ""); !p.serversWatched || !slices.Equal(p.processes, []string{"b1", "a2"}) {
		t.Errorf("since the list: %+v, want what came and went", p)
	}
	suspended := j.here()
	j.holds("lease-a", tenure{"a2", noon.Add(time.Minute)}, 14)
	if p := j.since(suspended, ""); len(p.processes) != 0 {
		t.Errorf("renewed within its time: %+v", p)
	}
	j.holds("lease-a", tenure{"a2", noon.Add(3 * time.Minute)}, 14)
	if p := j.since(suspended, ""); !slices.Equal(p.processes, []string{"a2"}) {
		t.Errorf("came back after its Lease had expired: %+v", p)
	}
	if got := j.reached(); got != 14 {
		t.Errorf("reached %d, want 14", got)
	}
	now := j.here()
	j.forget(now)
	if p := j.since(now, ""); !p.serversWatched || len(p.processes) != 0 {
		t.Errorf("after what is forgotten: %+v", p)
	}
	j.serversLost()
	if j.since(now, "").serversWatched {
		t.Error("the watch is lost, and nothing can be missed")
	}
	j.serversListed(map[string]tenure{"lease-a": {"a2", noon}}, 20)
	if j.since(now, "").serversWatched || !j.since(j.here(), "").serversWatched {
		t.Error("a gap belongs to the time before the list")
	}
	if woken == 0 {
		t.Error("no one was woken")
	}
}

func TestAJournalTellsEveryGenerationOfACRD(t *testing.T) {
	j := newJournal(func() {})
	j.crdsListed(map[string]specState{"widgets": {"u", 3}, "gadgets": {"v", 1}})
	start := j.here()
	j.defines("widgets", specState{"u", 3}) // its status
	j.defines("widgets", specState{"u", 4})
	j.defines("gadgets", specState{"v", 2})
	j.defines("widgets", specState{})
	if got, want := j.since(start, "widgets").crds, []specState{{"u", 4}, {}}; !slices.Equal(got, want) {
		t.Errorf("widgets were %v, want %v", got, want)
	}
	if got, want := j.changed(start), []string{"widgets", "gadgets"}; !slices.Equal(got, want) {
		t.Errorf("changed were %v, want %v", got, want)
	}
	relisted := j.here()
	j.crdsListed(map[string]specState{"widgets": {"w", 1}, "gadgets": {"v", 2}})
	if got, want := j.changed(relisted), []string{"widgets"}; !slices.Equal(got, want) {
		t.Errorf("changed while no one watched: %v, want %v", got, want)
	}
}
