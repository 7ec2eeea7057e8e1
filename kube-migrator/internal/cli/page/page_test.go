// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/golden"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/etcdaudit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// recorded is a StorageState whose condition AllEncodingVersionsEqual has had a status for some time.
func recorded(status metav1.ConditionStatus, reason, message string, age time.Duration) *v1alpha1.StorageStateStatus {
	s := &v1alpha1.StorageStateStatus{
		Conditions: []v1alpha1.Condition{{Type: v1alpha1.ConditionAllEncodingVersionsEqual, Status: status,
			Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now.Add(-age))}},
		ServerStorageVersions: []v1alpha1.ServerEncodingVersion{
			{APIServerID: "api-0", HolderIdentity: "api-0_1", EncodingVersionHash: "a="},
			{APIServerID: "api-1", HolderIdentity: "api-1_2", EncodingVersionHash: "b="},
			{APIServerID: "api-2"},
		},
	}
	if status == metav1.ConditionTrue {
		s.AgreedEncodingVersion, s.Evidence = "v2", "Observed"
		s.Epoch = &v1alpha1.Epoch{Since: metav1.NewTime(now.Add(-age))}
	}
	return s
}

// someProgress has a resource in every group.
func someProgress() render.Progress {
	eta := now.Add(90 * time.Second)
	return render.Progress{
		Verdict: upgrade.Unsafe, Sentence: "An upgrade is not safe now: secrets.", Time: now,
		NotLookedAt: []string{"down.example.com/v1 could not be read: forbidden"}, Excluded: []string{"events"},
		Total: render.ProgressTotal{Total: 20_003, Done: 12_503, Failed: 23, ObjectsPerSecond: 430},
		Resources: []render.ProgressResource{
			{Resource: "gadgets.demo.example.com", Migration: "gadgets", Verdict: upgrade.Undetermined,
				Why: "23 objects were refused", Status: "Failed", Run: upgrade.HasFailed, Stored: []string{"v1", "v2"},
				PresentStorageVersion: "v2", Total: 10_000, TotalIsExact: true, Done: 10_000, Failed: 23,
				Failures: []render.ProgressFailure{{Namespace: "default", Name: "one", Reason: "Rejected",
					Message: "no color"}, {Name: "two", Reason: "Forbidden"}},
				Try:      "kubectl describe storageversionmigrations.migration.k8s.io gadgets",
				Runbook:  render.Runbook + "objectsfailed",
				Recorded: recorded(metav1.ConditionTrue, v1alpha1.ReasonAgreement, "", 40*time.Minute)},
			{Resource: "leases.coordination.k8s.io", Verdict: upgrade.Undetermined, Why: "it has no StorageState",
				PresentStorageVersion: "v1", Try: "kube-migrator request leases.coordination.k8s.io"},
			{Resource: "nodes", Verdict: upgrade.Safe, Why: "everything is stored as v1", PresentStorageVersion: "v1",
				Stored:   []string{"v1"},
				Recorded: recorded(metav1.ConditionTrue, v1alpha1.ReasonAgreement, "", 40*time.Minute)},
			{Resource: "secrets", Migration: "secrets", Verdict: upgrade.Unsafe, Why: "its migration is paused",
				Status: "Paused", Run: upgrade.Paused, Unfinished: true, Stored: []string{"Unknown", "v1"},
				PresentStorageVersion: "v1", PresentStorageVersionHash: "a=",
				Recorded: recorded(metav1.ConditionFalse, v1alpha1.ReasonDisagreement, "api-1 encodes v1.",
					10*time.Minute)},
			{Resource: "widgets.demo.example.com", Migration: "widgets", Verdict: upgrade.Unsafe,
				Why: "its migration is not finished: Rewriting objects", Summary: "Rewriting objects", Status: "Running",
				Run: upgrade.AtWork, Unfinished: true, Stored: []string{"v1beta1", "v2"}, PresentStorageVersion: "v2",
				Total: 10_000, Done: 2_500, ObjectsPerSecond: 430, EstimatedCompletionTime: &eta,
				Recorded: recorded(metav1.ConditionUnknown, v1alpha1.ReasonNotKnown, "api-2 did not answer",
					20*time.Minute)},
		},
	}
}

