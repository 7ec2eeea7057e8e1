// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package mention

import (
	"bytes"
	"cmp"
	"context"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/git"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/makefile"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// What a text says of the old version. What is reported is not changed: only a person knows whether it means the objects
// of today, or those of tomorrow.
const (
	mentionVersion = "names %s"
	mentionLiteral = "has %s in a string, which no compiler checks"
	mentionGVK     = "builds a group, version and kind or resource of %s by hand: "
	mentionMaybe   = "may build a group, version and kind or resource of %s, which no compiler tells"
	mentionWebhook = "is about a webhook of %s: the new version needs a path and an entry of its own"
	mentionOwned   = "owns kinds that move in %s only: list the new version in the ClusterServiceVersion, too"

	mentionOwnedCRD = "owns kinds of %s that get another CRD: list that in the ClusterServiceVersion, too"
)

// byHand is what is said of code that names the version in the fields of a struct.
func (s *Reader) byHand(how builds, file *project.File, expr ast.Expr) string {
	if how == buildsMaybe {
		return mentionMaybe
	}
	why := s.consequencesOf(file, expr, s.Old.Name(), s.Group+"/"+s.Version)
	if why == "" {
		why = "it does not match requests and objects of the new version"
	}
	return mentionGVK + why
}

// literal is what is said of a string with the version.
func (s *Reader) literal(file *project.File, expr ast.Expr) string {
	if why := s.consequencesOf(file, expr, s.Old.Name(), s.Group+"/"+s.Version); why != "" {
		return mentionLiteral + ": " + why
	}
	return mentionLiteral
}

// textNames are the files besides Go that are read for mentions.
var textNames = []string{".yaml", ".yml", ".json", ".md", ".adoc", ".rst", ".txt", ".sh", ".bash", ".tpl", ".mk",
	"Makefile", "Dockerfile"}

// sightings are lines, by file and by what they say.
type sightings map[string]map[string][]int

func (s sightings) add(file, what string, line int) {
	if s[file] == nil {
		s[file] = map[string][]int{}
	}
	s[file][what] = append(s[file][what], line)
}

// Mentions reports where the old version is named outside of what the compiler sees: one finding for each file and
// manner. It reads changed files as they are going to be.
func (s *Reader) Mentions(ctx context.Context, changed changeset.Set) ([]finding.Finding, error) {
	seen := sightings{}
	for _, pkg := range s.Project.Packages {
		for _, file := range pkg.Files {
			if !file.Generated {
				s.mentionsInGo(pkg, file, seen)
			}
		}
	}
	folder := changeset.Folder{Folder: tree.Folder(s.Project.Root), Changes: changed,
		Tracked: git.Tracked(ctx, s.Project.Root)}
	paths, err := folder.Paths()
	if err != nil {
		return nil, err
	}
	for _, name := range paths {
		base := path.Base(name)
		if !slices.Contains(textNames, path.Ext(base)) && !slices.Contains(textNames, base) {
			continue
		}
		text, isText, err := folder.Read(name)
		if err != nil {
			return nil, err
		}
		if isText {
			s.mentionsInText(name, text, seen)
		}
	}
	return s.report(seen), nil
}

// report makes one finding for each file and manner; one for each folder, where too many files say the same.
func (s *Reader) report(seen sightings) []finding.Finding {
	var found finding.Report
	const most = 20
	files := map[string][]string{} // by what they say
	for _, file := range slices.Sorted(maps.Keys(seen)) {
		for what := range seen[file] {
			files[what] = append(files[what], file)
		}
	}
	for what, all := range files {
		slices.SortStableFunc(all, func(a, b string) int { return strings.Compare(path.Dir(a), path.Dir(b)) })
		for i, file := range all {
			alike := 0 // files next to this one
			if len(all) > most {
				if i > 0 && path.Dir(all[i-1]) == path.Dir(file) {
					continue // the first of the folder stands for it
				}
				for _, other := range all[i+1:] {
					if path.Dir(other) != path.Dir(file) {
						break
					}
					alike++
				}
			}
			lines := seen[file][what]
			slices.Sort(lines)
			lines = slices.Compact(lines)
			text := finding.OtherLines(lines)
			if alike > 0 {
				text += "; so do " + strconv.Itoa(alike) + " more files of its folder"
			}
			add := found.Note
			if saysWhatGoesWrong(what) && !strings.HasSuffix(file, "_test.go") {
				add = found.Warn
			}
			add(file+":"+strconv.Itoa(lines[0]), what+"%s", s.Old.Name(), text)
		}
	}
	return found.Findings
}

// saysWhatGoesWrong reports whether a mention comes with its consequences, see consequencesOf.
func saysWhatGoesWrong(what string) bool {
	return strings.HasPrefix(what, mentionGVK) || strings.HasPrefix(what, mentionLiteral+": ")
}

// mentionsInGo looks into strings and composite literals.
func (s *Reader) mentionsInGo(pkg *project.Package, file *project.File, seen sightings) {
	version, webhook := s.versionPattern(), s.webhookPattern()
	restated := s.Restated(pkg, file)
	var within *ast.CompositeLit     // whose strings have been taken together
	tags := map[*ast.BasicLit]bool{} // of fields; they name no version
	ast.Inspect(file.Syntax, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			tags[node.Tag] = true
		case *ast.CompositeLit:
			if how := s.buildsOld(file, node); how != buildsOther && !s.isAnchor(node.Pos()) {
				within = node
				if !s.IsSettled(pkg, file, node) {
					seen.add(file.Path, s.byHand(how, file, node), s.Line(node.Pos()))
				}
			}
		case *ast.CallExpr:
			if how := s.completesOld(file, node); how != buildsOther && !s.isAnchor(node.Pos()) &&
				!s.IsSettled(pkg, file, node) {
				seen.add(file.Path, s.byHand(how, file, node), s.Line(node.Pos()))
			}
		case *ast.BinaryExpr:
			// A text that constants are put together to.
			if value, ok := known(file, node); ok && version.MatchString(value) && !s.isAnchor(node.Pos()) &&
				s.isAboutMoved(strings.Split(value, "\n"), 0) && !s.IsSettled(pkg, file, node) {
				seen.add(file.Path, s.literal(file, node), s.Line(node.Pos()))
			}
		case *ast.BasicLit:
			if tags[node] {
				return true
			}
			value, err := strconv.Unquote(cmp.Or(restated[node], node.Value))
			inside := within != nil && within.Pos() <= node.Pos() && node.End() <= within.End()
			if err != nil || node.Kind != token.STRING || inside || s.isAnchor(node.Pos()) {
				return true
			}
			switch {
			case webhook.MatchString(value):
				seen.add(file.Path, mentionWebhook, s.Line(node.Pos()))
			case version.MatchString(value) && !s.IsSettled(pkg, file, node):
				for i, line := range strings.Split(value, "\n") {
					if version.MatchString(line) && s.isAboutMoved(strings.Split(value, "\n"), i) {
						seen.add(file.Path, s.literal(file, node), s.Line(node.Pos())+i)
					}
				}
			}
		}
		return true
	})
}

