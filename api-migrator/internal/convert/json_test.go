// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
)

// Objects cross the border between versions as JSON, where an empty list is not always what it is in memory.
func TestEmptyListsOfClientsSurviveTheWayThroughJSON(t *testing.T) {
	t.Parallel()
	fixture.NeedsGo(t)
	const client = "api/v1/client_test.go"
	dir, files := fixture.Copy(t, "conversion"), fixture.Archive(t, "testdata/empty-values.txtar")
	clients := map[string]string{client: files[client]}
	delete(files, client) // it does not compile before
	fixture.Write(t, dir, files)
	plan := scaffolded(t, dir, Request{Kind: "Crate", Preserve: true})
	fixture.Write(t, dir, clients)
	const want = "null in v1 is absent in v2; [] in v1 is absent in v2, and comes back as null without the annotation"
	if spoke := plan.Spokes[0]; !spoke.Same || len(spoke.Empty) != 3 || spoke.Empty[0] != (Field{"spec.items", want}) {
		t.Errorf("the plan says %+v", spoke)
	}
	fixture.Run(t, dir, "go", "test", "./api/v1")

	// The generated test sees a conversion that looks at memory alone.
	replace(t, dir, "api/internal/preserve/preserve.go", "	content, err := json.Marshal(from)\n",
		"	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from).Elem())\n	return nil\n	content, err := json.Marshal(from)\n")
	out, err := fixture.Output(t, dir, "go", "test", "-vet=off", "-run", "Crate", "./api/v1")
	for _, lost := range []string{"v1 to v2 and back: spec.items: [] became null",
		"v1 to v2 and back: spec.slots[].tags: [] became null", "v2 to v1 and back: spec.labels: {} became null"} {
		if err == nil || !strings.Contains(out, lost) {
			t.Errorf("the generated test does not say %q: %v\n%s", lost, err, out)
		}
	}

	// Without an annotation they are lost, as the plan says; this is no error of the conversion.
	bare := fixture.Copy(t, "conversion")
	fixture.Write(t, bare, files)
	plan = scaffolded(t, bare, Request{Kind: "Crate"})
	if got := plan.Spokes[0].Empty[0].How; got != strings.TrimSuffix(want, " without the annotation") {
		t.Errorf("the plan says %q", got)
	}
	fixture.Run(t, bare, "go", "test", "-run", "Crate", "./api/v1")
}
