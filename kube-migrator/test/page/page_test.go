// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build page

package page

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/dashboard"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/page"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/etcdaudit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// hostile is text that would do something in a page that did not escape it.
const hostile = `<img src=x onerror="window.harm=1"></td></table><script>window.harm=1</script>`

// cluster is a cluster of n resources, of which most are current and some are in every other state.
func cluster(n int) render.Progress {
	now := time.Now()
	p := render.Progress{Verdict: upgrade.Unsafe, Time: now, Sentence: "An upgrade is not safe now: widgets-0.demo.example.com, " +
		"widgets-1.demo.example.com, widgets-2.demo.example.com and 7 more.", Excluded: []string{"events"},
		NotLookedAt: []string{"metrics.k8s.io/v1beta1 could not be read: the server is currently unable to handle the request"}}
	for i := range n {
		r := render.ProgressResource{Resource: fmt.Sprintf("widgets-%d.demo.example.com", i), Verdict: upgrade.Safe,
			Why: "everything is stored as v2", PresentStorageVersion: "v2", PresentStorageVersionHash: "a=",
			Stored: []string{"v2"}, Migration: fmt.Sprintf("widgets-%d", i), Status: "Succeeded",
			Run: upgrade.HasSucceeded, Total: int64(1000 + 37*i), TotalIsExact: true, Done: int64(1000 + 37*i)}
		age := 40 * time.Minute
		status, reason, message := metav1.ConditionTrue, v1alpha1.ReasonAgreement, ""
		switch i {
		case 0:
			r.Verdict, r.Why, r.Status, r.Run = upgrade.Unsafe, "3 objects were refused: "+hostile, "Failed", upgrade.HasFailed
			r.Stored, r.Failed = []string{"v1", "v2"}, 12
			r.Failures = []render.ProgressFailure{{Namespace: "default", Name: "one", Reason: "Rejected", Message: hostile},
				{Namespace: "team-a", Name: "two", Reason: "Rejected", Message: "spec.color in body is required"}}
			r.Try = "kubectl describe storageversionmigrations.migration.k8s.io widgets-0"
			r.Runbook = render.Runbook + "objectsfailed"
		case 1, 2, 3:
			eta := now.Add(time.Duration(i) * 95 * time.Second)
			r.Verdict, r.Why, r.Status, r.Run = upgrade.Unsafe, "its migration is not finished: Rewriting objects", "Running", upgrade.AtWork
			r.Unfinished, r.Stored, r.ObjectsPerSecond = true, []string{"v1beta1", "v2"}, int64(120*i)
			r.Done, r.TotalIsExact, r.EstimatedCompletionTime = r.Total*int64(i)/4, false, &eta
			r.Try = "kube-migrator wait " + r.Migration
		case 4, 5:
			r.Verdict, r.Why, r.Status, r.Run = upgrade.Undetermined, "its migration has not begun", "Pending", upgrade.NotBegun
			r.Unfinished, r.Stored, r.Done, r.Total = true, []string{"Unknown", "v2"}, 0, 0
			r.Try = "kube-migrator wait " + r.Migration
		case 6:
			r.Migration, r.Status, r.Run, r.Verdict, r.Total, r.Done = "", "", "", upgrade.Unsafe, 0, 0
			r.Stored = []string{"v1", "v2"}
			r.Why, r.Try = "its StorageState says that objects may be stored as v1", "kube-migrator request "+r.Resource
			age, status, reason, message = 4*time.Minute, metav1.ConditionFalse, v1alpha1.ReasonDisagreement,
				"api-0 encodes v1, api-1 encodes v2"
		case 7:
			age, status, reason, message = 12*time.Minute, metav1.ConditionUnknown, v1alpha1.ReasonNotKnown,
				"api-2 did not answer"
		}
		if i%3 == 0 {
			age += 8 * time.Minute
		}
		r.Recorded = &v1alpha1.StorageStateStatus{
			AgreedEncodingVersion: "v2", Evidence: "Observed",
			Conditions: []v1alpha1.Condition{{Type: v1alpha1.ConditionAllEncodingVersionsEqual, Status: status,
				Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now.Add(-age))}},
			ServerStorageVersions: []v1alpha1.ServerEncodingVersion{
				{APIServerID: "apiserver-0", HolderIdentity: "apiserver-0_4c1f", Answered: true, EncodingVersionHash: "a="},
				{APIServerID: "apiserver-1", HolderIdentity: "apiserver-1_9b02", Answered: true, EncodingVersionHash: "a="},
			},
		}
		p.Total.Total += r.Total
		p.Total.Done += r.Done
		p.Total.Failed += r.Failed
		p.Total.ObjectsPerSecond += r.ObjectsPerSecond
		p.Resources = append(p.Resources, r)
	}
	return p
}

// live is a dashboard whose cluster the test changes.
type live struct {
	url string
	end func()
	mu  sync.Mutex
	now render.Progress
}

func (l *live) change(edit func(p *render.Progress)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	edit(&l.now)
}