func someReport() upgrade.Report {
	return upgrade.Report{
		Verdict: upgrade.Unsafe, Sentence: "Going to Kubernetes 1.36 is not safe now: podgroups.scheduling.k8s.io.",
		Target: "Kubernetes 1.36",
		Findings: []upgrade.Finding{
			{Resource: "podgroups.scheduling.k8s.io", Verdict: upgrade.Unsafe, Why: "it cannot decode v1beta1",
				Stored: []string{"v1beta1"}, Current: "v1beta1", Stranded: []string{"v1beta1"},
				Source: upgrade.ByStorageState, Run: upgrade.HasSucceeded, Migration: "podgroups",
				Next: "kube-migrator request podgroups.scheduling.k8s.io"},
			{Resource: "widgets.demo.example.com", Verdict: upgrade.Undetermined, Why: "it has no StorageState",
				From: "crds.yaml, document 2"},
			{Resource: "nodes", Verdict: upgrade.Safe, Why: "everything is stored as v1", Stored: []string{"v1"},
				Current: "v1", Source: upgrade.ByStorageState},
		},
		Understated: []upgrade.Understatement{{Record: "storagestates.migration.k8s.io/secrets",
			Missing: []string{"v0"}, Objects: 1_234}},
	}
}

func someAudit() *etcdaudit.Report {
	return &etcdaudit.Report{
		Source:   etcdaudit.Provenance{File: "snapshot.db", Revision: 42, FirstRevision: 42, ChecksumVerified: true},
		ReadTime: now, Compared: true,
		Totals: etcdaudit.Totals{Objects: 110, Bytes: 11_000, Stale: 10, Current: 90, Undetermined: 10},
		Rows: []etcdaudit.Row{
			{Resource: "secrets", EncryptionProvider: "aescbc", EncryptionKey: "key1", Encoding: "encrypted",
				Comparison: etcdaudit.IsUndetermined, Objects: 10, Bytes: 1_000},
			{Resource: "widgets.demo.example.com", Kind: "Widget", APIVersion: "demo.example.com/v1", Encoding: "json",
				CurrentVersion: "demo.example.com/v2", Comparison: etcdaudit.IsStale, Objects: 10, Bytes: 1_000},
			{Resource: "widgets.demo.example.com", Kind: "Widget", APIVersion: "demo.example.com/v2", Encoding: "json",
				CurrentVersion: "demo.example.com/v2", Comparison: etcdaudit.IsCurrent, Objects: 90, Bytes: 9_000},
			{Resource: "leases", Encoding: "json", Comparison: etcdaudit.NoObject, Objects: 1},
		},
	}
}

// written returns a page without its stylesheet and its script, which have hashes of their own.
func written(t *testing.T, v View) string {
	t.Helper()
	var out bytes.Buffer
	if err := Report(&out, v); err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(stylesheet, "", script, "", hash(stylesheet), "'STYLE'", hash(script), "'SCRIPT'",
		"&#39;"+strings.Trim(hash(stylesheet), "'")+"&#39;", "STYLE",
		"&#39;"+strings.Trim(hash(script), "'")+"&#39;", "SCRIPT").Replace(out.String())
}

func TestReportsAreWritten(t *testing.T) {
	for name, view := range map[string]View{
		"progress": OfProgress(someProgress(), "https://api.example.com:6443", nil),
		"check":    OfCheck(someReport(), "https://api.example.com:6443", now),
		"audit":    OfAudit(someAudit()),
		"nothing":  OfProgress(render.Progress{Verdict: upgrade.Safe, Sentence: "An upgrade is safe now.", Time: now}, "", nil),
	} {
		t.Run(name, func(t *testing.T) {
			golden.Compare(t, "testdata/"+name+".html", written(t, view))
		})
	}
}

func TestThePageShowsTheVerdictsOfProgressWordForWord(t *testing.T) {
	p := someProgress()
	out := written(t, OfProgress(p, "", nil))
	for _, r := range p.Resources {
		_, row, found := strings.Cut(out, `<tr data-key="`+r.Resource+`">`)
		row, _, _ = strings.Cut(row, "</tr>")
		for _, want := range []string{string(r.Verdict) + "</span>", r.Why, r.Try, r.ShownStatus()} {
			if want == r.Why && r.Verdict == upgrade.Safe {
				continue
			}
			if !found || !strings.Contains(row, want) {
				t.Errorf("%s: want %q in %s", r.Resource, want, row)
			}
		}
	}
	if !strings.Contains(out, p.Sentence) {
		t.Errorf("the page lacks the sentence %q", p.Sentence)
	}
}

// hostile is text that would do something in a page that did not escape it.
const hostile = "</script><img src=x onerror=alert(1)>\"'`&<!--\x1b[2J\u202e\x00]]>"

