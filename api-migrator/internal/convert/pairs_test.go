// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
)

func TestTwoTypesThatDifferAreConvertedInOnePlace(t *testing.T) {
	t.Parallel()
	fixture.NeedsGo(t)
	dir, files := fixture.Copy(t, "conversion"), fixture.Archive(t, "testdata/pairs.txtar")
	want := files["want"]
	delete(files, "want")
	fixture.Write(t, dir, files)
	scaffolded(t, dir, Request{Kind: "Pump", Preserve: true})
	code := fixture.Read(t, dir, "api/v1/pump_conversion.go")
	var got strings.Builder
	byHand := regexp.MustCompile(`(?s)// int32(To|From)V2Duration .*?\n}|\t+(if err := )?int32\w+\([^;\n]*|\t//[^\n]*`)
	for _, part := range byHand.FindAllString(code, -1) {
		got.WriteString(strings.Replace(part, "if err := ", "", 1) + "\n")
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, field := range []string{"timeout", "interval", "pauses", "byName", "delay"} {
		if strings.Count(code, `return fmt.Errorf("convert `+field+`: %w", err)`) != 2 {
			t.Errorf("an error does not name %s:\n%s", field, code)
		}
	}
	out, err := fixture.Output(t, dir, "go", "test", "-run", "Pump", "./api/v1")
	if err == nil || !strings.Contains(out, "v1 to v2 and back, without the annotation: spec.stages[].delay: ") {
		t.Errorf("what is not filled in does not fail the test: %v\n%s", err, out)
	}

	const todo = "// TODO: set out to what in means."
	replace(t, dir, "api/v1/pump_conversion.go", "\"fmt\"\n\n", "\"fmt\"\n\t\"time\"\n\n",
		"out *metav1.Duration) error {\n\t"+todo, "out *metav1.Duration) error {\n\t"+
			"out.Duration = time.Duration(*in) * time.Second",
		"out *int32) error {\n\t"+todo, "out *int32) error {\n\t*out = int32(in.Seconds())")
	replace(t, dir, "api/v1/pump_conversion_test.go",
		"OnlyInV1 = []string{}", "OnlyInV1 = []string{\"spec.old\", \"spec.older\"}",
		"OnlyInV2 = []string{}", "OnlyInV2 = []string{\"spec.new\"}",
		"return []interface{}{}", `return []interface{}{func(in *metav1.Duration, c randfill.Continue) {
			in.Duration = time.Duration(c.Int31()) * time.Second
		}}`)
	fixture.Run(t, dir, "go", "test", "-run", "Pump", "./api/v1")
}
