// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark/ast"
	"mvdan.cc/sh/v3/syntax"
	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// A command line is accepted if the program shows its help for it: it has read every flag and its value by then.
func TestProgramsAcceptTheCommandLinesOfDocuments(t *testing.T) {
	accepts := programs(t)
	checked := map[string]int{}
	for _, d := range documents(t) {
		for _, c := range d.commands() {
			name, args := c.words[0], c.words[1:]
			if name == "kubectl" && len(args) > 0 && args[0] == "migrator" {
				name, args = "kube-migrator", args[1:]
			}
			accept := accepts[name]
			if accept == nil {
				continue
			}
			checked[name]++
			if err := accept(t.Context(), args); err != nil {
				t.Errorf("%s:%d: %s: %v", d.path, c.line, strings.Join(c.words, " "), err)
			}
		}
	}
	for name, atLeast := range map[string]int{"kube-migrator": 90, "api-migrator": 20, "kubectl": 15, "make": 30, "helm": 3} {
		if checked[name] < atLeast {
			t.Errorf("documents have %d command lines of %s; at least %d were expected", checked[name], name, atLeast)
		}
	}
}

// programs says of each program that documents call whether it accepts arguments.
func programs(t *testing.T) map[string]func(ctx context.Context, args []string) error {
	t.Helper()
	of := func(binary string) func(context.Context, []string) error {
		return func(ctx context.Context, args []string) error {
			args, last := withHelp(args)
			out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return whole(args, last, string(out))
		}
	}
	pinned := func(release testbed.Release, name string) func(context.Context, []string) error {
		binary, err := testbed.Binary(t.Context(), release, name, os.Stderr)
		if err != nil {
			t.Fatal(err)
		}
		return of(binary)
	}
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-tags=grpcnotrace", "-o", bin+"/", "./kube-migrator",
		"./api-migrator")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build our programs: %v\n%s", err, out)
	}
	targets := targets(t)
	return map[string]func(context.Context, []string) error{
		"kube-migrator": of(filepath.Join(bin, "kube-migrator")),
		"api-migrator":  of(filepath.Join(bin, "api-migrator")),
		"kubectl":       pinned(testbed.Newest, "kubectl"),
		"helm":          pinned(testbed.Helm, "helm"),
		"make": func(_ context.Context, args []string) error {
			for _, a := range args {
				if !strings.Contains(a, "=") && !slices.Contains(targets, a) {
					return fmt.Errorf("the Makefile has no target %s", a)
				}
			}
			return nil
		},
	}
}

// bareFlag is a flag without a value.
var bareFlag = regexp.MustCompile(`^--?[a-z][a-z-]*$`)

// withHelp asks for the help of a command line, in front of what the program hands on to another one. A flag at the end
// is returned instead: text names many a flag without its value.
func withHelp(args []string) (asked []string, last string) {
	if at := slices.Index(args, "--"); at >= 0 {
		args = args[:at]
	}
	if n := len(args); n > 0 && bareFlag.MatchString(args[n-1]) {
		last, args = args[n-1], args[:n-1]
	}
	return append(slices.Clone(args), "--help"), last
}

// whole notices what a program did not have to look at: a flag at the end, and a command that does not exist, for which
// a program shows the help of the command above it.
func whole(args []string, last, help string) error {
	if last != "" && !strings.Contains(help, last) {
		return fmt.Errorf("there is no flag %s", last)
	}
	if !strings.Contains(help, "[command]") || strings.HasPrefix(args[0], "-") {
		return nil
	}
	_, usage, _ := strings.Cut(help, "Usage:\n")
	usage, _, _ = strings.Cut(strings.TrimSpace(usage), " [")
	if path := strings.Fields(usage)[1:]; len(path) < len(args)-1 {
		return fmt.Errorf("there is no command %s below %s", args[len(path)], usage)
	}
	return nil
}

// target is a rule of the Makefile.
var target = regexp.MustCompile(`(?m)^([a-z-]+):`)

func targets(t *testing.T) []string {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, match := range target.FindAllStringSubmatch(string(makefile), -1) {
		all = append(all, match[1])
	}
	return all
}

// command is a command line of a document.
type command struct {
	line  int
	words []string
}

// commands are the command lines of a document's code blocks, and those that its text shows.
func (d document) commands() []command {
	var all []command
	each(d, func(n *ast.FencedCodeBlock) {
		if language := string(n.Language(d.source)); slices.Contains([]string{"", "sh", "bash", "console"}, language) {
			all = append(all, parse(d.block(n), d.line(n))...)
		} else if language == "yaml" {
			all = append(all, inManifest(d.block(n), d.line(n))...)
		}
	})
	each(d, func(n *ast.CodeSpan) {
		// A name alone, or one with a placeholder, is a name.
		if text := d.plain(n); strings.Contains(text, " ") {
			all = append(all, parse(text, d.line(n))...)
		}
	})
	return all
}

// inManifest are the commands that a YAML document runs: the steps of a workflow, and our containers.
func inManifest(manifest string, line int) []command {
	var all []command
	var walk func(value any)
	walk = func(value any) {
		switch value := value.(type) {
		case []any:
			for _, element := range value {
				walk(element)
			}
		case map[string]any:
			if script, ok := value["run"].(string); ok {
				all = append(all, parse(script, line)...)
			}
			image, _ := value["image"].(string)
			if args, ok := value["args"].([]any); ok && strings.Contains(image, "kube-migrator") {
				c := command{line: line, words: []string{"kube-migrator"}}
				for _, a := range args {
					c.words = append(c.words, fmt.Sprint(a))
				}
				all = append(all, c)
			}
			for _, element := range value {
				walk(element)
			}
		}
	}
	for part := range strings.SplitSeq(manifest, "\n---\n") {
		var value any
		if err := yaml.Unmarshal([]byte(part), &value); err == nil { // some blocks are parts of manifests
			walk(value)
		}
	}
	return all
}

// parse finds the commands of a script. Text that is none, such as the output of a program, has none.
func parse(script string, line int) []command {
	file, err := syntax.NewParser().Parse(strings.NewReader(script), "")
	if err != nil {
		return nil
	}
	var all []command
	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		c := command{line: line + int(call.Pos().Line()) - 1}
		for _, word := range call.Args {
			c.words = append(c.words, literal(word))
		}
		c.words[0] = filepath.Base(c.words[0])
		all = append(all, c)
		return true
	})
	return all
}

// literal is a word as a program gets it; what the shell would compute is 1.
func literal(word *syntax.Word) string {
	var b strings.Builder
	var add func(parts []syntax.WordPart)
	add = func(parts []syntax.WordPart) {
		for _, part := range parts {
			switch part := part.(type) {
			case *syntax.Lit:
				b.WriteString(part.Value)
			case *syntax.SglQuoted:
				b.WriteString(part.Value)
			case *syntax.DblQuoted:
				add(part.Parts)
			default:
				b.WriteString("1")
			}
		}
	}
	add(word.Parts)
	return b.String()
}
