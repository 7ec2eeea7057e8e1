// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
	"github.com/kube-migrator/kube-migrator/internal/golden"
)

// migrationCase is an archive of testdata/cases: code that the fixtures lack, and the outcome of a plan for it.
// A new case is a new file; README.md in that folder describes the sections.
type migrationCase struct {
	file    string
	archive *txtar.Archive
	options caseOptions
	before  map[string]string // the files that are added to the project
}

// caseOptions is the section "plan": the project, and where the request differs from the project's default.
type caseOptions struct {
	Project    string   `json:"project"`
	Kinds      []string `json:"kinds,omitempty"`
	To         string   `json:"to,omitempty"`
	ToKind     string   `json:"toKind,omitempty"`
	Shared     string   `json:"shared,omitempty"`
	Old        string   `json:"old,omitempty"`
	Unexported string   `json:"unexported,omitempty"`
	Consumers  []string `json:"consumers,omitempty"`
	Strings    string   `json:"strings,omitempty"`
	// Assign is where declarations go, by name.
	Assign map[string]split.Destination `json:"assign,omitempty"`
	// First is a plan that is carried out before.
	First *caseOptions `json:"first,omitempty"`
	// Remedy is the change that the blocker proposes. With it, a plan for the same code has no blocker.
	Remedy *caseOptions `json:"remedy,omitempty"`
}

func (o caseOptions) request(t *testing.T) request.Request {
	t.Helper()
	asked, ok := map[string]request.Request{"guide": guideRequest, "kubebuilder": memcachedRequest}[o.Project]
	if !ok {
		t.Fatalf("the project is %q, want guide or kubebuilder", o.Project)
	}
	asked.To, asked.ToKind = cmp.Or(o.To, asked.To), o.ToKind
	asked.Shared, asked.Old, asked.Strings, asked.Assign = o.Shared, o.Old, o.Strings, o.Assign
	asked.Unexported = cmp.Or(o.Unexported, asked.Unexported)
	if o.Kinds != nil {
		asked.Kinds = o.Kinds
	}
	if o.Consumers != nil {
		asked.Consumers = o.Consumers
	}
	return asked
}

func readCase(t *testing.T, file string) migrationCase {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.Comment) == 0 {
		t.Errorf("%s does not begin with a comment that says what it shows", file)
	}
	c := migrationCase{file: file, archive: archive, before: map[string]string{}}
	for _, section := range archive.Files {
		if section.Name == "plan" {
			if err := yaml.UnmarshalStrict(section.Data, &c.options); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
		if name, ok := strings.CutPrefix(section.Name, "before/"); ok {
			c.before[name] = string(section.Data)
		}
	}
	return c
}

func (c migrationCase) name() string { return strings.TrimSuffix(filepath.Base(c.file), ".txtar") }

func (c migrationCase) blocked() bool {
	return slices.ContainsFunc(c.archive.Files, func(f txtar.File) bool { return f.Name == "blockers" })
}

// needsTrial reports whether a case is about what is generated, or about code that does not compile afterwards.
func (c migrationCase) needsTrial() bool {
	return c.options.First != nil || slices.ContainsFunc(c.archive.Files, func(f txtar.File) bool {
		kind, name, _ := strings.Cut(f.Name, "/")
		return kind != "before" && strings.Contains(name, project.DeepCopyFile) ||
			f.Name == "blockers" && strings.Contains(string(f.Data), "afterwards the code does not compile")
	})
}

// TestCases plans each case. Cases of one request share a project and a plan unless they are blocked or need a trial:
// where the outcome is compiled, one plan for each case would take minutes.
func TestCases(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "cases", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	together := map[string][]migrationCase{}
	for _, file := range files {
		c := readCase(t, file)
		key, err := yaml.Marshal(c.options)
		if err != nil {
			t.Fatal(err)
		}
		if c.blocked() || c.needsTrial() {
			key = append(key, c.file...)
		}
		together[string(key)] = append(together[string(key)], c)
	}
	for _, cases := range together {
		t.Run(cases[0].name(), func(t *testing.T) {
			t.Parallel()
			planCases(t, cases)
		})
	}
}

