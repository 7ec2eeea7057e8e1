// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// check and progress answer alike, by what a controller has recorded, also without its migrations and without itself.
func TestCheckAndProgressAnswerAlike(t *testing.T) {
	t.Parallel()
	cluster := staleWidgets(t, 20, testbed.Widgets{})
	c := newControlled(t, cluster)
	tool := newCLI(t, cluster)
	type answer struct {
		Verdict  string
		Excluded []string
		Verdicts map[string]string
	}
	ask := func(code int, words ...string) answer {
		t.Helper()
		var said struct {
			Verdict   string
			Excluded  []string
			Resources []struct{ Resource, Verdict string }
		}
		if err := json.Unmarshal([]byte(tool.run(code, append(words, "-o", "json")...).stdout), &said); err != nil {
			t.Fatal(err)
		}
		a := answer{Verdict: said.Verdict, Excluded: said.Excluded, Verdicts: map[string]string{}}
		for _, r := range said.Resources {
			a.Verdicts[r.Resource] = r.Verdict
		}
		return a
	}
	both := func(what string, code int, words ...string) answer {
		t.Helper()
		check, progress := ask(code, append([]string{"check"}, words...)...),
			ask(code, append([]string{"progress"}, words...)...)
		if diff := cmp.Diff(check, progress); diff != "" {
			t.Errorf("%s (-check +progress):\n%s", what, diff)
		}
		return check
	}

	both("without a record", 3)
	p := c.triggering("--include=widgets.*", "--discovery-period=1h")
	c.untilState(widgetsName, "proven", persistedOnly("v2"))
	c.untilState("secrets", "recorded", func(s *v1alpha1.StorageState) bool { return s.Status.Excluded })
	if a := both("after a proof", 0); a.Verdicts[widgetsName] != "Safe" || !slices.Contains(a.Excluded, "secrets") ||
		a.Verdicts["secrets"] != "" {
		t.Errorf("after a proof: %+v, want widgets safe and secrets left out", a)
	}
	both("an excluded resource that is named", 3, "secrets")
	both("an excluded resource that is included", 3, "--include=secret*")
	both("what the user excludes", 0, "--exclude=widgets.*")

	do(t, cluster, http.MethodDelete, migrations+"/"+widgetsName, nil)
	if a := both("without a migration", 0); a.Verdicts[widgetsName] != "Safe" {
		t.Errorf("without a migration: %+v", a)
	}
	c.end(p)
	renewed := func(age time.Duration) {
		at := time.Now().Add(-age).UTC().Format(time.RFC3339)
		do(t, cluster, http.MethodPatch, states+"/"+widgetsName+"/status",
			map[string]any{"status": map[string]any{"lastHeartbeatTime": at}})
	}
	renewed(91 * time.Minute)
	both("a heartbeat as old as one of its period can be", 0)
	renewed(93 * time.Minute)
	both("a heartbeat that is late", 3)
	renewed(0)
	moveStorage(t, cluster, "v1")
	if a := both("a version that no one has recorded", 2); a.Verdicts[widgetsName] != "Unsafe" {
		t.Errorf("a version that no one has recorded: %+v", a)
	}
}
