// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/etcdaudit"
)

// heldBack makes the API server store some built-in types in the versions of an older release.
const heldBack = "--min-compatibility-version=1.34"

// The resources that get old, by the names that audits use.
const (
	widgets        = "widgets.demo.example.com"
	policies       = "mutatingadmissionpolicies.admissionregistration.k8s.io"
	policiesPrefix = "/registry/mutatingadmissionpolicies/"
)

var errNotProven = errors.New("not proven")

// size is how many objects of each resource there are, and how long to wait for old requests.
type size struct {
	widgets, policies int
	settleTime        time.Duration
}

// story is the life of an API version on one cluster.
type story struct {
	*terminal
	cluster *testbed.Cluster
	size    size
	seen    evidence
}

func (s *story) tell(ctx context.Context) error {
	for _, chapter := range []func(context.Context) error{s.past, s.upgrade, s.lookBefore, s.migrate,
		s.lookAfter, s.removeOldVersion} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	return s.end()
}

// past fills the cluster.
func (s *story) past(ctx context.Context) error {
	s.say(fmt.Sprintf("\nThe cluster has a custom resource, widgets, with the versions v1 (storage version) and v2, "+
		"and %s objects of it,\nstored as v1.", render.Count(int64(s.size.widgets))))
	if err := s.cluster.InstallWidgets(ctx, testbed.Widgets{}); err != nil {
		return err
	}
	if err := s.cluster.BulkCreate(ctx, testbed.Bulk{Count: s.size.widgets}); err != nil {
		return err
	}
	s.say(fmt.Sprintf("And it has %d MutatingAdmissionPolicies, a built-in resource, which this API server stores as "+
		"v1beta1:", s.size.policies))
	raw, err := json.Marshal(policyList(s.size.policies))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.dir, "policies.json"), raw, 0o600); err != nil {
		return fmt.Errorf("write policies: %w", err)
	}
	_, err = s.run(ctx, command{line: []string{"kubectl", "create", "-f", "policies.json"},
		shown: first(2), rest: " like these"})
	return err
}

// policyList returns policies that apply to nothing.
func policyList(n int) map[string]any {
	var items []any
	for i := range n {
		items = append(items, map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
			"metadata": map[string]any{"name": fmt.Sprintf("policy-%02d", i)},
			"spec": map[string]any{
				"failurePolicy": "Fail", "reinvocationPolicy": "IfNeeded",
				"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
					"apiGroups": []string{"unused.example.com"}, "apiVersions": []string{"v1"},
					"operations": []string{"CREATE"}, "resources": []string{"things"},
				}}},
				"mutations": []any{map[string]any{
					"patchType": "ApplyConfiguration",
					"applyConfiguration": map[string]any{
						"expression": `Object{metadata: Object.metadata{labels: {"seen": "yes"}}}`,
					},
				}},
			},
		})
	}
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
}

// upgrade makes everything that is stored old.
func (s *story) upgrade(ctx context.Context) error {
	s.chapter("The upgrade")
	s.say("The API server is restarted without " + heldBack + ": from now on it writes policies as v1.")
	if err := s.cluster.Servers[0].RestartWith(ctx, testbed.ServerOptions{}); err != nil {
		return err
	}
	s.say("The authors of widgets move the storage version to v2:")
	if _, err := s.run(ctx, patchCRD(`[{"op":"replace","path":"/spec/versions/0/storage","value":false},`+
		`{"op":"replace","path":"/spec/versions/1/storage","value":true}]`)); err != nil {
		return err
	}
	s.say("\nThey would like to drop v1 as well, but Kubernetes cannot know whether something is still stored in it:")
	refused := dropV1()
	refused.exit, refused.why = 1, "refused, and rightly so"
	_, err := s.run(ctx, refused)
	return err
}

func patchCRD(patch string) command {
	return command{line: []string{"kubectl", "patch", "crd", widgets, "--type=json", "-p", patch}}
}

func dropV1() command { return patchCRD(`[{"op":"remove","path":"/spec/versions/0"}]`) }

