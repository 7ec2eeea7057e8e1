// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// A chart that is installed with Helm, a CRD whose storage version moves, and a Prometheus with the chart's alerts.
func TestAnInstallationWithHelmMigratesAndItsAlertsAreSilent(t *testing.T) {
	const n = 2000
	h := newNode(t, testbed.Options{})
	binary := h.binary()
	for _, err := range []error{
		h.cluster.InstallWidgets(t.Context(), testbed.Widgets{}),
		h.cluster.BulkCreate(t.Context(), testbed.Bulk{Count: n}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	h.helm("install", "kube-migrator", "../../charts/kube-migrator", "--create-namespace", "--wait", "--timeout=2m",
		"--set=image="+image, "--set=imagePullPolicy=Never", "--set=settleTime=2s", "--set=shutdownDelay=1s")
	prometheus := h.newPrometheus("../../charts/kube-migrator/files/alerts.yaml")
	h.byHand(binary)
	h.safe(binary, 5*time.Minute)
	h.eventually("no alert is active after the installation", func() bool { return len(prometheus.ask(active)) == 0 })

	if err := h.cluster.MoveStorage(t.Context(), testbed.WidgetCRD, "v2"); err != nil {
		t.Fatal(err)
	}
	h.recordedAs(widgets, "v2")
	h.wantStored(map[string]int{v2: n})
	h.safe(binary, 5*time.Minute)
	h.eventually("the migration has succeeded and no alert is active", func() bool {
		return len(prometheus.ask(`kube_migrator_migration_state{state="Succeeded",resource="`+widgets+`"}`)) == 1 &&
			len(prometheus.ask(active)) == 0
	})
	if fired := prometheus.ask(`max_over_time(ALERTS{alertstate="firing"}[1h])`); len(fired) != 0 {
		t.Errorf("these alerts fired: %v", fired)
	}
	// What is silent was not deaf.
	for _, query := range []string{
		`max_over_time(ALERTS{alertstate="pending",alertname="KubeMigratorNotMigrated",resource="` + widgets + `"}[1h])`,
		`up == 1`,
	} {
		if len(prometheus.ask(query)) == 0 {
			t.Errorf("Prometheus finds nothing for %s", query)
		}
	}
}

// active selects the alerts that are pending or firing.
const active = `ALERTS`

// helm runs Helm in the namespace of the installation.
func (h *harness) helm(args ...string) {
	h.Helper()
	path, err := testbed.Binary(h.Context(), testbed.Helm, "helm", os.Stderr)
	if err != nil {
		h.Fatal(err)
	}
	command := h.cluster.Command(h.Context(), path, append(args, "--namespace", namespace)...)
	home := h.TempDir() // Helm reads and writes nothing of the user who runs the tests
	command.Env = append(os.Environ(), "KUBECONFIG="+h.kubeconfig, "HOME="+home, "HELM_CACHE_HOME="+home,
		"HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	if out, err := command.CombinedOutput(); err != nil {
		h.Fatalf("helm %s: %v\n%s\n%s", strings.Join(args, " "), err, out,
			h.run("describe", "pods", "-n", namespace))
	}
}

// prometheus is a Prometheus that scrapes the controller's pods with the rights of the installation's role, and judges
// alerts.
type prometheus struct {
	*harness
	address string
}

// newPrometheus starts Prometheus with a file of rules, and ends it with the test.
func (h *harness) newPrometheus(rules string) prometheus {
	h.Helper()
	rules, err := filepath.Abs(rules)
	if err != nil {
		h.Fatal(err)
	}
	h.run("create", "serviceaccount", "scraper", "-n", "default")
	h.run("create", "clusterrolebinding", "scraper", "--clusterrole=kube-migrator-metrics-reader",
		"--serviceaccount=default:scraper")
	folder := h.TempDir()
	files := map[string]string{
		"token": h.run("create", "token", "scraper", "-n", "default"),
		"prometheus.yaml": fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
- job_name: kube-migrator
  scheme: https
  authorization: {credentials_file: token}
  tls_config: {insecure_skip_verify: true}
  static_configs: [{targets: [%s]}]
`, rules, strings.Join(h.controllers(), ", ")),
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			h.Fatal(err)
		}
	}
	path, err := testbed.Binary(h.Context(), testbed.Prometheus, "prometheus", os.Stderr)
	if err != nil {
		h.Fatal(err)
	}
	p := prometheus{h, freeAddress(h.T)}
	command := h.cluster.Command(h.Context(), path, "--config.file="+filepath.Join(folder, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+p.address)
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	if err := command.Start(); err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { // the test's context has ended, and with it the process
		_ = command.Wait()
		if h.Failed() {
			h.Logf("Prometheus:\n%s", &log)
		}
	})
	h.eventually("Prometheus scrapes every controller", func() bool {
		_, err := p.query("up")
		return err == nil && len(p.ask("up == 1")) == len(h.controllers())
	})
	return p
}

// controllers returns the addresses of the controller's pods, as a list in YAML has them.
func (h *harness) controllers() []string {
	h.Helper()
	pods := strings.Fields(h.run("get", "pods", "-n", namespace, "-l", "app.kubernetes.io/component=controller", "-o",
		"jsonpath={.items[*].status.podIP}"))
	for i, ip := range pods {
		pods[i] = fmt.Sprintf("%q", net.JoinHostPort(ip, "8443"))
	}
	return pods
}

// ask returns the labels of the series that a query finds.
func (p prometheus) ask(query string) []string {
	p.Helper()
	series, err := p.query(query)
	if err != nil {
		p.Fatal(err)
	}
	return series
}

func (p prometheus) query(query string) ([]string, error) {
	path, err := testbed.Binary(p.Context(), testbed.Prometheus, "promtool", os.Stderr)
	if err != nil {
		return nil, err
	}
	out, err := p.cluster.Command(p.Context(), path, "query", "instant", "-o", "json", "http://"+p.address, query).Output()
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", query, err)
	}
	var found []struct{ Metric map[string]string }
	if err := json.Unmarshal(out, &found); err != nil {
		return nil, fmt.Errorf("query %s: %w\n%s", query, err, out)
	}
	series := make([]string, len(found))
	for i, f := range found {
		series[i] = fmt.Sprint(f.Metric)
	}
	return series, nil
}

// freeAddress returns an address on the loopback interface that no program listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