// planCases makes one plan for all cases of a request.
func planCases(t *testing.T, cases []migrationCase) {
	t.Helper()
	options := cases[0].options
	dir := fixture.Repository(t, options.Project)
	for i, c := range cases {
		for name := range c.before {
			for _, other := range cases[:i] {
				if _, ok := other.before[name]; ok {
					t.Fatalf("%s and %s share a plan and both have %s", other.file, c.file, name)
				}
			}
		}
		fixture.Write(t, dir, c.before)
	}
	fixture.Commit(t, dir, "with the code of the cases")
	if options.First != nil {
		options.First.Project = options.Project
		migrated(t, dir, options.First.request(t))
		fixture.Commit(t, dir, "with the first plan")
	}
	before := fixture.Files(t, dir)
	outcomeOf := outcomeOf
	if cases[0].needsTrial() {
		outcomeOf = made
	}
	outcome := outcomeOf(t, dir, options.request(t))
	if blockers := outcome.Plan.Blockers; len(blockers) > 0 && !cases[0].blocked() {
		t.Errorf("blocked: %v", blockers)
	}
	if group, _, _ := strings.Cut(options.To, "/"); (outcome.Plan.Copy != nil) !=
		(options.ToKind != "" || group != "" && !strings.HasPrefix(options.request(t).From, group+"/")) {
		t.Errorf("whether objects have to be copied: %v", outcome.Plan.Copy)
	}
	after := outcome.files(before)
	for name, content := range outcome.After {
		if strings.HasSuffix(name, ".go") && content != nil {
			checkFile(t, name, content)
		}
	}
	for _, c := range cases {
		t.Run(c.name(), func(t *testing.T) {
			c.check(t, before, after, outcome.Plan)
		})
	}
	if options.Remedy == nil {
		return
	}
	options.Remedy.Project = options.Project
	for _, blocker := range outcomeOf(t, dir, options.Remedy.request(t)).Plan.Blockers {
		t.Errorf("with the remedy: %s", blocker)
	}
}

// check compares files, findings and blockers with the sections of the archive.
func (c migrationCase) check(t *testing.T, before, after map[string]string, plan *Plan) {
	t.Helper()
	got := &txtar.Archive{Comment: c.archive.Comment}
	findings, blockers := []string{}, []string{}
	for _, section := range c.archive.Files {
		kind, name, _ := strings.Cut(section.Name, "/")
		text := string(section.Data)
		switch kind {
		case "plan", "before":
		case "after":
			section.Data = []byte(after[name])
		case "has":
			for part := range strings.SplitSeq(text, "...\n") {
				if !strings.Contains("\n"+after[name], "\n"+part) {
					t.Errorf("%s lacks:\n%s\nIt is:\n%s", name, part, after[name])
				}
			}
		case "gone":
			for name := range strings.Lines(text) {
				if content, ok := after[strings.TrimSpace(name)]; ok {
					t.Errorf("%sis still there:\n%s", name, content)
				}
			}
		case "same":
			for line := range strings.Lines(text) {
				name := strings.TrimSpace(line)
				if content, ok := after[name]; !ok || content != before[name] {
					t.Errorf("%s has changed:\n%s", name, content)
				}
			}
		case "findings":
			findings = slices.Collect(strings.Lines(text))
			continue
		case "blockers":
			blockers = slices.Collect(strings.Lines(text))
			continue
		default:
			t.Fatalf("%s has an unknown section %q", c.file, section.Name)
		}
		got.Files = append(got.Files, section)
	}
	for _, list := range []struct {
		name   string
		listed []string
		all    []finding.Finding
	}{{"findings", findings, plan.Findings}, {"blockers", blockers, plan.Blockers}} {
		if lines := c.lines(list.listed, list.all); lines != "" {
			got.Files = append(got.Files, txtar.File{Name: list.name, Data: []byte(lines)})
		}
	}
	golden.Compare(t, c.file, string(txtar.Format(got)))
}

// lines returns the findings about files of the case, and those about other files that the case lists.
func (c migrationCase) lines(listed []string, all []finding.Finding) string {
	var lines []string
	for _, one := range all {
		line := one.String() + "\n"
		names := func(name string) bool { return strings.Contains(line, name) }
		if slices.Contains(listed, line) || slices.ContainsFunc(slices.Collect(maps.Keys(c.before)), names) {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
