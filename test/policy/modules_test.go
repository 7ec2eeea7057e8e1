// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"encoding/json"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mayRequire returns, for the folder of each module, the folders of those that it may require, as ARCHITECTURE.md lists
// them. What has to work in the programs of others, the library, stands on nothing.
func mayRequire(t *testing.T) map[string][]string {
	t.Helper()
	_, section, found := strings.Cut(string(read(t, "ARCHITECTURE.md")), "\n## Modules\n")
	if !found {
		t.Fatal("ARCHITECTURE.md has no section Modules")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	folders, table := regexp.MustCompile("`([^`]+)`"), map[string][]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.Contains(cells[1], "`") {
			continue
		}
		var may []string
		for _, match := range folders.FindAllStringSubmatch(cells[3], -1) {
			may = append(may, match[1])
		}
		table[folders.FindStringSubmatch(cells[1])[1]] = may
	}
	return table
}

// goModule is a module of the workspace.
type goModule struct {
	folder   string // from the root
	path     string
	language string
	requires []string // modules
	replaces int
}

// modules returns those that go.work uses.
func modules(t *testing.T) []goModule {
	t.Helper()
	var work struct{ Use []struct{ DiskPath string } }
	if err := json.Unmarshal(command(t, "go", "work", "edit", "-json"), &work); err != nil {
		t.Fatalf("read go.work: %v", err)
	}
	var all []goModule
	for _, use := range work.Use {
		var file struct {
			Module  struct{ Path string }
			Go      string
			Require []struct{ Path string }
			Replace []struct{}
		}
		folder := path.Clean(use.DiskPath)
		if err := json.Unmarshal(command(t, "go", "mod", "edit", "-json", path.Join(folder, "go.mod")), &file); err != nil {
			t.Fatalf("read go.mod of %s: %v", folder, err)
		}
		m := goModule{folder: folder, path: file.Module.Path, language: file.Go, replaces: len(file.Replace)}
		for _, r := range file.Require {
			m.requires = append(m.requires, r.Path)
		}
		all = append(all, m)
	}
	if len(all) < 2 {
		t.Fatalf("go.work uses %d modules", len(all))
	}
	return all
}

func TestEveryModuleRequiresOnlyWhatTheTableAllows(t *testing.T) {
	all, table := modules(t), mayRequire(t)
	for _, m := range all {
		may, ok := table[m.folder]
		if !ok {
			t.Errorf("%s is not in the table of ARCHITECTURE.md: add it, with what it may require", m.folder)
		}
		if want := path.Join(module, m.folder); m.path != want {
			t.Errorf("the module in %s is named %s, want %s", m.folder, m.path, want)
		}
		if m.replaces > 0 {
			t.Errorf("%s/go.mod replaces a module: go install refuses it, and other modules do not see it", m.folder)
		}
		for _, other := range all {
			if slices.Contains(m.requires, other.path) && !slices.Contains(may, other.folder) {
				t.Errorf("%s requires %s, which the table does not allow", m.folder, other.folder)
			}
		}
	}
	if len(table) != len(all) {
		t.Errorf("the table has %d modules, go.work %d", len(table), len(all))
	}
}

// unlinked are requirements of the library that go mod tidy adds although no package of it needs them.
var unlinked = map[string]string{
	"github.com/kr/text": "a test of sigs.k8s.io/yaml imports it, and no go.mod in between requires it",
}

// What the module of the library requires, every program has to take that imports one package of it.
func TestTheLibraryRequiresOnlyWhatItLinks(t *testing.T) {
	list := inRoot("go", "list", "-deps", "-test", "-f", "{{with .Module}}{{.Path}}{{end}}", "./...")
	list.Env = append(os.Environ(), "GOWORK=off")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list what the library links: %v", err)
	}
	linked := strings.Fields(string(out))
	all := modules(t)
	i := slices.IndexFunc(all, func(m goModule) bool { return m.folder == "." })
	for _, required := range all[i].requires {
		if !slices.Contains(linked, required) && unlinked[required] == "" {
			t.Errorf("the library requires %s and does not link it", required)
		}
	}
	tests := inRoot("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./...")
	tests.Env = list.Env
	without, err := tests.Output()
	if err != nil {
		t.Fatal(err)
	}
	if a, b := unique(out), unique(without); !slices.Equal(a, b) {
		t.Errorf("tests of the library bring modules that it does not link: %q, without them %q", a, b)
	}
}

func unique(lines []byte) []string {
	words := strings.Fields(string(bytes.TrimSpace(lines)))
	slices.Sort(words)
	return slices.Compact(words)
}
