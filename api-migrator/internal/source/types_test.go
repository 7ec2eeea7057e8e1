// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"maps"
	"strings"
	"testing"
)

func TestDeepCopyMethodsStayWhereTypesDo(t *testing.T) {
	t.Parallel()
	const (
		head   = "// +kubebuilder:object:generate=true\npackage v1\n\n"
		before = head + "import (\n\t\"example.com/x/shared\"\n\n\t\"example.com/go-yaml\"\n)\n\n// A is one.\ntype A struct {\n" +
			"\tB shared.B // a part\n\tC *C\n}\n\ntype C []yaml.D\n\nfunc (C) DeepCopyD() {}\n"
	)
	names := map[string]string{"example.com/go-yaml": "yaml"}
	read := func(text string) (map[string]string, error) { return TypesToCopy([][]byte{[]byte(text)}, names) }
	for name, test := range map[string]struct {
		after string
		same  bool
	}{
		"with other comments and functions, in another order": {head + "import (\n\tb \"example.com/x/shared\"\n\t\"example.com/go-yaml\"\n" +
			")\n\n// Deprecated: C is old.\ntype C []yaml.D\n\ntype A struct {\n\tB b.B\n\tC *C\n}\n\nfunc (C) DeepCopyD() {}\n\n" +
			"func f() {}\n", true},
		"with a field of a type that has moved": {head + "import (\n\t\"example.com/y/shared\"\n\t\"example.com/go-yaml\"\n)\n\n" +
			"type A struct {\n\tB shared.B\n\tC *C\n}\n\ntype C []yaml.D\n\nfunc (C) DeepCopyD() {}\n", false},
		"with an alias": {head + "import (\n\t\"example.com/x/shared\"\n)\n\ntype A struct {\n\tB shared.B\n\tC *C\n}\n\n" +
			"type C = shared.C\n\nfunc (C) DeepCopyD() {}\n", false},
		"with another marker":                      {strings.Replace(before, "generate=true", "generate=false", 1), false},
		"without a method that is written by hand": {before[:len(before)-len("func (C) DeepCopyD() {}\n")], false},
	} {
		was, err := read(before)
		if err != nil {
			t.Fatal(err)
		}
		is, err := read(test.after)
		if err != nil {
			t.Fatal(err)
		}
		if got := maps.Equal(was, is); got != test.same {
			t.Errorf("%s: the same is %v, want %v:\n%q\n%q", name, got, test.same, was, is)
		}
	}
	if got, err := read("package v1\n\nimport \"example.com/go-json\"\n\ntype A struct{ json.B }\n"); err == nil {
		t.Errorf("an import whose name is not known gives %q", got)
	}
}
