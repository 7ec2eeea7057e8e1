// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/artifacts"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/git"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
	"github.com/kube-migrator/kube-migrator/internal/shell"
)

// editManifests edits what tells an API server of webhooks: manifests, patches, charts with their templates, and
// ClusterServiceVersions.
func (s *hooks) editManifests(ctx context.Context) error {
	folder := changeset.Folder{Folder: tree.Folder(s.Project.Root), Changes: s.All(),
		Tracked: git.Tracked(ctx, s.Project.Root)}
	paths, err := folder.Paths()
	if err != nil {
		return err
	}
	for _, name := range paths {
		if !slices.Contains([]string{".yaml", ".yml", ".json", ".tpl"}, path.Ext(name)) {
			continue
		}
		text, isText, err := folder.Read(name)
		if err != nil {
			return err
		}
		if !isText || strings.HasPrefix(text, project.StageMark) || !s.concerns(text) {
			continue
		}
		if slices.Contains(s.Request.Leave, name) {
			s.leave(name, text)
			continue
		}
		blockers := len(s.Blockers)
		edited, ok := s.editManifest(name, text)
		for i := range s.Blockers[blockers:] {
			s.Blockers[blockers+i].Text += ". To change the file by hand: --leave " + shell.Quote(name)
		}
		if !ok || edited == text {
			continue
		}
		why := "sends to the webhooks that are served"
		if known := s.Known(name); known != nil {
			why = known.Why
		}
		s.Changes[name] = &changeset.Change{Content: []byte(edited), Why: why}
	}
	return nil
}

// leave says what the author of a file changes by hand.
func (s *hooks) leave(name, text string) {
	known := s.Report
	edited, ok := s.editManifest(name, text)
	if ok && edited == text {
		return
	}
	s.Report = known // the rest is about edits that are not made
	var paths strings.Builder
	moved := s.movedPaths()
	for _, from := range slices.Sorted(maps.Keys(moved)) {
		if wholePath(from).MatchString(text) {
			fmt.Fprintf(&paths, ", %s instead of %s", moved[from], from)
		}
	}
	s.Warn(name, "left as it is, as you have asked (--leave): change what it says of webhooks and admission policies of %s by "+
		"hand%s. The rule of a webhook lists the version alone that its handler decodes, with matchPolicy Equivalent",
		strings.Join(s.Request.Kinds, ", "), paths.String())
}

// concerns reports whether a file may be about a webhook of a kind that moves.
func (s *hooks) concerns(text string) bool {
	if strings.Contains(text, "apiVersions") {
		return true
	}
	return slices.ContainsFunc(s.served.servers, func(one server) bool { return strings.Contains(text, one.before) })
}

// movedPaths are the paths that are served no more, with those that take their place.
func (s *hooks) movedPaths() map[string]string {
	moved := map[string]string{}
	for _, one := range s.served.servers {
		if one.before != one.after && !slices.ContainsFunc(s.served.at(one.before), func(other server) bool {
			return other.at == layout.OldPackage
		}) {
			moved[one.before] = one.after
		}
	}
	return moved
}

// wholePath matches a path, but neither a longer one nor that of a kind whose name is longer.
func wholePath(path string) *regexp.Regexp {
	return regexp.MustCompile(regexp.QuoteMeta(path) + `($|[^\w/-])`)
}

// editManifest is the text of a file after the move; false if it is left alone.
func (s *hooks) editManifest(name, text string) (string, bool) {
	m := s.newManifest(name, text)
	blockers := len(s.Blockers)
	if err := m.read(text); err != nil {
		s.reportUnreadable(name, text, err)
		return "", false
	}
	if len(s.Blockers) > blockers {
		return "", false
	}
	edited := m.text()
	for from, to := range s.movedPaths() {
		edited = wholePath(from).ReplaceAllString(edited, strings.ReplaceAll(to, "$", "$$")+"${1}")
	}
	return edited, true
}

// reportUnreadable is about a file that is not YAML, even without its template actions.
func (s *hooks) reportUnreadable(name, text string, reason error) {
	blockers := len(s.Blockers)
	for from, to := range s.movedPaths() {
		if at := wholePath(from).FindStringIndex(text); at != nil {
			s.Block(fmt.Sprintf("%s:%d", name, 1+strings.Count(text[:at[0]], "\n")), "sends to %s, which becomes %s, and "+
				"cannot be read (%v): change the path and the versions of its rule, or leave them to a template that can",
				from, to, reason)
		}
	}
	if len(s.Blockers) == blockers && len(s.movedPaths()) > 0 && strings.Contains(text, s.Old.Group) {
		s.Warn(name, "cannot be read (%v): if it has rules of webhooks of %s, they have to list "+
			"%s", reason, strings.Join(s.Request.Kinds, ", "), s.namedByPath())
	}
}

func (m *manifest) read(text string) error {
	if !m.isJSON {
		text = artifacts.WithoutActions(text)
	}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var document yaml.Node
		if err := decoder.Decode(&document); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		m.walk(&document, "")
	}
}

// walk looks for webhooks in a node. api is the apiVersion of the object around it.
func (m *manifest) walk(node *yaml.Node, api string) {
	if node.Kind == yaml.MappingNode {
		if said := artifacts.Child(node, "apiVersion"); said != nil {
			api = said.Value
		}
		m.webhook(node, api)
		m.matched(node)
		m.patch(node)
	}
	if node.Kind == yaml.ScalarNode {
		m.embedded(node)
	}
	for _, one := range node.Content {
		m.walk(one, api)
	}
}

