// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"crypto/tls"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func TestMetricsAreForThoseWhoMayReadThem(t *testing.T) {
	t.Parallel()
	const n, user = 100, "unknown-user"
	cluster := testbed.New(t, testbed.Options{Users: []testbed.User{{Name: user}}})
	installStale(t, cluster, testbed.Bulk{Count: n}, testbed.Widgets{})
	c := newControlled(t, cluster)
	metrics, probes := freeAddress(t), freeAddress(t)
	p := c.controller("--metrics-bind-address="+metrics, "--health-probe-bind-address="+probes)
	c.ask(v1alpha1.StorageVersionMigrationSpec{})
	c.until(widgetsName, "succeeded", inPhase(v1alpha1.PhaseSucceeded))

	for _, path := range []string{"/healthz", "/readyz"} {
		if code, body := fetch(t, "http://"+probes+path, ""); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	address := "https://" + metrics + "/metrics"
	for who, want := range map[string]int{"": http.StatusUnauthorized,
		"a token that no one has":                     http.StatusUnauthorized,
		cluster.Servers[0].ConfigAs(user).BearerToken: http.StatusForbidden} {
		if code, body := fetch(t, address, who); code != want || strings.Contains(body, "kube_migrator") {
			t.Errorf("with token %q: %d %.200s, want %d", who, code, body, want)
		}
	}
	var body string
	// which the status tells a moment earlier
	eventually(t, "the administrator reads that the migration has ended", func() bool {
		var code int
		code, body = fetch(t, address, cluster.Servers[0].Config().BearerToken)
		return code == http.StatusOK && strings.Contains(body, `storage_migrator_core_migrator_migrations{resource="`+
			widgetsName+`",status="Succeeded"} 1`) &&
			strings.Contains(body, `kube_migrator_objects{resource="`+widgetsName+`",state="rewritten"} 100`)
	})
	for _, line := range []string{
		`storage_migrator_core_migrator_migrated_objects{resource="` + widgetsName + `"} 100`,
		`storage_migrator_core_migrator_remaining_objects{resource="` + widgetsName + `"} 0`,
		`kube_migrator_objects{resource="` + widgetsName + `",state="failed"} 0`,
		`kube_migrator_objects_per_second{resource="` + widgetsName + `"} 0`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("the metrics lack %s", line)
		}
	}
	for _, name := range []string{"kube_migrator_run_duration_seconds{", "kube_migrator_throttled_seconds{"} {
		if !strings.Contains(body, name) {
			t.Errorf("the metrics lack %s", name)
		}
	}
	if strings.Contains(body, "widget-0") {
		t.Error("the metrics name objects")
	}
	wantUnimpressed(t, p.Process.Pid, address)
	if code, _ := fetch(t, address, cluster.Servers[0].Config().BearerToken); code != http.StatusOK {
		t.Errorf("after the flood the administrator gets %d", code)
	}
}

// wantUnimpressed floods the metrics with bearer tokens of a MiB, which once took as much memory each as the controller
// may have together.
func wantUnimpressed(t *testing.T, pid int, address string) {
	t.Helper()
	peak := func() int64 {
		usage, err := testbed.UsageOf(pid)
		if err != nil {
			t.Fatal(err)
		}
		return usage.PeakRSSBytes
	}
	before, token := peak(), strings.Repeat("x", 1<<20-4096)
	var flood sync.WaitGroup
	for range 200 {
		flood.Go(func() {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
			if err != nil {
				t.Error(err)
				return
			}
			request.Header.Set("Authorization", "Bearer "+token)
			transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
			defer transport.CloseIdleConnections()
			// else the controller closed it while it was being sent
			if response, err := transport.RoundTrip(request); err == nil {
				response.Body.Close()
			}
		})
	}
	flood.Wait()
	if grown := peak() - before; grown > 16<<20 {
		t.Errorf("200 bearer tokens of a MiB cost the controller %d bytes of memory, want at most 16 MiB", grown)
	}
}
