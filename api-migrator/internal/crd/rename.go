// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
)

// Rename is a file that gets another name in its folder. Paths have slashes and begin at the project's root.
type Rename struct {
	Old, New string
	// Unique: no other file of the project has the old name, so that a mention without a folder can mean no other.
	Unique bool
}

// Naming is a rule for the name of a CRD's file.
type Naming string

// The namings.
const (
	// Canonical is that of controller-gen: <group>_<plural>.yaml.
	Canonical Naming = "canonical"
	// SDK is that of operator-sdk 0.11 and newer: <group>_<plural>_crd.yaml.
	SDK Naming = "sdk"
	// Auto is SDK for a name that operator-sdk before 0.11 has given, which says a version, and Keep for others.
	Auto Naming = "auto"
	// Keep leaves names as they are.
	Keep Naming = "keep"
)

// Namings are all of them.
func Namings() []Naming { return []Naming{Canonical, SDK, Auto, Keep} }

// Name returns what the file of an upgraded manifest should be called, from what it is called now.
func (n Naming) Name(file string, u *Upgraded) string {
	if n == Keep || !u.Alone || n == Auto && !u.CRDs[0].saysVersion(path.Base(file)) {
		return file
	}
	name := u.CRDs[0].FileName()
	if n == SDK || n == Auto {
		name = strings.TrimSuffix(name, ".yaml") + "_crd.yaml"
	}
	return path.Join(path.Dir(file), name)
}

// saysVersion reports whether a file is called <group>_<version>_<kind>_crd.yaml, with the first label of the group.
func (d *CRD) saysVersion(file string) bool {
	group, _, _ := strings.Cut(d.internal.Spec.Group, ".")
	return slices.ContainsFunc(d.internal.Spec.Versions, func(v apiextensions.CustomResourceDefinitionVersion) bool {
		return file == group+"_"+v.Name+"_"+strings.ToLower(d.internal.Spec.Names.Kind)+"_crd.yaml"
	})
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// References rewrites what a file's text says of renamed files, and notes mentions that it leaves alone: in Go code
// that embeds nothing, in generated code, in addresses, and those that may mean another file.
func References(file, text string, renames []Rename) (rewritten string, notes []Note) {
	for _, rename := range renames {
		if !strings.Contains(text, path.Base(rename.Old)) {
			continue
		}
		var lines []string
		for i, line := range strings.SplitAfter(text, "\n") {
			replaced, left := reference(file, line, rename)
			if replaced != line && !editable(file, text, line) {
				replaced, left = line, true
			}
			if left {
				notes = append(notes, Note{
					Place: fmt.Sprintf("%s:%d", file, i+1),
					Text:  fmt.Sprintf("names %s, which is %s now: left as it is", path.Base(rename.Old), rename.New),
				})
			}
			lines = append(lines, replaced)
		}
		text = strings.Join(lines, "")
	}
	return text, notes
}

// editable reports whether a line may be changed: string literals of a program are its author's.
func editable(file, text, line string) bool {
	if path.Ext(file) != ".go" {
		return true
	}
	return strings.HasPrefix(line, "//go:embed ") && !generated.MatchString(text)
}

// reference rewrites the mentions in one line; left: there is one that was not rewritten.
func reference(file, line string, rename Rename) (replaced string, left bool) {
	old := path.Base(rename.Old)
	var out strings.Builder
	for {
		i := strings.Index(line, old)
		if i < 0 {
			out.WriteString(line)
			return out.String(), left
		}
		before, after := line[:i], line[i+len(old):]
		switch word := before[len(strings.TrimRightFunc(before, isPathRune)):]; {
		case !whole(word, after):
			out.WriteString(before + old)
		case !means(file, word+old, rename): // an address never does: its host is part of the word
			out.WriteString(before + old)
			left = true
		default:
			out.WriteString(before + path.Base(rename.New))
		}
		line = after
	}
}

func isPathRune(r rune) bool {
	return r == '/' || isNameRune(r)
}

func isNameRune(r rune) bool {
	return r == '.' || r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// whole reports whether a name stands for itself, and is no part of a longer one.
func whole(word, after string) bool {
	if word != "" && !strings.HasSuffix(word, "/") {
		return false
	}
	rest := strings.TrimLeftFunc(after, isNameRune)
	name := after[:len(after)-len(rest)]
	return strings.Trim(name, ".") == "" // a full stop may end a sentence
}

// means reports whether a mention in a file is of the renamed file: seen from the file's folder, or from the root, or
// by its name alone.
func means(file, mention string, rename Rename) bool {
	if path.Join(path.Dir(file), mention) == rename.Old || path.Clean(strings.TrimLeft(mention, "/")) == rename.Old {
		return true
	}
	for strings.HasPrefix(mention, "../") || strings.HasPrefix(mention, "./") {
		_, mention, _ = strings.Cut(mention, "/")
	}
	mention = strings.TrimLeft(mention, "/")
	return rename.Unique && (mention == rename.Old || strings.HasSuffix(rename.Old, "/"+mention))
}