// lookBefore shows that an upgrade rewrites nothing.
func (s *story) lookBefore(ctx context.Context) error {
	s.chapter("What needs to be migrated?")
	s.say("plan asks the API server, and changes nothing:")
	if _, err := s.run(ctx, command{
		line: []string{"kube-migrator", "plan", "widgets", "mutatingadmissionpolicies"}, exit: 2,
		why: "a migration is needed",
	}); err != nil {
		return err
	}
	s.say("\nOnly CRDs record what is stored. audit reads etcd itself, past the API server:")
	if _, err := s.run(ctx, command{
		line: s.audit(), exit: 2, why: "objects are stale",
		shown: func(i int, line string) bool { return i == 0 || strings.HasSuffix(line, "stale\n") },
		rest:  ", none of them stale",
	}); err != nil {
		return err
	}
	s.say("\nThe upgrade has rewritten nothing. The same again as JSON, for the comparison at the end, and what the " +
		"CRD claims:")
	return s.look(ctx, &s.seen.before, "before.json")
}

func (s *story) audit(more ...string) []string {
	return append([]string{"kube-migrator", "audit", "--etcd-endpoints", s.cluster.Etcd.Endpoint()}, more...)
}

// look reads what is stored, in three ways: our audit, the CRD's claim, and the objects' identity.
func (s *story) look(ctx context.Context, into *look, file string) error {
	raw, err := s.run(ctx, command{line: s.audit("-o", "json"), into: file, anyExit: true})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &into.report); err != nil {
		return fmt.Errorf("decode audit: %w", err)
	}
	raw, err = s.run(ctx, command{line: []string{"kubectl", "get", "crd", widgets, "-o",
		"jsonpath={.status.storedVersions}"}, shown: all})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &into.storedVersions); err != nil {
		return fmt.Errorf("decode storedVersions: %w", err)
	}
	into.objects = map[string]testbed.Snapshot{}
	for resource, prefix := range map[string]string{widgets: testbed.WidgetsPrefix, policies: policiesPrefix} {
		if into.objects[resource], err = s.cluster.Snapshot(ctx, prefix); err != nil {
			return fmt.Errorf("take snapshot of %s: %w", resource, err)
		}
	}
	return nil
}

func (s *story) migrate(ctx context.Context) error {
	s.chapter("The migration")
	s.say(`Each object gets an empty patch: the API server reads it and stores it again. Nothing is created, deleted or edited.
--verify adds a second pass, in which no object may move.
--settle-time is how long the API servers must have agreed on a version before anything is concluded. The default of 2 minutes
covers requests that were under way when the version changed. Here is one API server that no one else uses: ` + s.size.settleTime.String() + ` will do.`)
	_, err := s.run(ctx, command{line: []string{
		"kube-migrator", "migrate", "widgets", "mutatingadmissionpolicies", "--verify", "--settle-time=" +
			s.size.settleTime.String(), "--reason", "upgrade",
	}})
	return err
}

func (s *story) lookAfter(ctx context.Context) error {
	s.chapter("What does etcd hold now?")
	s.say("Again past the API server, so that the migration is not its own witness:")
	return s.look(ctx, &s.seen.after, "after.json")
}

// removeOldVersion does what Kubernetes refused before, and reads everything through what is left.
func (s *story) removeOldVersion(ctx context.Context) error {
	s.chapter("The old version can go")
	s.say("What was refused before is allowed as soon as the CRD no longer claims that v1 is stored:")
	drop := dropV1()
	drop.anyExit = true
	if _, err := s.run(ctx, drop); err != nil {
		return err
	}
	listed, err := s.run(ctx, command{
		line: []string{"kubectl", "get", "widgets.v2.demo.example.com", "-A", "-o", "name"}, shown: first(2),
		rest: " like these", anyExit: true,
	})
	s.seen.listed = strings.Count(string(listed), "\n")
	return err
}

// end shows the two audits side by side and says what follows from them.
func (s *story) end() error {
	s.chapter("The proof")
	if err := s.seen.sideBySide(s.out); err != nil {
		return err
	}
	s.say("")
	problems := s.seen.judge()
	if len(problems) == 0 {
		s.say(wrap(s.seen.sentence()))
		return nil
	}
	s.say(wrap("NOT proven: " + strings.Join(problems, "; ") + "."))
	return errNotProven
}

// look is what was stored at one moment.
type look struct {
	report         etcdaudit.Report
	storedVersions []string
	objects        map[string]testbed.Snapshot
}
