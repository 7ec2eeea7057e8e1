// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// explain runs `check --explain` without a cluster.
func explain(t *testing.T, arguments ...string) (out, errs string, code int) {
	t.Helper()
	var stdout, stderr strings.Builder
	line := append([]string{"kube-migrator", "check", "--kubeconfig", "no-such-file", "--explain"}, arguments...)
	code = Run(t.Context(), line, Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr})
	return stdout.String(), stderr.String(), code
}

func TestExplainShowsWhatReleasesChangeWithoutACluster(t *testing.T) {
	out, errs, code := explain(t, "--target-version", "1.36.3", "mutatingadmissionpolicies",
		"horizontalpodautoscalers.autoscaling", "workloads", "pods")
	want := `RELEASE   RESOURCE                                                 STORED AS             LOST
1.35      mutatingadmissionpolicies.admissionregistration.k8s.io   v1alpha1 → v1beta1    -
1.36      horizontalpodautoscalers.autoscaling                     v2                    v2beta2,v2beta1
1.36      workloads.scheduling.k8s.io                              v1alpha1 → v1alpha2   v1alpha1

A release cannot decode the versions under LOST, which the release before it can. Objects that are stored in one have to be
migrated before the upgrade. Whether a cluster has any: kube-migrator check --target-version 1.36
`
	if diff := cmp.Diff(want, out); diff != "" || errs != "" || code != exit.Done {
		t.Errorf("exit code %d, stderr %q, stdout (-want +got):\n%s", code, errs, diff)
	}
	if out, errs, code := explain(t, "--target-version", "1.37", "pods"); code != exit.Done || errs != "" ||
		out != "Kubernetes 1.30 to 1.37 store pods in the same version, and lose none.\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, errs)
	}
	if out, errs, code := explain(t, "--target-version", "1.30"); code != exit.Done || errs != "" ||
		out != "Kubernetes 1.30 is the oldest release that is known: there is none to compare it with.\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, errs)
	}
}

func TestExplainFitsOnAScreenAndEndsAtTheTarget(t *testing.T) {
	for _, release := range upgrade.Known() {
		out, errs, code := explain(t, "--target-version", release)
		if code != exit.Done || errs != "" {
			t.Errorf("%s: exit code %d, stderr %q", release, code, errs)
		}
		for i, line := range strings.Split(out, "\n") {
			if n := len([]rune(line)); n > 120 && strings.Contains(line, "   ") {
				t.Errorf("%s: %d columns: %s", release, n, line)
			}
			if first, _, _ := strings.Cut(line, " "); i > 0 && strings.HasPrefix(line, "1.") &&
				len(first) == len(release) && first > release {
				t.Errorf("%s: shows what is later: %s", release, line)
			}
		}
	}
	last := upgrade.Known()[len(upgrade.Known())-1]
	without, _, _ := explain(t)
	if with, _, _ := explain(t, "--target-version", last); with != without {
		t.Errorf("without --target-version (-%s +without):\n%s", last, cmp.Diff(with, without))
	}
}

func TestExplainHasTheOutputsOfCheck(t *testing.T) {
	var fromJSON, fromYAML render.Explanation
	out, _, _ := explain(t, "--target-version", "1.36", "--include", "hor*", "-o", "json")
	if err := json.Unmarshal([]byte(out), &fromJSON); err != nil {
		t.Fatal(err)
	}
	known := upgrade.Known()
	want := render.Explanation{Target: "1.36", Releases: known[:len(known)-1], Changes: []upgrade.Change{{
		Release: "1.36", Since: "1.35", Resource: "horizontalpodautoscalers.autoscaling",
		Before: "autoscaling/v2", After: "autoscaling/v2", Lost: []string{"autoscaling/v2beta2", "autoscaling/v2beta1"},
	}}}
	if diff := cmp.Diff(want, fromJSON); diff != "" {
		t.Errorf("-o json (-want +got):\n%s", diff)
	}
	out, _, _ = explain(t, "--target-version", "1.36", "--include", "hor*,vol*", "--exclude",
		"*.storage.k8s.io", "-o", "yaml")
	if err := yaml.Unmarshal([]byte(out), &fromYAML); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, fromYAML); diff != "" {
		t.Errorf("-o yaml (-want +got):\n%s", diff)
	}
	if out, _, _ := explain(t, "--target-version", "1.36", "workloads", "hor*", "-o",
		"name"); out != "horizontalpodautoscalers.autoscaling\nworkloads.scheduling.k8s.io\n" {
		t.Errorf("-o name: %q", out)
	}
	if out, _, _ := explain(t, "--target-version", "1.36", "workloads", "-o",
		"wide"); !strings.Contains(out, "scheduling.k8s.io/v1alpha1 → scheduling.k8s.io/v1alpha2 ") {
		t.Errorf("-o wide:\n%s", out)
	}
	if out, _, _ := explain(t, "--target-version", "1.37", "pods", "-o",
		"json"); !strings.Contains(out, `"changes": []`) {
		t.Errorf("-o json without a change:\n%s", out)
	}
}

func TestExplainRefusesWhatItCannotAnswer(t *testing.T) {
	newest := upgrade.Known()[len(upgrade.Known())-1]
	for arguments, want := range map[string]string{
		"--target-version=1.29": "error: the versions that Kubernetes 1.29 can decode are unknown: known releases are " +
			upgrade.KnownRange() + "\nTry: kube-migrator check --explain --target-version " + newest + "\n",
		"widgets": "error: no release from 1.30 to " + newest +
			" has a built-in resource widgets\nTry: kube-migrator check --explain\n",
		"--snapshot=x.db": "error: --explain compares releases and reads no cluster: --snapshot has no meaning " +
			"with it\nTry: kube-migrator check --help\n",
		"--filename=x.yaml": "error: --explain compares releases and reads no cluster: --filename has no meaning " +
			"with it\nTry: kube-migrator check --help\n",
		"--target-server=other": "error: --explain compares releases and reads no cluster: --target-server has no " +
			"meaning with it\nTry: kube-migrator check --help\n",
		"--max-age=1h": "error: --explain compares releases and reads no cluster: --max-age has no meaning with " +
			"it\nTry: kube-migrator check --help\n",
	} {
		out, errs, code := explain(t, arguments)
		wantCode := exit.Error
		if strings.HasSuffix(arguments, "1.29") {
			wantCode = exit.Undetermined
		}
		if out != "" || errs != want || code != wantCode {
			t.Errorf("%s: exit code %d, stdout %q, stderr\n%swant\n%s", arguments, code, out, errs, want)
		}
	}
}
