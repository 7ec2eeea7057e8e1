// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// A module that says go 1.16 gets no later Go: nobody raises that for a conversion.
func TestWhatIsWrittenNeedsNoNewGo(t *testing.T) {
	t.Parallel()
	written, err := os.ReadFile(filepath.Join("..", "testdata", "golden", "conversion.txt"))
	if err != nil {
		t.Fatal(err)
	}
	files := regexp.MustCompile(`(?m)^-- \S+\.go --\n`).Split(string(written), -1)[1:]
	for _, text := range append(files, preserveText) {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "", text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		config := &types.Config{GoVersion: "go1.16", Importer: nothing{}, Error: func(err error) {
			if known := (types.Error{}); errors.As(err, &known) && regexp.MustCompile(`requires? go`).MatchString(known.Msg) {
				t.Errorf("%s:%d: %s", file.Name.Name, fset.Position(known.Pos).Line, known.Msg)
			}
		}}
		_, _ = config.Check("p", fset, []*ast.File{file}, nil) // what it imports is missing
	}
}

type nothing struct{}

func (nothing) Import(string) (*types.Package, error) { return nil, errors.New("not there") }
