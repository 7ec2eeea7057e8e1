// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"strings"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
)

// checkDryRun expects that no dry run writes anything, and that each reports every object.
func (i *installer) checkDryRun() {
	i.t.Helper()
	for _, mode := range []string{"client", "server"} {
		out, _ := i.run(exit.Done, "install", "--dry-run="+mode)
		if got := outcomes(out); got["created"] != objects || strings.Count(out, "(dry run") != objects {
			i.t.Errorf("--dry-run=%s reports %v, want %d created:\n%s", mode, got, objects, out)
		}
		if got := i.installed(); len(got) > 0 {
			i.t.Fatalf("--dry-run=%s wrote %v", mode, got)
		}
	}
}

// checkMissingPermission expects that a user without permission is told which verb is missing.
func (i *installer) checkMissingPermission() {
	i.t.Helper()
	guest, err := i.cluster.KubeconfigFor(i.cluster.Servers[0].URL(), "guest")
	if err != nil {
		i.t.Fatal(err)
	}
	out, problem := i.runAs(guest, exit.Error, "install")
	if want := "error: forbidden: cannot get configmaps in the namespace kube-system\nTry: kubectl auth can-i get " +
		"configmaps -n kube-system\n"; problem != want || out != "" {
		i.t.Errorf("stdout %q, stderr %q, want %q", out, problem, want)
	}
	out, problem = i.runAs(guest, exit.Error, "install", "--forget-flags=all")
	if want := "error: forbidden: cannot get customresourcedefinitions.apiextensions.k8s.io at the cluster scope\n" +
		"Try: kubectl auth can-i get customresourcedefinitions.apiextensions.k8s.io\n"; problem != want ||
		out != "" {
		i.t.Errorf("stdout %q, stderr %q, want %q", out, problem, want)
	}
	if got := i.installed(); len(got) > 0 {
		i.t.Errorf("wrote %v", got)
	}
}

// checkUnknownPattern expects two lines for a pattern that matches nothing.
func (i *installer) checkUnknownPattern() {
	i.t.Helper()
	out, problem := i.run(exit.Error, "install", "--include=widgts.demo.example.com")
	want := "error: the server has no resource \"widgts.demo.example.com\"\nTry: kube-migrator install " +
		"--include=widgets.demo.example.com\n"
	if out != "" || problem != want {
		i.t.Errorf("stdout %q, stderr %q, want %q", out, problem, want)
	}
}

// checkExport expects that kubectl applies from --export what install applies.
func (i *installer) checkExport() {
	i.t.Helper()
	kubectl, err := testbed.Binary(i.t.Context(), testbed.Newest, "kubectl", os.Stderr)
	if err != nil {
		i.t.Fatal(err)
	}
	for _, format := range []string{"json", "yaml", "text"} {
		before := i.installed()
		manifests, _ := i.run(exit.Done, "install", "--export", "-o", format)
		if diff := cmp.Diff(before, i.installed()); diff != "" {
			i.t.Fatalf("--export changed (-before +after):\n%s", diff)
		}
		if isList := strings.HasPrefix(manifests,
			"{\n  \"apiVersion\": \"v1\",\n  \"items\": ["); isList != (format == "json") {
			i.t.Errorf("-o %s begins with %.60q", format, manifests)
		}
		apply := i.cluster.Command(i.t.Context(), kubectl, "--kubeconfig", i.kubeconfig, "apply",
			"--server-side", "-f", "-")
		apply.Stdin = strings.NewReader(manifests)
		if said, err := apply.CombinedOutput(); err != nil ||
			strings.Count(string(said), " serverside-applied\n") != objects {
			i.t.Fatalf("-o %s: %v: %s", format, err, said)
		}
		if got := len(i.installed()); got != objects {
			i.t.Errorf("-o %s: kubectl made %d objects, want %d", format, got, objects)
		}
		if format != "json" {
			if diff := cmp.Diff(before, i.installed()); diff != "" {
				i.t.Errorf("-o %s is not what -o json is (-json +%s):\n%s", format, format, diff)
			}
		}
	}
	if out, _ := i.run(exit.Done, "install", "--wait=false"); outcomes(out)["unchanged"] != objects {
		i.t.Errorf("install changes what kubectl applied:\n%s", out)
	}
}

