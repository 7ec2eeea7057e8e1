// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
)

func TestSeveralResourcesAreMigratedAtTheSameTimeWithinTheBounds(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{})
	const small, large, most = 6, 40, 4
	var all []*gadgets
	for i := range 20 {
		g := newGadgets(t, cluster, fmt.Sprintf("sev%cs", 'a'+i))
		objects := small
		if i == 0 {
			objects = large
		}
		g.stale(objects)
		all = append(all, g)
	}
	user, proxy := throughProxy(t, cluster)
	resources := func(out output) (names []string, left int) {
		t.Helper()
		var report render.Migrations
		if err := json.Unmarshal([]byte(out.stdout), &report); err != nil {
			t.Fatalf("%v\n%s\n%s", err, out.stdout, out.stderr)
		}
		for _, r := range report.Resources {
			names = append(names, r.Resource)
			if r.Outcome != render.Proven {
				left++
			}
		}
		return names, left
	}
	arguments := []string{"migrate", "--include=sev*", "--settle-time=1s", "-o", "json", "--max-rate=25",
		fmt.Sprintf("--max-in-flight=%d", most)}

	command, wait := user.start(arguments...)
	eventually(t, "a small resource is rewritten next to the large one", func() bool { return len(patches(proxy)) > 10 })
	interrupt(t, command.Process)
	out := wait()
	if names, left := resources(out); out.code != 130 || left == 0 || len(names) == len(all) ||
		!strings.Contains(out.stderr, "were not started") {
		t.Errorf("interrupted: exit code %d, %d started, of which %d are not proven\n%s", out.code, len(names), left,
			out.stderr)
	}

	out = user.run(0, arguments...)
	names, left := resources(out)
	if len(names) != len(all) || left != 0 || !slices.IsSorted(names) {
		t.Errorf("%d of %d resources are not proven, or not in order: %v", left, len(all), names)
	}
	for i, g := range all {
		objects := small
		if i == 0 {
			objects = large
		}
		wantStored(t, cluster, g.prefix(), map[string]int{testbed.WidgetGroup + "/v2": objects})
		g.wantVersions("v2", "v1 served", "v2 served storage")
	}
	if together := patches(proxy); inFlight(together) > most {
		t.Errorf("%d patches were in flight at once, want %d at most", inFlight(together), most)
	} else if switches(together) < len(all) {
		t.Errorf("the resources changed %d times between patches: one came after the other", switches(together))
	}
}

// switches counts how often one resource follows another one.
func switches(records []testbed.Record) (n int) {
	resource := func(r testbed.Record) string { return strings.Split(r.Path, "/g-")[0] }
	for i := range records[1:] {
		if resource(records[i]) != resource(records[i+1]) {
			n++
		}
	}
	return n
}