// embedded reports rules of webhooks in a string, such as a patch that a kustomization has inline. They are not edited.
func (m *manifest) embedded(node *yaml.Node) {
	if !strings.Contains(node.Value, "\n") || !strings.Contains(node.Value, "apiVersions") {
		return
	}
	place := m.place(node)
	for from, to := range m.movedPaths() {
		if wholePath(from).MatchString(node.Value) {
			m.Block(place, "has a webhook in a string, which is not edited: it sends to %s, which becomes %s. Write it to a "+
				"file of its own", from, to)
			return
		}
	}
	if len(m.movedPaths()) > 0 && strings.Contains(node.Value, m.Old.Version) {
		m.Warn(place, "has the rule of a webhook in a string, which is not edited: if it is one of %s, the rule has to list "+
			"%s", strings.Join(m.Request.Kinds, ", "), m.namedByPath())
	}
}

// webhook edits a mapping that says which requests go where: a webhook of a configuration, or of a
// ClusterServiceVersion.
func (m *manifest) webhook(node *yaml.Node, api string) {
	rules := artifacts.Child(node, "rules")
	if rules == nil || rules.Kind != yaml.SequenceNode {
		return
	}
	e := entry{legacy: api == "admissionregistration.k8s.io/v1beta1"}
	client := artifacts.Child(node, "clientConfig")
	for _, said := range []*yaml.Node{artifacts.Child(artifacts.Child(client, "service"), "path"),
		artifacts.Child(node, "webhookPath"), artifacts.Child(client, "url")} {
		if said != nil && e.path == "" && !artifacts.IsComputed(said.Value) {
			e.path = pathOfURL(said.Value)
		}
	}
	if said := artifacts.Child(node, "matchPolicy"); said != nil {
		e.policy = said.Value
	}
	isWebhook := client != nil || artifacts.Child(node, "webhookPath") != nil
	for _, one := range rules.Content {
		e.rules = append(e.rules, ruleOf(one))
		isWebhook = isWebhook || artifacts.Child(one, "apiVersions") != nil
	}
	if !isWebhook {
		return // a Role, for example
	}
	v := m.decide(e)
	if v.kind != "" && v.block == "" && !m.edit(node, rules, v) {
		v.block = fmt.Sprintf("is a webhook of %s at %s, written in a way that is not edited: its rule has to list %s "+
			"alone, with matchPolicy Equivalent. Write one value on a line, without template actions", v.kind, e.path,
			ruleText(v.group, v.version))
	}
	m.record(m.place(node), e, v)
}

func ruleOf(node *yaml.Node) rule {
	return rule{groups: artifacts.Values(artifacts.Child(node, "apiGroups")),
		versions:  artifacts.Values(artifacts.Child(node, "apiVersions")),
		resources: artifacts.Values(artifacts.Child(node, "resources"))}
}

// edit makes the rules of a webhook list what a verdict says; false if it cannot.
func (m *manifest) edit(node, rules *yaml.Node, v verdict) bool {
	for _, i := range v.rules {
		if !m.setOnly(artifacts.Child(rules.Content[i], "apiVersions"), v.version) ||
			v.group != "" && !m.setSuccessor(rules.Content[i], v.group) {
			return false
		}
	}
	if !v.policy {
		return true
	}
	if said := artifacts.Child(node, "matchPolicy"); said != nil {
		return m.set(said, "Equivalent")
	}
	return m.insert(node, "matchPolicy", "Equivalent")
}

// setSuccessor makes a rule one of the new kind; false if it cannot.
func (m *manifest) setSuccessor(rule *yaml.Node, group string) bool {
	if !m.setOnly(artifacts.Child(rule, "apiGroups"), group) {
		return false
	}
	for _, one := range artifacts.Child(rule, "resources").Content {
		if to := m.resource(one.Value); to != one.Value && !m.set(one, to) {
			return false
		}
	}
	return true
}

var patchedRule = regexp.MustCompile(`/rules(/[^/]+(/(apiGroups|apiVersions|resources)(/[^/]+)?)?)?$`)

// patch reports a JSON patch of a rule, or of what it lists: it names the webhook by its place, in a manifest
// that only a build of the kustomization shows.
func (m *manifest) patch(node *yaml.Node) {
	at, value := artifacts.Child(node, "path"), artifacts.Child(node, "value")
	if artifacts.Child(node, "op") == nil || at == nil || value == nil || !patchedRule.MatchString(at.Value) ||
		!m.saysOld(value) || len(m.served.servers) == 0 {
		return
	}
	m.Warn(m.place(node), "patches the versions of a webhook's rule by its place: if it is one "+
		"of %s, the rule has to list %s", strings.Join(m.Request.Kinds, ", "), m.namedByPath())
}

// saysOld reports whether a value of a rule is one that may change.
func (m *manifest) saysOld(value *yaml.Node) bool {
	return says(value, m.Old.Version) || slices.ContainsFunc(m.Successions, func(one layout.Succession) bool {
		return says(value, one.Old.Group) || says(value, one.Old.Plural)
	})
}

// says reports whether a scalar in a node has a value.
func says(node *yaml.Node, value string) bool {
	return node.Kind == yaml.ScalarNode && node.Value == value ||
		slices.ContainsFunc(node.Content, func(one *yaml.Node) bool { return says(one, value) })
}

// pathOfURL is the path of a URL, and of a path.
func pathOfURL(text string) string {
	if parsed, err := url.Parse(text); err == nil && parsed.Path != "" {
		return parsed.Path
	}
	return text
}
