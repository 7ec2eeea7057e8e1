// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build page

package page

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/page"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// TestThePictureOfTheDocumentation draws what `make screenshots` copies to docs/dashboard.png: a cluster in which CRDs
// have moved to new versions.
func TestThePictureOfTheDocumentation(t *testing.T) {
	now := time.Date(2026, time.November, 24, 10, 0, 0, 0, time.UTC)
	left := now.Add(4 * time.Minute)
	p := render.Progress{Verdict: upgrade.Unsafe, Time: now,
		Sentence: "An upgrade is not safe now: certificates.cert-manager.io and issuers.cert-manager.io."}
	for _, r := range []render.ProgressResource{
		{Resource: "certificates.cert-manager.io", Verdict: upgrade.Unsafe, Status: "Running", Run: upgrade.AtWork,
			Why: "its migration is not finished: Rewriting objects", Try: "kube-migrator wait certificates.cert-manager.io",
			Unfinished: true, Stored: []string{"v1alpha2", "v1"}, PresentStorageVersion: "v1", Done: 18_230, Total: 46_812,
			TotalIsExact: true, ObjectsPerSecond: 119, EstimatedCompletionTime: &left},
		{Resource: "issuers.cert-manager.io", Verdict: upgrade.Unsafe, Status: "Pending", Run: upgrade.NotBegun,
			Why: "its migration has not begun", Try: "kube-migrator wait issuers.cert-manager.io", Unfinished: true,
			Stored: []string{"v1alpha2", "v1"}, PresentStorageVersion: "v1"},
		{Resource: "httproutes.gateway.networking.k8s.io", Verdict: upgrade.Safe, Status: "Succeeded", Run: upgrade.HasSucceeded,
			Stored: []string{"v1"}, PresentStorageVersion: "v1", Done: 1_204, Total: 1_204, TotalIsExact: true},
		{Resource: "secrets", Verdict: upgrade.Safe, Status: "Succeeded", Run: upgrade.HasSucceeded, Stored: []string{"v1"},
			PresentStorageVersion: "v1", Done: 9_377, Total: 9_377, TotalIsExact: true},
	} {
		r.Migration, r.PresentStorageVersionHash = r.Resource, "a="
		r.Recorded = &v1alpha1.StorageStateStatus{AgreedEncodingVersion: "v1", Evidence: "Observed",
			Conditions: []v1alpha1.Condition{{Type: v1alpha1.ConditionAllEncodingVersionsEqual, Status: metav1.ConditionTrue,
				Reason: v1alpha1.ReasonAgreement, LastTransitionTime: metav1.NewTime(now.Add(-40 * time.Minute))}},
			ServerStorageVersions: []v1alpha1.ServerEncodingVersion{
				{APIServerID: "apiserver-0", HolderIdentity: "apiserver-0_4c1f", Answered: true, EncodingVersionHash: "a="},
				{APIServerID: "apiserver-1", HolderIdentity: "apiserver-1_9b02", Answered: true, EncodingVersionHash: "a="},
				{APIServerID: "apiserver-2", HolderIdentity: "apiserver-2_e7a0", Answered: true, EncodingVersionHash: "a="},
			}}
		p.Resources = append(p.Resources, r)
		p.Total.Total += r.Total
		p.Total.Done += r.Done
		p.Total.ObjectsPerSecond += r.ObjectsPerSecond
	}
	file := filepath.Join(t.TempDir(), "page.html")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := page.Report(out, page.OfProgress(p, "https://api.example.com:6443", nil)); err != nil {
		t.Fatal(err)
	}
	out.Close()
	tab := newTab(t)
	tab.look(t, "light", 1280, 980)
	tab.open(t, "file://"+file)
	tab.wait(t, `document.querySelectorAll('tr[data-key]').length === 4 && document.querySelectorAll('svg.strip rect').length > 0`)
	tab.screenshot(t, "documentation")
	tab.quiet(t)
}