func serve(t *testing.T, p render.Progress) *live {
	t.Helper()
	l := &live{now: p}
	const address = "https://api.example.com:6443"
	ctx, cancel := context.WithCancel(t.Context())
	d, err := dashboard.Listen(ctx, 0, dashboard.Options{
		Blank: page.OfProgress(render.Progress{}, address, nil), Every: 100 * time.Millisecond,
		Look: func(context.Context) (page.View, page.Trouble) {
			l.mu.Lock()
			defer l.mu.Unlock()
			return page.OfProgress(l.now, address, nil), page.Trouble{}
		}})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx) }()
	l.url = d.URL()
	l.end = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(l.end)
	return l
}

func TestTheLivePage(t *testing.T) {
	p, script := newTab(t), axe(t)
	l := serve(t, cluster(12))
	p.look(t, "light", 1280, 1400)
	p.open(t, l.url)
	p.wait(t, `document.getElementById('connection').textContent === 'Live'`)

	t.Run("text of others does nothing", func(t *testing.T) {
		p.wait(t, `window.harm === undefined && document.querySelectorAll('img, td script').length === 0 &&
			document.querySelector('tr[data-key^="widgets-0."]').textContent.includes('<img src=x onerror')`)
		p.quiet(t)
	})
	t.Run("failed resources come first, and current ones are collapsed", func(t *testing.T) {
		p.wait(t, `[...document.querySelectorAll('.group:not([hidden])')].map(g => g.id + g.open).join() ===
			'group-failedtrue,group-runningtrue,group-waitingtrue,group-idletrue,group-currentfalse'`)
	})
	for _, scheme := range []string{"light", "dark"} {
		t.Run("axe-core finds nothing in "+scheme, func(t *testing.T) {
			p.look(t, scheme, 1280, 1400)
			p.value(t, `document.querySelectorAll('details').forEach(d => { d.open = true })`, nil)
			p.accessible(t, script)
			p.wait(t, `[...document.querySelectorAll('td .tag')].every(tag => tag.getClientRects().length === 1)`) // no word is broken
			p.value(t, `document.querySelectorAll('details.failures, #group-current').forEach(d => { d.open = false })`, nil)
			p.screenshot(t, "live-"+scheme)
		})
	}
	t.Run("the timeline is shown", func(t *testing.T) {
		p.value(t, `document.querySelectorAll('#agreement details').forEach(d => { d.open = true });
			document.getElementById('agreement').scrollIntoView()`, nil)
		p.wait(t, `document.querySelectorAll('#agreement svg.strip rect').length > 2 &&
			document.querySelectorAll('#agreement li.disagree').length === 1`)
		p.screenshot(t, "live-agreement")
	})
	t.Run("on a narrow screen nothing is cut off", func(t *testing.T) {
		p.look(t, "light", 390, 1600)
		p.wait(t, `document.documentElement.scrollWidth <= innerWidth`)
		p.accessible(t, script)
		p.screenshot(t, "live-narrow")
		p.look(t, "light", 1280, 1400)
	})
	t.Run("a change is shown, and what the user has opened stays open and focused", func(t *testing.T) {
		p.value(t, `document.querySelector('.failures').open = true; document.querySelector('.failures summary').focus()`, nil)
		l.change(func(now *render.Progress) {
			now.Resources[0].Why = "4 objects were refused"
			now.Resources[1].Done = now.Resources[1].Total
			now.Resources[1].Run, now.Resources[1].Unfinished, now.Resources[1].Status = upgrade.HasSucceeded, false, "Succeeded"
			now.Resources[1].Verdict = upgrade.Safe
		})
		p.wait(t, `document.querySelector('#rows-failed .why').textContent === '4 objects were refused' &&
			document.querySelector('#rows-current tr[data-key^="widgets-1."]') &&
			!document.querySelector('#rows-running tr[data-key^="widgets-1."]') &&
			document.getElementById('count-running').textContent === '2'`)
		p.wait(t, `document.querySelector('.failures').open && document.activeElement === document.querySelector('.failures summary')`)
	})
	t.Run("the keyboard reaches the filter and the groups", func(t *testing.T) {
		p.value(t, `document.activeElement.blur(); document.getElementById('verdict').scrollIntoView()`, nil)
		p.value(t, `(() => { const r = document.createRange(); r.setStart(document.querySelector('h1'), 0); r.collapse(true);
			getSelection().removeAllRanges(); getSelection().addRange(r) })()`, nil)
		p.press(t, "Tab", "Tab", 9)
		p.wait(t, `document.activeElement.id === 'filter-text'`)
		p.press(t, "Tab", "Tab", 9)
		p.wait(t, `document.activeElement.matches('#group-failed > summary')`)
		p.press(t, "Enter", "Enter", 13)
		p.wait(t, `!document.getElementById('group-failed').open`)
	})
	t.Run("the filter keeps rows with all words", func(t *testing.T) {
		p.value(t, `(() => { const box = document.getElementById('filter-text'); box.value = 'PENDING widgets-4'; box.dispatchEvent(new Event('input')) })()`, nil)
		p.wait(t, `[...document.querySelectorAll('.group:not([hidden]) tr[data-key]:not([hidden])')].map(r => r.dataset.key).join() ===
			'widgets-4.demo.example.com' && document.getElementById('filter-count').textContent === '1 of 12 resources'`)
		p.value(t, `(() => { const box = document.getElementById('filter-text'); box.value = ''; box.dispatchEvent(new Event('input')) })()`, nil)
	})
	p.quiet(t)
	t.Run("a connection that is lost is said", func(t *testing.T) {
		l.end()
		p.wait(t, `document.getElementById('connection').textContent.startsWith('Not connected')`)
	})
}