// isAnchor reports whether a position lies in what the old version says of itself.
func (s *Reader) isAnchor(pos token.Pos) bool {
	d := s.DeclarationAt(pos)
	return d != nil && d.Anchor
}

// versionPattern finds group/version, but neither another group that ends alike nor another version that begins alike.
func (s *Reader) versionPattern() *regexp.Regexp {
	return regexp.MustCompile(`(^|[^\w.-])` + regexp.QuoteMeta(s.Old.Name()) + `($|\W)`)
}

// webhookPattern finds the paths that kubebuilder gives webhooks of the kinds that move.
func (s *Reader) webhookPattern() *regexp.Regexp {
	kinds := make([]string, 0, len(s.Request.Kinds))
	for _, kind := range s.Request.Kinds {
		kinds = append(kinds, regexp.QuoteMeta(strings.ToLower(kind)))
	}
	return regexp.MustCompile(`/(mutate|validate)-` +
		regexp.QuoteMeta(strings.ReplaceAll(s.Old.Group, ".", "-")+"-"+s.Old.Version) + `-(` +
		strings.Join(kinds, "|") + `)\b`)
}

var kindLine = regexp.MustCompile(`^\W*kind"?:\s*"?(\w+)`)

// isAboutMoved reports whether a line with the version stands next to a kind that moves, or next to none.
func (s *Reader) isAboutMoved(lines []string, i int) bool {
	for _, distance := range []int{0, 1, -1, 2, -2, 3, -3} {
		at := i + distance
		if at < 0 || at >= len(lines) || distance < 0 && strings.HasPrefix(lines[at], "---") {
			continue
		}
		if found := kindLine.FindStringSubmatch(strings.TrimSpace(lines[at])); found != nil {
			return s.Moves(found[1])
		}
	}
	return true
}

