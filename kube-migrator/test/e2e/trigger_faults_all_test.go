// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// triggers matches what the trigger writes about the widgets: their StorageState, and the spec of its migration.
func triggers(r *http.Request) bool {
	if r.Method == http.MethodGet {
		return false
	}
	state := strings.HasPrefix(r.URL.Path, states)
	if !state && (!strings.HasPrefix(r.URL.Path, migrations) || strings.HasSuffix(r.URL.Path, "/status")) {
		return false
	}
	if strings.Contains(r.URL.Path, widgetsName) {
		return true
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return err == nil && bytes.Contains(body, []byte(`"name":"`+widgetsName+`"`))
}

// The trigger is killed before and after each of its writes, first when nothing is recorded yet, then when the version
// moves.
func TestATriggerThatIsKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	c := newControlled(t, staleWidgets(t, 50, testbed.Widgets{}))
	proxy := c.behindProxy()
	watchTruth(t, c.cluster, widgetKind)
	current := "v2"
	arguments := []string{"--include=" + widgetsName, "--leader-elect=false"}
	for _, fromNothing := range []bool{true, false} {
		for _, after := range []bool{false, true} {
			for n := range 4 {
				name := fmt.Sprintf("recorded=%v/after=%v/%d", !fromNothing, after, n)
				if fromNothing {
					c.wipe()
				} else {
					current = map[string]string{"v1": "v2", "v2": "v1"}[current]
				}
				p := c.launch(append([]string{"--auto-trigger"}, arguments...)...)
				died := make(chan struct{})
				kill := func() { p.Process.Kill() } //nolint:errcheck // it may have ended
				fault := testbed.ResetBefore(kill)
				if after {
					fault = testbed.ResetAfter(kill)
				}
				if !fromNothing {
					c.until(widgetsName, "settled before", inPhase(v1alpha1.PhaseSucceeded))
				}
				proxy.SetRules(testbed.Rule{Match: triggers, Skip: n, Times: 1, Fault: fault})
				go func() {
					defer close(died)
					p.Wait() //nolint:errcheck // killed
				}()
				if !fromNothing {
					moveStorage(t, c.cluster, current)
				}
				killed := func() bool {
					select {
					case <-died:
						return true
					default:
						return false
					}
				}
				eventually(t, name+": killed", func() bool { // or, where so many writes are not needed, done
					s := c.state(widgetsName)
					return killed() || n >= 2 && s != nil && persistedOnly(current)(s)
				})
				kill()
				<-died
				proxy.SetRules()
				q := c.launch(append([]string{"--auto-trigger"}, arguments...)...)
				c.untilState(widgetsName, name+": proven", persistedOnly(current))
				wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{testbed.WidgetGroup + "/" + current: 50})
				q.Process.Kill() //nolint:errcheck // it lives
				q.Wait()         //nolint:errcheck // killed
				c.show(q)
			}
		}
	}
}

// wipe removes what is recorded and asked for about the widgets.
func (c *controlled) wipe() {
	c.Helper()
	for _, path := range []string{states, migrations} {
		status, answer, err := c.cluster.Servers[0].Do(c.Context(), http.MethodDelete, path+"/"+widgetsName, nil)
		if err != nil || status != http.StatusOK && status != http.StatusNotFound {
			c.Fatalf("delete: %d %s (%v)", status, answer, err)
		}
	}
}

func TestEtcdIsRestoredInMidRun(t *testing.T) {
	t.Parallel()
	const n = 1500
	c := newControlled(t, staleWidgets(t, n, testbed.Widgets{}))
	watchTruth(t, c.cluster, widgetKind)
	c.supervise("--auto-trigger", "--include="+widgetsName)
	c.rewrote(n / 4)
	backup, err := c.cluster.Etcd.Backup()
	if err != nil {
		t.Fatal(err)
	}
	c.untilState(widgetsName, "proven", persistedOnly("v2"))
	if err := c.cluster.Restore(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	if held := stored(t, c.cluster, testbed.WidgetsPrefix); held[v1] == 0 {
		t.Fatalf("etcd holds %v: the backup was of no use", held)
	}
	c.untilState(widgetsName, "in doubt", func(s *v1alpha1.StorageState) bool {
		return slices.Contains(s.Status.PersistedStorageVersionHashes, v1alpha1.Unknown)
	})
	c.untilState(widgetsName, "proven once more", persistedOnly("v2"))
	wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{v2: n})
}

// A sweep ends at once when the agreement is lost, and begins again when the next epoch has settled.
func TestASweepAbortsWhenTheAgreementIsLost(t *testing.T) {
	t.Parallel()
	const n, settle = 2000, 6 * time.Second
	c := newControlled(t, staleWidgets(t, n, testbed.Widgets{}))
	proxy := c.behindProxy()
	c.triggering("--include="+widgetsName, "--settle-time="+settle.String())
	c.rewrote(n / 10)
	moveStorage(t, c.cluster, "v1")
	c.untilState(widgetsName, "proven", persistedOnly("v1"))
	wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{v1: n})
	sent := patches(proxy)
	rest, early := time.Duration(0), 0 // the longest time without a beginning, and what began before it
	for i := 1; i < len(sent); i++ {
		if between := sent[i].Begin.Sub(sent[i-1].Begin); between > rest {
			rest, early = between, i
		}
	}
	// Requests that began after the agreement was lost would not have waited for the settle time; the second is for
	// requests in flight.
	if early >= n || rest < settle-time.Second {
		t.Errorf("%d patches of %d before a rest of %v, want less than all before one of the settle time, %v",
			early, n, rest, settle)
	}
}
