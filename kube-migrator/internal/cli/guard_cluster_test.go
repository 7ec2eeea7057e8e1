// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
)

// policies counts those that are installed, with their bindings.
func (i *installer) policies() (n int) {
	i.t.Helper()
	for name := range i.installed() {
		if strings.Contains(name, "/validatingadmissionpolic") {
			n++
		}
	}
	return n
}

// checkUnguarded finds the guard installed, and leaves it so.
func (i *installer) checkUnguarded() {
	t := i.t
	all := i.policies()
	out, _ := i.run(exit.Done, "install", "--wait=false", "--guard=false", "--dry-run=server")
	if got := outcomes(out); got["deleted"] != all || i.policies() != all {
		t.Errorf("the dry run reports %v, and leaves %d of %d", got, i.policies(), all)
	}
	out, notes := i.run(exit.Done, "install", "--wait=false", "--guard=false")
	if got := outcomes(out); got["deleted"] != all || i.policies() != 0 || all != 10 {
		t.Errorf("%d of %d policies and bindings are left; it reports %v", i.policies(), all, got)
	}
	if !strings.Contains(notes, "Warning: with --guard=false there is no guard, so nothing keeps the workers from "+
		"changing what they may patch") {
		t.Errorf("without a warning: %s", notes)
	}
	worker := i.clientAs("kube-migrator-worker")
	i.eventually("the role is for everything", func() bool { return i.may(worker, "get", "", "nodes/proxy", "") })
	if _, notes = i.run(exit.Done, "install",
		"--wait=false"); !strings.Contains(notes, "Kept from the last installation: --guard=false\n") ||
		i.policies() != 0 {
		t.Errorf("the flag is not remembered: %s", notes)
	}
	_, notes = i.run(exit.Done, "install", "--wait=false", "--forget-flags=guard")
	if i.policies() != all || strings.Contains(notes, "there is no guard") ||
		!strings.Contains(notes, "kube-migrator migrate --all --include='*admissionpolic*'") {
		t.Errorf("%d policies, and the notes\n%s", i.policies(), notes)
	}
	i.eventually("the role names resources", func() bool { return !i.may(worker, "get", "", "nodes/proxy", "") })
}

// checkUnverified installs as a user who has every permission that install needs, but may not impersonate.
func (i *installer) checkUnverified() {
	t := i.t
	const rbac = "/apis/rbac.authorization.k8s.io/v1/"
	post(t, i.client, rbac+"clusterroles", `{"metadata":{"name":"builder"},"rules":[{"verbs":["get","list","create","patch","delete","escalate","bind"],"apiGroups":["*"],"resources":["*"]}]}`)
	post(t, i.client, rbac+"clusterrolebindings",
		`{"metadata":{"name":"builder"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"builder"},
		"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"builder"}]}`)
	kubeconfig, err := i.cluster.KubeconfigFor(i.cluster.Servers[0].URL(), "builder")
	if err != nil {
		t.Fatal(err)
	}
	var notes string
	i.eventually("the builder may install", func() bool {
		var out strings.Builder
		var problems strings.Builder
		code := Run(t.Context(), []string{"kube-migrator", "--kubeconfig", kubeconfig, "install", "--wait=false"},
			Streams{In: strings.NewReader(""), Out: &out, Err: &problems})
		notes = problems.String()
		return code == exit.Done
	})
	want := "Warning: Cannot verify that the guard is in force: forbidden: cannot impersonate serviceaccounts in the " +
		"namespace kube-migrator. " +
		"To verify it: kubectl auth can-i impersonate serviceaccounts -n kube-migrator\n"
	if !strings.Contains(notes, want) {
		t.Errorf("notes %q, want %q", notes, want)
	}
}
