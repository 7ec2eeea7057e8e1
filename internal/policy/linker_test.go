// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// callers of methods by name, through reflection. Where the linker sees one that is used, it keeps every exported method of every type: for
// the types of Kubernetes' APIs those are 10 MiB. text/template is not among them: cobra imports it, and the linker drops it, because none
// of our commands has a template.
var callers = []string{"golang.org/x/net/trace", "html/template"}

func TestTheLinkerMayDropMethodsFromTheReleasedBinary(t *testing.T) {
	makefile := read(t, "Makefile")
	tags := regexp.MustCompile(`(?m)^TAGS := (\S+)$`).FindSubmatch(makefile)
	if tags == nil {
		t.Fatal("the Makefile has no TAGS")
	}
	builds := 0
	for line := range strings.Lines(string(makefile)) {
		if !strings.Contains(line, " go build ") || !strings.Contains(line, "./cmd/kube-migrator") {
			continue
		}
		if builds++; !strings.Contains(line, "-tags '$(TAGS)'") {
			t.Errorf("the released binary is built without the tags: %s", strings.TrimSpace(line))
		}
	}
	if builds < 2 {
		t.Errorf("the Makefile has %d lines that build the released binary, want that of the binary and that of the image", builds)
	}
	for dependency := range strings.Lines(string(command(t, "go", "list", "-deps", "-tags", string(tags[1]), "./cmd/kube-migrator"))) {
		if dependency = strings.TrimSpace(dependency); slices.Contains(callers, dependency) {
			t.Errorf("kube-migrator depends on %s, which calls methods by name: the binary grows by a quarter", dependency)
		}
	}
}
