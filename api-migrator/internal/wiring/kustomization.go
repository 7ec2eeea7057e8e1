// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"regexp"
	"slices"
	"strings"
)

var (
	patchesKey = regexp.MustCompile(`^(#\s*)?(patches|patchesStrategicMerge):\s*(\[\])?\s*$`)
	patchEntry = regexp.MustCompile(`^#?\s*- (path: )?patches/`)
	configKey  = regexp.MustCompile(`^#\s*configurations:\s*$`)
	configItem = regexp.MustCompile(`^#\s*- kustomizeconfig\.yaml\s*$`)
	anyKey     = regexp.MustCompile(`^[A-Za-z]+:`)
)

// entryOf matches the line of a patch. The first group is the comment in which kubebuilder leaves it.
func entryOf(file string) *regexp.Regexp {
	return regexp.MustCompile(`^(#\s*)?- (?:path: )?` + file + `\s*$`)
}

// marker matches kubebuilder's comment that says where entries of a sort come.
func marker(name string) *regexp.Regexp {
	return regexp.MustCompile(`^\s*(?:#|//)\s*\+kubebuilder:scaffold:` + name + `\s*$`)
}

// withPatch lists a patch in a kustomization: where kubebuilder left it in a comment, or else above its marker. It is
// false where the text has neither.
func withPatch(text, file, markerName string, plugin int) (string, bool) {
	lines := strings.Split(text, "\n")
	is := func(pattern *regexp.Regexp) func(string) bool { return pattern.MatchString }
	entry := entryOf(regexp.QuoteMeta(file))
	at := slices.IndexFunc(lines, func(line string) bool { // without a comment
		found := entry.FindStringSubmatch(line)
		return found != nil && found[1] == ""
	})
	if at >= 0 {
		return text, true
	}
	if at = slices.IndexFunc(lines, is(entry)); at >= 0 {
		lines[at] = strings.TrimLeft(lines[at], "# ")
	} else {
		if at = slices.IndexFunc(lines, is(marker(markerName))); at < 0 {
			return text, false
		}
		lines = slices.Insert(lines, at, "- "+pathKey(lines, plugin)+file)
	}
	for key := at - 1; key >= 0; key-- {
		if found := patchesKey.FindStringSubmatch(lines[key]); found != nil {
			lines[key] = found[2] + ":"
			return strings.Join(lines, "\n"), true
		}
		if anyKey.MatchString(lines[key]) { // the entry would be one of another list
			return text, false
		}
	}
	return text, false
}

// pathKey is how entries of a list of patches begin: as the others do, or else as the list's kind and the layout have it.
func pathKey(lines []string, plugin int) string {
	const key = "path: "
	for _, line := range lines {
		if found := patchEntry.FindStringSubmatch(line); found != nil {
			return found[1]
		}
	}
	isList := func(line string) bool {
		found := patchesKey.FindStringSubmatch(line)
		return found != nil && found[2] == "patches"
	}
	if plugin > 2 && slices.ContainsFunc(lines, isList) {
		return key
	}
	return ""
}

// withConfiguration takes the list of configurations out of its comment.
func withConfiguration(text string) string {
	lines := strings.Split(text, "\n")
	for i := range len(lines) - 1 {
		if configKey.MatchString(lines[i]) && configItem.MatchString(lines[i+1]) {
			lines[i], lines[i+1] = strings.TrimLeft(lines[i], "# "), strings.TrimLeft(lines[i+1], "# ")
		}
	}
	return strings.Join(lines, "\n")
}

// above puts lines above a marker, with its indentation; false without one.
func above(text, markerName string, added ...string) (string, bool) {
	lines := strings.Split(text, "\n")
	at := slices.IndexFunc(lines, marker(markerName).MatchString)
	if at < 0 {
		return text, false
	}
	indent := lines[at][:len(lines[at])-len(strings.TrimLeft(lines[at], " \t"))]
	for i := range added {
		added[i] = indent + added[i]
	}
	return strings.Join(slices.Insert(lines, at, added...), "\n"), true
}