// checkDigest expects a warning of an image without a digest.
func (i *installer) checkDigest() {
	i.t.Helper()
	const warning = "Warning: the image registry.example.com/kube-migrator:v1 has no digest: anyone who can push it " +
		"decides what runs"
	byDigest := "--image=registry.example.com/kube-migrator:v1@sha256:" + strings.Repeat("0", 64)
	for _, mode := range []string{"--dry-run=client", "--export"} {
		_, notes := i.run(exit.Done, "install", mode, "--image=registry.example.com/kube-migrator:v1")
		if !strings.Contains(notes, warning) {
			i.t.Errorf("%s: stderr %q, want %q", mode, notes, warning)
		}
		if out, notes := i.run(exit.Done, "install", mode, byDigest); out == "" ||
			strings.Contains(notes, "Warning: the image") {
			i.t.Errorf("%s by digest: stderr %q", mode, notes)
		}
	}
}

// checkNetwork expects that connections can be limited, and that metrics get a certificate.
func (i *installer) checkNetwork() {
	i.t.Helper()
	out, _ := i.run(exit.Done, "install", "--dry-run=server", "--metrics-from-namespace=monitoring",
		"--metrics-cert-secret=metrics-tls",
		"--egress-to=192.0.2.0/28:6443,2001:db8::/64")
	for _, want := range []string{
		"configured  NetworkPolicy kube-migrator/kube-migrator (dry run",
		"configured  Deployment kube-migrator/kube-migrator-controller (dry run",
	} {
		if !strings.Contains(out, want) || outcomes(out)["configured"] != 3 { // and the flags, which are remembered
			i.t.Errorf("reports\n%s\nwant %s", out, want)
		}
	}
}

// checkAgain expects that a second run changes nothing.
func (i *installer) checkAgain() {
	i.t.Helper()
	before := i.installed()
	out, notes := i.run(exit.Done, "install", "--wait=false")
	if outcomes(out)["unchanged"] != objects ||
		!strings.Contains(notes, "kube-migrator is installed in the namespace kube-migrator and may migrate all "+
			"resources, also those that come later.\n") {
		i.t.Errorf("the second run reports\n%s%s", out, notes)
	}
	if diff := cmp.Diff(before, i.installed()); diff != "" {
		i.t.Errorf("resourceVersions moved (-before +after):\n%s", diff)
	}
}

// checkChangedFlag expects that a changed flag configures the objects that depend on it.
func (i *installer) checkChangedFlag() {
	i.t.Helper()
	out, _ := i.run(exit.Done, "install", "--wait=false", "--replicas=3")
	if got := outcomes(out); got["configured"] != 2 ||
		!strings.Contains(out, "configured  Deployment kube-migrator/kube-migrator-controller\n") {
		i.t.Errorf("reports\n%s", out)
	}
}

// checkStuckRollout expects that the wait for a rollout that does not happen ends and says why.
func (i *installer) checkStuckRollout() {
	i.t.Helper()
	_, problem := i.run(exit.Error, "install", "--timeout=2s")
	if !strings.Contains(problem, "error: not within 2s: Deployment kube-migrator/kube-migrator-controller is "+
		"rolled out; at last: nothing has acted on it yet") ||
		!strings.HasSuffix(problem, "Try: kubectl -n kube-migrator describe pods\n") {
		i.t.Errorf("stderr %q", problem)
	}
}

// checkNarrowerInclude expects that a narrower --include takes permissions away.
func (i *installer) checkNarrowerInclude() {
	i.t.Helper()
	i.run(exit.Done, "install", "--wait=false", "--include=*.demo.example.com")
	i.checkLater(false)
	worker := i.clientAs("kube-migrator-worker")
	i.eventually("the worker may not list secrets any more",
		func() bool { return !i.may(worker, "list", "", "secrets", "") })
	if !i.may(worker, "patch", "demo.example.com", "widgets", "") {
		i.t.Error("the worker may not patch what is included")
	}
	// where Leases and EndpointSlices are included, nothing would show whether the agreement may read them
	i.sweepAsWorker("Widget", schema.GroupResource{Group: "demo.example.com", Resource: "widgets"})
}