func TestAThousandResources(t *testing.T) {
	p, script := newTab(t), axe(t)
	l := serve(t, cluster(1000))
	p.look(t, "dark", 1280, 1400)
	p.open(t, l.url)
	p.wait(t, `document.getElementById('connection').textContent === 'Live' && document.querySelectorAll('tr[data-key]').length === 1000`)
	p.accessible(t, script)
	p.screenshot(t, "thousand-dark")
	p.value(t, `document.getElementById('group-current').open = true; document.getElementById('group-current').scrollIntoView()`, nil)
	p.look(t, "light", 1280, 1400)
	p.screenshot(t, "thousand-current")
	l.change(func(now *render.Progress) { now.Resources[999].Done-- })
	p.wait(t, `document.querySelector('tr[data-key^="widgets-999."]').textContent.includes('37,962')`)
	p.quiet(t)
}

func TestThePageWithoutJavaScript(t *testing.T) {
	p := newTab(t)
	l := serve(t, cluster(40))
	p.call(t, "Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	p.look(t, "light", 1280, 1400)
	p.open(t, l.url)
	p.wait(t, `document.querySelectorAll('tr[data-key]').length === 40 && document.getElementById('filter').hidden &&
		document.querySelector('head noscript meta[http-equiv=refresh]').content === '15' &&
		document.getElementById('connection').textContent === ''`)
	p.screenshot(t, "without-javascript")
	p.quiet(t)
}

func TestReportsAreComplete(t *testing.T) {
	p, script := newTab(t), axe(t)
	now := time.Now()
	for name, view := range map[string]page.View{
		"progress": page.OfProgress(cluster(30), "https://api.example.com:6443", nil),
		"check": page.OfCheck(upgrade.Report{Verdict: upgrade.Unsafe, Target: "Kubernetes 1.36",
			Sentence: "Going to Kubernetes 1.36 is not safe now: podgroups.scheduling.k8s.io.",
			Findings: []upgrade.Finding{
				{Resource: "podgroups.scheduling.k8s.io", Verdict: upgrade.Unsafe, Why: "it cannot decode v1beta1" + hostile,
					Stored: []string{"v1beta1"}, Current: "v1beta1", Stranded: []string{"v1beta1"},
					Source: upgrade.ByStorageState, Next: "kube-migrator request podgroups.scheduling.k8s.io"},
				{Resource: "nodes", Verdict: upgrade.Safe, Stored: []string{"v1"}, Current: "v1", Source: upgrade.ByStorageState},
			}}, "https://api.example.com:6443", now),
		"check-undetermined": page.OfCheck(upgrade.Report{Verdict: upgrade.Undetermined, Target: "Kubernetes 1.38",
			Sentence: "Whether going to Kubernetes 1.38 is safe cannot be determined for widgets.demo.example.com.",
			Findings: []upgrade.Finding{
				{Resource: "widgets.demo.example.com", Verdict: upgrade.Undetermined, Why: "the versions in which it is stored are unknown",
					Current: "v2", Source: upgrade.ByStorageState, Next: "kube-migrator request widgets.demo.example.com"},
			}}, "https://api.example.com:6443", now),
		"audit": page.OfAudit(&etcdaudit.Report{ReadTime: now, Compared: true,
			Source: etcdaudit.Provenance{File: "snapshot.db", Revision: 42, FirstRevision: 42, ChecksumVerified: true},
			Totals: etcdaudit.Totals{Objects: 110, Stale: 20, Current: 90},
			Rows: []etcdaudit.Row{
				{Resource: "widgets.demo.example.com", Kind: "Widget", APIVersion: "demo.example.com/v1", Encoding: "json",
					CurrentVersion: "demo.example.com/v2", Comparison: etcdaudit.IsStale, Objects: 20, Bytes: 2_000},
				{Resource: "secrets", Kind: "Secret", APIVersion: "v1", Encoding: "protobuf", CurrentVersion: "v1",
					Comparison: etcdaudit.IsCurrent, Objects: 90, Bytes: 9_000}}}),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "report.html")
			out, err := os.Create(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := page.Report(out, view); err != nil {
				t.Fatal(err)
			}
			out.Close()
			p.look(t, "light", 1280, 1400)
			p.open(t, "file://"+file)
			p.wait(t, `!document.getElementById('filter').hidden && window.harm === undefined`)
			p.accessible(t, script)
			p.screenshot(t, "report-"+name)
			p.quiet(t)
		})
	}
}
