// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// Renaming gives a kind another name, and what is named after it.
type Renaming struct {
	From, To string
	// longer are other kinds whose names contain this one's: they do not follow.
	longer []string
}

// renamingOf is nil where kinds keep their names.
func renamingOf(asked request.Request, old *project.Version) *Renaming {
	if asked.ToKind == "" {
		return nil
	}
	r := &Renaming{From: asked.Kinds[0], To: asked.ToKind}
	for _, kind := range old.Kinds {
		if kind.Name != r.From && strings.Contains(kind.Name, r.From) {
			r.longer = append(r.longer, kind.Name)
		}
	}
	return r
}

// Names reports whether a name of Go code is made of the kind's.
func (r *Renaming) Names(name string) bool { return r.Apply(name) != name }

// Apply renames a name of Go code that is made of the kind's; others stay.
func (r *Renaming) Apply(name string) string {
	name = r.replace(name, r.From, r.To, true)
	name = r.replace(name, lowerFirst(r.From), lowerFirst(r.To), false)
	return r.replace(name, strings.ToLower(r.From), strings.ToLower(r.To), false)
}

// replace replaces whole words of a name in camel case. What begins in lower case is a word at the beginning only.
func (r *Renaming) replace(name, from, to string, anywhere bool) string {
	var out strings.Builder
	for at := 0; at < len(name); {
		end := at + len(from)
		isLonger := func(kind string) bool {
			before := strings.Index(kind, from)
			return before >= 0 && at >= before && strings.HasPrefix(name[at-before:], kind)
		}
		if (anywhere || at == 0) && strings.HasPrefix(name[at:], from) && endsWord(name[end:]) &&
			!slices.ContainsFunc(r.longer, isLonger) {
			out.WriteString(to)
			at = end
			continue
		}
		out.WriteByte(name[at])
		at++
	}
	return out.String()
}

// endsWord reports whether a word ends before rest; the s of a plural belongs to it.
func endsWord(rest string) bool {
	rest = strings.TrimPrefix(rest, "s")
	return rest == "" || !unicode.IsLower(rune(rest[0]))
}

func lowerFirst(name string) string { return strings.ToLower(name[:1]) + name[1:] }

var camel = regexp.MustCompile(`([a-z0-9])([A-Z])`)

func snake(name string) string { return strings.ToLower(camel.ReplaceAllString(name, "${1}_${2}")) }

// File renames a file that is named after the kind.
func (r *Renaming) File(base string) string {
	for from, to := range map[string]string{snake(r.From): snake(r.To),
		strings.ToLower(r.From): strings.ToLower(r.To)} {
		if after, ok := strings.CutPrefix(base, from); ok && after != "" && (after[0] == '_' || after[0] == '.') {
			return to + after
		}
	}
	return base
}

// FileOf is where the code of a file goes that belongs to a home.
func (l *Layout) FileOf(file *project.File, to Home) string {
	base := path.Base(file.Path)
	if to == NewPackage && l.Renaming != nil {
		renamed := l.Renaming.File(base)
		if renamed == base && l.InPlace() {
			renamed = strings.ToLower(l.Renaming.To) + "_" + base
		}
		base = renamed
	}
	if name := path.Join(l.Dir(to), base); !l.has(to, name) {
		return name
	}
	return path.Join(l.Dir(to), strings.ToLower(cmp.Or(l.Request.ToKind, l.Request.Kinds[0]))+"_"+base)
}

// has reports whether a package has a file before the migration.
func (l *Layout) has(h Home, name string) bool {
	return l.Exists(h) && slices.ContainsFunc(l.graphs[h].Package.Files, func(f *project.File) bool {
		return f.Path == name
	})
}

// InPlace: the new kind stands in the package of the old one.
func (l *Layout) InPlace() bool { return l.Dir(NewPackage) == l.Dir(OldPackage) }

// nameCopies names what has another name where it is copied, and refuses names that are taken.
func (l *decision) nameCopies() {
	if l.Renaming == nil {
		return
	}
	taken := map[string]token.Pos{}
	for _, file := range l.Old.Package.Files {
		for ident, object := range file.Info.Defs {
			if object != nil && object.Parent() == object.Pkg().Scope() && l.standsInNew(object) {
				taken[ident.Name] = ident.Pos()
			}
		}
	}
	for _, d := range l.Graph.Declarations {
		if l.DestinationOf(d) != split.New && (l.DestinationOf(d) != split.Anchor || d.Registers()) {
			continue
		}
		for _, name := range d.Names {
			renamed := l.Renaming.Apply(name)
			if renamed == name && l.InPlace() && name != "_" {
				renamed += l.Renaming.To
			}
			if renamed == name {
				continue
			}
			if at, ok := taken[renamed]; ok {
				l.Block(l.Project.Place(at), "%s is to be copied as %s, which is here already: rename one of them first", name, renamed)
			}
			taken[renamed] = d.Pos()
			l.copies[name] = renamed
		}
	}
}

// standsInNew reports whether a name of the old package is one of the new kind's package too.
func (l *Layout) standsInNew(object types.Object) bool {
	if l.InPlace() {
		return true
	}
	d := l.Graph.Owner(object)
	return d != nil && l.GoesTo(d, NewPackage) && !l.Renaming.Names(object.Name())
}

// InFile reports whether a node stands in a file: what is known of one file is known of all of its package.
func (l *Layout) InFile(file *project.File, node ast.Node) bool {
	return file.Syntax.FileStart <= node.Pos() && node.Pos() < file.Syntax.FileEnd
}
