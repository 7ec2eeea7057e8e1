// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func missingPermissionIsFoundBeforeTheFirstStep(t *testing.T, g *gadgets) {
	const extensions = "apiextensions.k8s.io"
	g.stale(2)
	allow(t, g.cluster, guest, []any{
		rule("", "namespaces", "get"), rule("coordination.k8s.io", "leases", "list"),
		rule("apiregistration.k8s.io", "apiservices", "list"),
		rule(testbed.WidgetGroup, g.plural, "list", "get", "patch"),
	})
	kubeconfig, err := g.cluster.KubeconfigFor(g.cluster.Servers[0].URL(), guest)
	if err != nil {
		t.Fatal(err)
	}
	user, before := newCLIWith(t, g.cluster, kubeconfig), revisions(t, g.cluster, g.prefix())
	args := []string{"retire", g.name(), "--version=v1", "--settle-time=1s", "--unserve", "--remove", "--leave-owners"}
	steps := []struct {
		granted   map[string]any
		what, try string
	}{
		{nil, `cannot get resource "customresourcedefinitions"`,
			"kubectl auth can-i list customresourcedefinitions.apiextensions.k8s.io"},
		{
			rule(extensions, "customresourcedefinitions", "get", "list"),
			"cannot patch the status of customresourcedefinitions.apiextensions.k8s.io at the cluster scope",
			"kubectl auth can-i patch customresourcedefinitions.apiextensions.k8s.io --subresource=status",
		},
		{
			rule(extensions, "customresourcedefinitions/status", "patch"),
			"cannot patch customresourcedefinitions.apiextensions.k8s.io at the cluster scope",
			"kubectl auth can-i patch customresourcedefinitions.apiextensions.k8s.io",
		},
	}
	for i, step := range steps {
		if step.granted != nil {
			allow(t, g.cluster, fmt.Sprint(guest, i), []any{step.granted}, guest)
		}
		eventually(t, step.what, func() bool { // RBAC is cached
			_, wait := user.start(args...)
			out := wait()
			return out.code == 1 && out.stdout == "" && strings.Contains(out.stderr, step.what) &&
				strings.HasSuffix(out.stderr, "\nTry: "+step.try+"\n")
		})
	}
	what, try := user.refused(args[:len(args)-1]...)
	const unread = "in resources that cannot be listed: configmaps (forbidden: cannot list configmaps at the cluster scope), "
	if !strings.Contains(what, unread) || try != "kubectl auth can-i list configmaps --all-namespaces" {
		t.Errorf("without --leave-owners it is refused with %q and %q, want %q", what, try, unread)
	}
	wantUnmoved(t, g.cluster, g.prefix(), before)
	g.wantVersions("v1 v2", "v1 served", "v2 served storage")
	warning := "this plan would be refused for lack of permissions: forbidden: " + steps[2].what
	out := user.run(0, append(args, "--dry-run")...)
	if !strings.Contains(out.stderr, warning) || !strings.Contains(out.stdout, "a dry run") {
		t.Errorf("the dry run shows\n%s%s", out.stdout, out.stderr)
	}
}
