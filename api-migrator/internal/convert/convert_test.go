// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/internal/golden"
)

func replace(t *testing.T, dir, name string, oldNew ...string) {
	t.Helper()
	text := fixture.Read(t, dir, name)
	for i := 0; i < len(oldNew); i += 2 {
		if !strings.Contains(text, oldNew[i]) {
			t.Fatalf("%s has no %q:\n%s", name, oldNew[i], text)
		}
		text = strings.ReplaceAll(text, oldNew[i], oldNew[i+1])
	}
	fixture.Write(t, dir, map[string]string{name: text})
}

func scaffolded(t *testing.T, dir string, request Request) *Plan {
	t.Helper()
	plan, err := Make(t.Context(), dir, request)
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Write(); err != nil {
		t.Fatal(err)
	}
	return plan
}

func TestWhatDiffersFailsTheTestUntilItIsWritten(t *testing.T) {
	t.Parallel()
	fixture.NeedsGo(t)
	dir := fixture.Copy(t, "conversion")
	before := fixture.Files(t, dir)
	widgets := scaffolded(t, dir, Request{Kind: "Widget", Preserve: true})
	gadgets := scaffolded(t, dir, Request{Kind: "Gadget", Preserve: true})
	if !gadgets.Spokes[0].Same || widgets.Spokes[0].Same || !widgets.Spokes[1].Same {
		t.Errorf("which versions have the same fields: %v, %v", gadgets.Spokes, widgets.Spokes)
	}
	after := fixture.Files(t, dir)
	var written strings.Builder
	for _, name := range slices.Sorted(maps.Keys(after)) {
		switch content, ok := before[name]; {
		case !ok && name != "api/internal/preserve/preserve.go":
			fmt.Fprintf(&written, "-- %s --\n%s", name, after[name])
			for line := range strings.Lines(after[name]) {
				if len(line) > len("\n")+120 { // the linters that kubebuilder sets up refuse it
					t.Errorf("%s has a long line: %s", name, line)
				}
			}
		case ok && content != after[name]:
			t.Errorf("%s has changed", name)
		}
	}
	golden.Compare(t, "../testdata/golden/conversion.txt", written.String())
	if out, err := fixture.Output(t, dir, "gofmt", "-l", "."); err != nil || out != "" {
		t.Errorf("not formatted: %s %v", out, err)
	}
	fixture.Run(t, dir, "go", "vet", "./...")

	out, err := fixture.Output(t, dir, "go", "test", "./...")
	if err == nil {
		t.Fatal("the tests pass although fields are not converted")
	}
	for path, from := range map[string]string{
		"spec.size": "v1 to v2", "spec.access.users": "v1 to v2", "spec.legacy": "v1 to v2",
		"spec.replicas": "v2 to v1", "spec.security.users": "v2 to v1",
		"spec.parts[].material": "v2 to v1", "spec.partsByTag.*.material": "v2 to v1",
		"spec.groups.*[].material": "v2 to v1", "spec.timeout": "v1 to v2",
	} {
		if want := from + " and back, without the annotation: " + path + ": "; !strings.Contains(out, want) {
			t.Errorf("the tests do not say %q:\n%s", want, out)
		}
	}
	for _, not := range []string{"Gadget", "spec.root", "spec.bounds", "and back: "} {
		if strings.Contains(out, not) {
			t.Errorf("the tests say %q:\n%s", not, out)
		}
	}

	fillIn(t, dir)
	fixture.Run(t, dir, "go", "test", "./...")
	if plan := scaffolded(t, dir, Request{Kind: "Widget", Preserve: true}); len(plan.Files) != 0 {
		t.Errorf("a second run writes %v", plan.Files)
	}

	// A conversion that always restores what the annotation keeps would undo changes of clients.
	replace(t, dir, "api/internal/preserve/preserve.go", "\tdefault:\n\t\treturn mine\n",
		"\tdefault:\n\t\tif is != nil {\n\t\t\treturn is\n\t\t}\n\t\treturn mine\n")
	out, err = fixture.Output(t, dir, "go", "test", "-run", "Widget", "./api/v1")
	if err == nil || !strings.Contains(out, "--- FAIL: TestWidgetChangedOnTheWay") ||
		strings.Contains(out, "AndBack") || !strings.Contains(out, "spec.timeout") {
		t.Errorf("stale data come back, and the test of changes does not say so: %v\n%s", err, out)
	}
}

// fillIn writes, as a person would, what the fixture's conversion of Widget lacks.
func fillIn(t *testing.T, dir string) {
	t.Helper()
	const file, todo = "api/v1/widget_conversion.go", "// TODO: set out to what in means."
	replace(t, dir, file,
		"\"fmt\"\n\n", "\"fmt\"\n\t\"time\"\n\n",
		"out *metav1.Duration) error {\n\t"+todo, "out *metav1.Duration) error {\n\t"+
			"*out = metav1.Duration{Duration: time.Duration(*in) * time.Second}",
		"out *int32) error {\n\t"+todo, "out *int32) error {\n\t*out = int32(in.Seconds())",
		"// TODO: convert these fields:\n\t//   - in.Size has no counterpart\n",
		"out.Replicas, out.Security.Users = in.Size, in.Access.Users\n",
		"// TODO: convert these fields:\n\t//   - in.Replicas has no counterpart\n",
		"out.Size, out.Access.Users = in.Replicas, in.Security.Users\n",
	)
	replace(t, dir, "api/v1/widget_conversion_test.go",
		"widgetOnlyInV1 = []string{}", "widgetOnlyInV1 = []string{\"spec.legacy\"}",
		"widgetOnlyInV2 = []string{}", "widgetOnlyInV2 = []string{\"spec.timeout\", \"spec.security.tls\", "+
			"\"spec.parts[].material\", \"spec.partsByTag.*.material\", \"spec.groups.*[].material\"}",
		"return []interface{}{}", `return []interface{}{func(in *v2.WidgetSpec, c randfill.Continue) {
			c.FillNoCustom(in)
			in.Timeout.Duration = time.Duration(c.Int31()) * time.Millisecond
		}}`,
	)
	fixture.Write(t, dir, fixture.Archive(t, "testdata/shares-no-memory.txtar"))
}
