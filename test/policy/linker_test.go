// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// callers of methods by name, through reflection. Where the linker sees one that is used, it keeps every exported
// method of every type: for the types of Kubernetes' APIs those are 10 MiB. text/template is not among them: cobra
// imports it, and the linker drops it, because none of our commands has a template.
var callers = []string{"golang.org/x/net/trace", "html/template"}

// released is a line of the Makefile that builds a program for users.
var released = regexp.MustCompile(` go build .* \./((kube|api)-migrator|\$\$command)(;| |$)`)

func TestTheLinkerMayDropMethodsFromTheReleasedBinary(t *testing.T) {
	makefile := read(t, "Makefile")
	tags := regexp.MustCompile(`(?m)^TAGS := (\S+)$`).FindSubmatch(makefile)
	if tags == nil {
		t.Fatal("the Makefile has no TAGS")
	}
	if !regexp.MustCompile(`(?m)^BUILD_FLAGS := .*-tags '\$\(TAGS\)'`).Match(makefile) {
		t.Error("the BUILD_FLAGS of the Makefile are without the tags")
	}
	builds := 0
	for line := range strings.Lines(string(makefile)) {
		if !released.MatchString(line) {
			continue
		}
		if builds++; !strings.Contains(line, "$(BUILD_FLAGS)") {
			t.Errorf("a released binary is built with other flags: %s", strings.TrimSpace(line))
		}
	}
	if builds < 4 {
		t.Errorf("the Makefile has %d lines that build a released binary, want those of both binaries, of the image "+
			"and of the release", builds)
	}
	for dependency := range strings.Lines(string(command(t, "go", "list", "-deps", "-tags", string(tags[1]),
		"./kube-migrator"))) {
		if dependency = strings.TrimSpace(dependency); slices.Contains(callers, dependency) {
			t.Errorf("kube-migrator depends on %s, which calls methods by name: the binary grows by a quarter",
				dependency)
		}
	}
}