// mentionsInText looks into manifests, samples, documents and scripts.
func (s *Reader) mentionsInText(file, text string, seen sightings) {
	version, webhook := s.versionPattern(), s.webhookPattern()
	if strings.Contains(text, "kind: ClusterServiceVersion") {
		s.mentionsInBundle(file, text, seen)
	}
	lines := strings.Split(text, "\n")
	if setsVariables(file) {
		all := makefile.Assignments(text)
		values := maps.Clone(all)
		maps.DeleteFunc(values, func(_, value string) bool { // it is reported where it is set, and not where it is used
			return version.MatchString(makefile.Expand(value, all))
		})
		for i, line := range lines {
			lines[i] = makefile.Expand(line, values)
		}
	} else if !version.MatchString(text) && !webhook.MatchString(text) {
		return
	}
	for i, line := range lines {
		switch {
		case webhook.MatchString(line):
			seen.add(file, mentionWebhook, i+1)
		case version.MatchString(line) && s.isAboutMoved(lines, i):
			seen.add(file, mentionVersion, i+1)
		}
	}
}

// setsVariables reports whether lines of a file have variables that it sets itself: Makefiles and scripts.
func setsVariables(file string) bool {
	return path.Base(file) == "Makefile" || slices.Contains([]string{".mk", ".sh", ".bash"}, path.Ext(file))
}

// succeeds reports whether a CRD is one that a kind gets instead of the old one.
func (s *Reader) succeeds(name string) bool {
	return slices.ContainsFunc(s.Successions, func(one layout.Succession) bool {
		return name == one.Successor.Plural+"."+one.Successor.Group
	})
}

// mentionsInBundle looks for the kinds that a ClusterServiceVersion owns. Its version stands apart from its group, so
// that no pattern finds it.
func (s *Reader) mentionsInBundle(file, text string, seen sightings) {
	decoder := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	for {
		var document struct {
			Kind string `yaml:"kind"`
			Spec struct {
				CRDs struct {
					Owned []yaml.Node `yaml:"owned"`
				} `yaml:"customresourcedefinitions"`
			} `yaml:"spec"`
		}
		if decoder.Decode(&document) != nil {
			return // the end, or no YAML
		}
		var old []int
		known := false
		for _, node := range document.Spec.CRDs.Owned {
			var owned struct{ Name, Kind, Version string }
			if node.Decode(&owned) != nil {
				continue
			}
			isOld := s.Moves(owned.Kind) && strings.HasSuffix(owned.Name, "."+s.Old.Group)
			switch {
			case s.succeeds(owned.Name) || len(s.Successions) == 0 && isOld && owned.Version == s.Version:
				known = true
			case isOld && owned.Version == s.Old.Version:
				old = append(old, node.Line)
			}
		}
		what := mentionOwned
		if len(s.Successions) > 0 {
			what = mentionOwnedCRD
		}
		for _, line := range old {
			if !known {
				seen.add(file, what, line)
			}
		}
	}
}
