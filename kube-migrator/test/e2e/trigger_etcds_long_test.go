// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// The etcd of one resource is restored alone, and the record, which is in another, stays as it was: only the collection
// itself tells.
func TestTheEtcdOfOneResourceIsRestored(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{
		OwnEtcd: []string{"/secrets"}, Isolated: true, Servers: make([]testbed.ServerOptions, 2), Flags: quickStop,
	})
	balancer, err := cluster.Balance()
	if err != nil {
		t.Fatal(err)
	}
	c := newControlled(t, cluster)
	if c.kubeconfig, err = balancer.Kubeconfig(); err != nil {
		t.Fatal(err)
	}
	const secrets = "/api/v1/namespaces/default/secrets"
	for i := range 20 {
		do(t, cluster, http.MethodPost, secrets,
			map[string]any{"metadata": map[string]any{"name": fmt.Sprintf("secret-%02d", i)}})
	}
	p := c.controller("--auto-trigger", "--leader-elect=false", "--discovery-period=1s", "--include=secrets",
		"--include=podtemplates")
	c.untilState("secrets", "proven", persistedOnly("v1"))
	c.untilState("podtemplates", "proven", persistedOnly("v1"))
	// doubts are those about a resource because of a restore, in their order. A server that is slow to answer after its
	// restart is a doubt, too.
	doubts := func(resource string) (all []string) {
		log, err := os.ReadFile(p.log)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(string(log), "\n") {
			if _, doubt, ok := strings.Cut(line, `doubt="`); ok && strings.Contains(line, "resource="+resource+" ") &&
				strings.Contains(doubt, "restored") {
				all = append(all, strings.TrimSuffix(doubt, `"`))
			}
		}
		return all
	}

	// change changes the first secret, and waits until that is recorded; it returns the etcd's revision.
	change := func(value string) int64 {
		var changed metav1.PartialObjectMetadata
		answer := do(t, cluster, http.MethodPatch, secrets+"/secret-00",
			map[string]any{"metadata": map[string]any{"labels": map[string]any{"change": value}}})
		if err := json.Unmarshal(answer, &changed); err != nil {
			t.Fatal(err)
		}
		c.untilState("secrets", "compared since the change", func(s *v1alpha1.StorageState) bool {
			return s.Status.Witness != nil && s.Status.Witness.ResourceVersion == changed.ResourceVersion
		})
		at, err := cluster.OwnEtcd.Client().Get(t.Context(), "testbed")
		if err != nil {
			t.Fatal(err)
		}
		return at.Header.Revision
	}
	for _, step := range []struct {
		name, says string
		caughtUp   int64 // with the revision, and as many more
	}{
		{"with a lesser revision", "etcd went backwards", 0},
		{"with a revision that has caught up", "an object went backwards", 500},
	} {
		backup, err := cluster.OwnEtcd.Backup()
		if err != nil {
			t.Fatal(err)
		}
		revision := change(strings.ReplaceAll(step.name, " ", "-"))
		if step.caughtUp == 0 {
			revision = 0
		}
		if err := cluster.RestoreOwn(t.Context(), backup, revision+step.caughtUp); err != nil {
			t.Fatal(err)
		}
		eventually(t, "in doubt: restored "+step.name, func() bool {
			d := doubts("secrets")
			return len(d) > 0 && strings.HasPrefix(d[len(d)-1], step.says)
		})
		c.untilState("secrets", "proven once more", persistedOnly("v1"))
	}
	if d := doubts("podtemplates"); len(d) > 0 {
		t.Errorf("a resource of the other etcd is in doubt: %v", d)
	}
	if d := doubts("secrets"); len(d) != 2 {
		t.Errorf("two restores are the doubts %v", d)
	}
}
