// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"regexp"
	"slices"
	"strings"
)

var (
	moduleLine = regexp.MustCompile(`(?m)^module\s+"?([^\s"]+)`)
	sdkLine    = regexp.MustCompile(`(?m)^\s*(?:require\s+)?github\.com/operator-framework/operator-sdk (v0\.\d+)`)
	pluginLine = regexp.MustCompile(`(?m)^(?:layout:|- )\s*"?go\.kubebuilder\.io/v(\d+)`)
	formatLine = regexp.MustCompile(`(?m)^version:\s*"?(\d+)`)
)

// modulePath is the module that a go.mod declares.
func modulePath(goMod string) string { return submatch(moduleLine, goMod) }

// origin is what made a project, by its files: the project's scaffold, and whether it has generated clients.
func origin(paths []string, read func(string) string) string {
	var made []string
	switch {
	case slices.Contains(paths, "PROJECT"):
		text := read("PROJECT")
		plugin := submatch(pluginLine, text)
		if plugin == "" { // before version 3, the file has only the version of its own format
			plugin = submatch(formatLine, text)
		}
		made = append(made, strings.TrimSpace("kubebuilder v"+plugin))
	case submatch(sdkLine, read("go.mod")) != "":
		made = append(made, "operator-sdk "+submatch(sdkLine, read("go.mod")))
	default:
		made = append(made, "no scaffold")
	}
	if slices.ContainsFunc(paths, func(path string) bool {
		return strings.Contains(path, "clientset/versioned/") || strings.Contains(path, "/applyconfiguration/")
	}) {
		made = append(made, "client-gen")
	}
	return strings.Join(made, ", ")
}

// submatch is the first group of a pattern's first match; empty if there is none.
func submatch(pattern *regexp.Regexp, text string) string {
	if found := pattern.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}
