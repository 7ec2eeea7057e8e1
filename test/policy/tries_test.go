// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// commands are the words with which a command begins that an error may suggest.
var commands = []string{"kubectl", "kube-migrator", "api-migrator", "etcdctl", "etcdutl", "git",
	"go", "ls", "rm", "sed",
	"grep", "readlink", "unshare", "dep", "kubebuilder", "dos2unix", "make"}

// suggesting are the functions one of whose arguments is the command after "Try: ", and which one it is.
var suggesting = map[string]int{
	"exit.Try": 1, "exit.TryCode": 1, "refusal.New": 1, "hint.Errorf": 0, "hinted": 1, "finding.is": 2,
}

// A user copies what follows "Try: " into a shell, so it is a command and nothing else: the explanation belongs into
// the line before.
func TestWhatFollowsTryIsACommand(t *testing.T) {
	found := 0
	for _, name := range files(t, ".go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, read(t, name), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			var text string
			switch node := node.(type) {
			case *ast.CallExpr:
				at, ok := suggesting[called(node)]
				if !ok || len(node.Args) <= at {
					return true
				}
				if text, ok = leftmost(node.Args[at]); !ok || text == "" {
					return true // computed elsewhere, or nothing is suggested
				}
			case *ast.BasicLit:
				if node.Kind != token.STRING {
					return true
				}
				value, _ := strconv.Unquote(node.Value)
				_, after, ok := strings.Cut(value, "Try: ")
				if !ok || after == "" || strings.HasPrefix(after, "%s") || strings.HasPrefix(after, `"`) {
					return true
				}
				text = after
			default:
				return true
			}
			found++
			if word, _, _ := strings.Cut(text, " "); !slices.Contains(commands, strings.TrimSpace(word)) {
				t.Errorf("%s: Try: %s: it does not begin with a command", set.Position(node.Pos()), text)
			}
			return true
		})
	}
	if found < 40 {
		t.Errorf("only %d suggestions were found: the test does not see them any more", found)
	}
}

// Golden files hold what users read, with all that is computed.
func TestGoldenFilesSuggestCommands(t *testing.T) {
	suggestion := regexp.MustCompile(`Try: (\S+)`)
	found := 0
	for _, name := range files(t, ".txt", ".golden", ".text") {
		for _, match := range suggestion.FindAllStringSubmatch(string(read(t, name)), -1) {
			if found++; !slices.Contains(commands, match[1]) {
				t.Errorf("%s: %q does not begin with a command", name, match[0])
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d suggestions were found in golden files", found)
	}
}

// called is the function that a call names: "exit.Try", "hinted".
func called(call *ast.CallExpr) string {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		if x, ok := fun.X.(*ast.Ident); ok {
			return x.Name + "." + fun.Sel.Name
		}
	}
	return ""
}

// leftmost is the string with which a concatenation begins; ok is false if that is not a literal.
func leftmost(e ast.Expr) (text string, ok bool) {
	for {
		sum, isSum := e.(*ast.BinaryExpr)
		if !isSum {
			break
		}
		e = sum.X
	}
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil
}
