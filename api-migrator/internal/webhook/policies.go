// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/artifacts"
)

// matched edits what a ValidatingAdmissionPolicy, a MutatingAdmissionPolicy or a binding of one matches. No code serves
// these: their expressions are about the fields of the version that the rule lists, so that the rule stays, and
// matchPolicy Equivalent has the API server convert requests in the new version to it. With Exact, they would pass
// without the policy.
func (m *manifest) matched(node *yaml.Node) {
	for _, key := range []string{"matchConstraints", "matchResources"} {
		match := artifacts.Child(node, key)
		rules := artifacts.Child(match, "resourceRules")
		if rules == nil {
			continue
		}
		var e entry
		for _, one := range rules.Content {
			e.rules = append(e.rules, ruleOf(one))
		}
		about := m.about(e, false)
		if len(about) == 0 {
			continue
		}
		place := m.place(rules)
		if len(m.Successions) > 0 {
			m.Warn(place, "matches %s of %s: the new resource needs a rule of its own, and its objects are not checked "+
				"without it", strings.Join(m.Request.Kinds, ", "), m.Old.Name())
			continue
		}
		if !slices.ContainsFunc(about, func(i int) bool { return !lists(e.rules[i].versions, m.Version) }) {
			continue // each rule matches the new version by itself
		}
		policy := artifacts.Child(match, "matchPolicy")
		switch {
		case policy == nil || policy.Value == "Equivalent":
			m.Note(place, "matches %s in %s: matchPolicy Equivalent, the default, has the API server convert requests in "+
				"%s to %s before its expressions see them. Let it list %s before %s is no longer served", strings.Join(
				m.Request.Kinds, ", "), m.Old.Version, m.Version, m.Old.Version, m.Version, m.Old.Version)
		case policy.Value == "Exact" && m.set(policy, "Equivalent"):
			m.Note(place, "matchPolicy becomes Equivalent: with Exact, requests in %s would pass without this policy. Its "+
				"expressions get %s converted to %s", m.Version, strings.Join(m.Request.Kinds, ", "), m.Old.Version)
		default:
			m.Block(place, "matches %s in %s alone, written in a way that is not edited: requests in %s pass without this "+
				"policy. Set matchPolicy Equivalent", strings.Join(m.Request.Kinds, ", "), m.Old.Version, m.Version)
		}
	}
}

func lists(versions []string, version string) bool {
	return slices.Contains(versions, "*") || slices.Contains(versions, version)
}
