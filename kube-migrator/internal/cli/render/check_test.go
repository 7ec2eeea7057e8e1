// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/golden"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

func TestAReportOfCheckIsWrittenAsATable(t *testing.T) {
	r := upgrade.Report{
		Verdict: upgrade.Unsafe, Sentence: "An upgrade is not safe now: widgets.demo.example.com.",
		Findings: []upgrade.Finding{
			{
				Resource: "widgets.demo.example.com", Verdict: upgrade.Unsafe, Why: "crds.yaml cannot decode v1beta1",
				Next: "kube-migrator request widgets.demo.example.com", Source: upgrade.ByStorageState,
				Stored: []string{"v1alpha1", "v1beta1", "v1", "v2"}, Current: "v2", Stranded: []string{"v1alpha1", "v1beta1"},
				Migration: "widgets.demo.example.com", Run: upgrade.HasFailed, From: "crds.yaml",
			},
			{
				Resource: "leases.coordination.k8s.io", Verdict: upgrade.Undetermined, Why: "it has no StorageState",
				Next: "kube-migrator request leases.coordination.k8s.io", Current: "v1",
			},
			{
				Resource: "secrets", Verdict: upgrade.Safe, Why: "everything is stored as v1", Source: upgrade.ByEtcd,
				Stored: []string{"v1"}, Current: "v1", Migration: "secrets", Run: upgrade.HasSucceeded,
			},
		},
		Understated: []upgrade.Understatement{{Record: "storagestates.migration.k8s.io/secrets",
			Claims: []string{"v1"}, Missing: []string{"v1beta1"}, Objects: 12345, Next: "kube-migrator request secrets"}},
	}
	for _, format := range []Format{Table, Wide} {
		t.Run(string(format), func(t *testing.T) {
			var out bytes.Buffer
			if err := Check(&out, format, r); err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "testdata/check."+string(format), out.String())
		})
	}
}

func TestTheTableOfCheckFitsWithTheLongestNamesAndManyVersions(t *testing.T) {
	r := upgrade.Report{Verdict: upgrade.Undetermined, Sentence: "Whether an upgrade is safe cannot be determined."}
	for _, name := range []string{"validatingadmissionpolicybindings.admissionregistration.k8s.io",
		"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io"} {
		r.Findings = append(r.Findings, upgrade.Finding{
			Resource: name, Verdict: upgrade.Undetermined, Stored: []string{"Unknown", "v1alpha1", "v1beta1", "v1"},
			Current: "v1beta1", Stranded: []string{"v1alpha1"},
			Source: upgrade.ByStorageState, Why: "its StorageState says Unknown: objects may be stored in versions " +
				"that no one knows", Next: "kube-migrator request " + name,
		})
	}
	var out bytes.Buffer
	if err := Check(&out, Table, r); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := len([]rune(line)) - 1; n > columns && !strings.HasPrefix(line, "  Try: ") {
			t.Errorf("%d columns, want %d at most: %s", n, columns, line)
		}
	}
	for _, want := range []string{"Unknown,v1alpha1,v1beta1,+1",
		"no one knows\n  Try: kube-migrator request validatingadmissionpolicybindings.admissionregistration.k8s.io " +
			"prioritylevel"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q:\n%s", want, &out)
		}
	}
	out.Reset()
	if err := Check(&out, Wide, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Unknown,v1alpha1,v1beta1,v1 ", "StorageState", "no one knows",
		"kube-migrator request prioritylevel"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("-o wide: want %q:\n%s", want, &out)
		}
	}
}