func TestTextOfOthersIsNeverMarkup(t *testing.T) {
	p := someProgress()
	p.Sentence, p.NotLookedAt, p.Excluded = hostile, []string{hostile}, []string{hostile}
	for i := range p.Resources {
		r := &p.Resources[i]
		r.Resource, r.Migration, r.Why, r.Try, r.Summary, r.Status = fmt.Sprint(hostile, i), hostile, hostile, hostile,
			hostile+"!", hostile
		r.Runbook = []string{"javascript:alert(1)", hostile, render.Runbook + hostile}[i%3]
		r.Stored, r.PresentStorageVersion, r.Verdict = []string{hostile}, hostile+"v", hostile
		for n := range r.Failures {
			r.Failures[n] = render.ProgressFailure{Namespace: hostile, Name: hostile, Reason: hostile, Message: hostile}
		}
		if s := r.Recorded; s != nil {
			s.AgreedEncodingVersion, s.Evidence, s.Conditions[0].Message = hostile, hostile, hostile
			for n := range s.ServerStorageVersions {
				s.ServerStorageVersions[n].APIServerID, s.ServerStorageVersions[n].HolderIdentity = hostile, hostile
			}
		}
	}
	report := someReport()
	report.Target, report.Understated[0].Record = hostile, hostile
	report.Findings[0].Why, report.Findings[1].From, report.Findings[1].Stored = hostile, hostile, []string{hostile}
	live := OfProgress(p, hostile, nil)
	live.Trouble = Trouble{Error: hostile, Try: hostile, Since: now}
	for name, view := range map[string]View{"progress": live, "check": OfCheck(report, hostile, now)} {
		out := written(t, view)
		if strings.Contains(out, "<img") || strings.Contains(out, "<!--") || strings.Contains(out, "]]>") {
			t.Errorf("%s: text of others is markup", name)
		}
		if at := strings.IndexAny(out, "\x1b\x00\u202e"); at >= 0 {
			t.Errorf("%s: a control character: %q", name, out[max(0, at-40):at+1])
		}
		if n := strings.Count(out, "&lt;/script&gt;&lt;img"); n < 5 {
			t.Errorf("%s: the text is shown %d times only", name, n)
		}
		for _, link := range regexp.MustCompile(`<a href="[^"]*`).FindAllString(out, -1) {
			if !strings.HasPrefix(link, `<a href="`+render.Runbook) {
				t.Errorf("%s: the link %s", name, link)
			}
		}
		wellFormed(t, name, out)
	}
}

// wellFormed fails the test unless every element that begins ends, in order, and every attribute is one that we write.
func wellFormed(t *testing.T, name, out string) {
	t.Helper()
	void := map[string]bool{"meta": true, "link": true, "input": true}
	tag := regexp.MustCompile(`<(/?)([a-zA-Z0-9]+)((?: [a-z-]+="[^"<>]*"|(?i: viewbox| preserveaspectratio)="[^"<>]*")*)>`)
	allowed := regexp.MustCompile(` ([a-zA-Z-]+)="`)
	var open []string
	rest := tag.ReplaceAllStringFunc(strings.TrimPrefix(out, "<!DOCTYPE html>"), func(found string) string {
		match := tag.FindStringSubmatch(found)
		for _, attribute := range allowed.FindAllStringSubmatch(match[3], -1) {
			if strings.HasPrefix(attribute[1], "on") || attribute[1] == "style" || attribute[1] == "src" {
				t.Errorf("%s: an attribute %s", name, attribute[1])
			}
		}
		switch {
		case match[1] == "" && !void[match[2]]:
			open = append(open, match[2])
		case match[1] == "/" && (len(open) == 0 || open[len(open)-1] != match[2]):
			t.Errorf("%s: </%s> ends %v", name, match[2], open)
		case match[1] == "/":
			open = open[:len(open)-1]
		}
		return ""
	})
	if at := strings.IndexAny(rest, "<>"); at >= 0 || len(open) > 0 {
		t.Errorf("%s: open elements %v, rest %q", name, open, rest[max(0, at-60):min(len(rest), max(0, at)+60)])
	}
}

func TestOnlyWhatHasChangedIsSent(t *testing.T) {
	before := someProgress()
	after := someProgress()
	after.Resources[4].Done += 10
	parts := PartsOf(OfProgress(before, "", nil))
	if _, differs := PartsOf(OfProgress(someProgress(), "", nil)).Since(parts); differs {
		t.Error("something changed although nothing did")
	}
	changed, differs := PartsOf(OfProgress(after, "", nil)).Since(parts)
	if !differs || len(changed.Rows) != 1 || len(changed.Groups) != 0 || len(changed.Fixed) != 0 ||
		!strings.Contains(string(changed.Rows["widgets.demo.example.com"]), "2,510 of ~10,000") {
		t.Errorf("changed %v: %+v", differs, changed)
	}
	after.Resources = after.Resources[:4]
	changed, _ = PartsOf(OfProgress(after, "", nil)).Since(parts)
	if diff := cmp.Diff([]string{}, changed.Groups["running"]); diff != "" || len(changed.Groups) != 5 {
		t.Errorf("after a resource is gone: %v", changed.Groups)
	}
	if all, differs := parts.Since(Parts{}); !differs || len(all.Rows) != 5 || len(all.Groups) != 5 {
		t.Errorf("a page that knows nothing is sent %+v", all)
	}
}
