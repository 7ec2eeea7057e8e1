// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"regexp"
	"strings"
	"testing"
)

// A tag of an action can be moved to other code; a digest cannot.
func TestWorkflowsPinActionsAndCallMakeTargets(t *testing.T) {
	uses := regexp.MustCompile(`uses:\s*(\S+)(.*)`)
	pinned := regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40}$`)
	target := regexp.MustCompile(`make (?:--silent )?([a-z][a-z-]*)`)
	makefile := string(read(t, "Makefile"))
	workflows, actions, targets := 0, 0, 0
	for _, name := range files(t, ".yml", ".yaml") {
		if !strings.HasPrefix(name, ".github/workflows/") {
			continue
		}
		workflows++
		workflow := string(read(t, name))
		if !strings.Contains(workflow, "\npermissions:\n  contents: read\n") {
			t.Errorf("%s does not begin with the permission to read alone", name)
		}
		for _, m := range uses.FindAllStringSubmatch(workflow, -1) {
			actions++
			if !pinned.MatchString(m[1]) || !strings.Contains(m[2], "# v") {
				t.Errorf("%s: %s is not pinned by a digest, with its version in a comment", name, m[1])
			}
		}
		for _, m := range target.FindAllStringSubmatch(workflow, -1) {
			targets++
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s calls make %s, which the Makefile does not have", name, m[1])
			}
		}
	}
	if workflows == 0 || actions == 0 || targets == 0 {
		t.Errorf("%d workflows with %d actions and %d make targets were read", workflows, actions, targets)
	}
}

// What .ci/run runs, no other job of the same workflow runs again.
func TestNoTargetRunsTwiceForOneChange(t *testing.T) {
	command := regexp.MustCompile(`(?m)^\s*(?:- run: )?make ([a-z].*)`)
	ran := map[string]string{}
	for _, name := range []string{".ci/run", ".github/workflows/ci.yml"} {
		for _, m := range command.FindAllStringSubmatch(string(read(t, name)), -1) {
			for target := range strings.FieldsSeq(m[1]) {
				if where, again := ran[target]; again {
					t.Errorf("%s runs make %s, which %s runs already", name, target, where)
				}
				ran[target] = name
			}
		}
	}
	if len(ran) < 5 {
		t.Errorf("%d targets were read: %v", len(ran), ran)
	}
}
