// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

func TestTheMarkerNamesTheGroupThatTheCodeKeepsInAVariable(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"go.mod": "module example.com/operator\n\ngo 1.24\n\nrequire k8s.io/apimachinery " +
			"v0.0.0\n\nreplace k8s.io/apimachinery => ./apimachinery\n",
		"apimachinery/go.mod": "module k8s.io/apimachinery\n",
		"apimachinery/pkg/runtime/schema/schema.go": "package schema\n\ntype GroupVersion struct{ Group, Version " +
			"string }\n",
		"apimachinery/pkg/apis/meta/v1/meta.go": "package v1\n\ntype TypeMeta struct{}\n\ntype ObjectMeta struct{}\n",
		"widgets/group.go":                      "package widgets\n\nvar GroupName = \"widgets.example.com\"\n",
		"widgets/v1/doc.go": "// +k8s:deepcopy-gen=package\n// " +
			"+groupName=widgets.example.com\n\n// Package v1 has widgets.\npackage v1\n",
		"widgets/v1/types.go": `package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"example.com/operator/widgets"
)

var SchemeGroupVersion = schema.GroupVersion{Group: widgets.GroupName, Version: "v1"}

type Widget struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}
`,
	})
	p, err := Load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range p.Versions() {
		names = append(names, v.Name())
	}
	if got := strings.Join(names, " "); got != "widgets.example.com/v1" {
		t.Errorf("the versions are %q, want widgets.example.com/v1", got)
	}
}

func TestAMarkerBelongsToTheTypeBelowItInAGroupToo(t *testing.T) {
	t.Parallel()
	const source = "package v1\n\ntype (\n\tA struct{}\n\n\t// +kubebuilder:storageversion\n\n\t// B is one.\n\tB " +
		"struct{}\n\n\tC struct{}\n)\n"
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	group := file.Decls[0].(*ast.GenDecl)
	for i, want := range []bool{false, true, false} {
		if got := hasStorageMarker(&File{Syntax: file}, group, group.Specs[i]); got != want {
			t.Errorf("%s: %t, want %t", group.Specs[i].(*ast.TypeSpec).Name, got, want)
		}
	}
}
