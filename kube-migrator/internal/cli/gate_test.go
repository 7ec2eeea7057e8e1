// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/util/cert"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

func TestMistakesOfTheGateAreTwoLines(t *testing.T) {
	dir, certificate := t.TempDir(), gateCertificate(t)
	kubeconfig := writeFile(t, `{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}],
		contexts: [{name: x, context: {cluster: c}}], current-context: x}`)
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "error: --cert-dir is missing\nTry: kube-migrator gate --help\n"},
		{[]string{"--cert-dir=" + dir}, "error: serve the gate: read the certificate: open " + filepath.Join(dir, "tls.crt") +
			": no such file or directory\nTry: ls -l " + dir + "\n"},
		{[]string{"--cert-dir=a", "--retry-after=0s"}, "error: invalid value \"0s\" for --retry-after: use a duration of 1s or " +
			"more, such as 30s or 5m\nTry: kube-migrator gate --help\n"},
		{[]string{"--cert-dir=" + certificate, "--bind-address=127.0.0.1:x"}, "error: serve the gate: listen: listen tcp: " +
			"lookup tcp/x: unknown port\nTry: kube-migrator gate --help\n"},
		{[]string{"a"}, "error: unexpected argument \"a\"\nTry: kube-migrator gate --help\n"},
	} {
		var out, errs strings.Builder
		code := Run(t.Context(), append([]string{"kube-migrator", "gate", "--kubeconfig", kubeconfig}, c.args...),
			Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		if code != exit.Error || out.String() != "" || errs.String() != c.want {
			t.Errorf("%q: exit code %d, %s%s\nwant %s", c.args, code, &out, &errs, c.want)
		}
	}
}

// Reasons contain ages, and what could not be read contains errors: neither is a part of the message.
func TestTheMessageOfTheGateStaysTheSame(t *testing.T) {
	t.Parallel()
	findings := []upgrade.Finding{{Resource: "a", Verdict: upgrade.Undetermined, Why: "13m ago"},
		{Resource: "b", Verdict: upgrade.Undetermined}, {Resource: "c", Verdict: upgrade.Safe}}
	got := opinionOf(upgrade.Report{Verdict: upgrade.Undetermined, Target: "Kubernetes 1.37", Findings: findings,
		NotLookedAt: []string{"v1.example.com: dial tcp: timeout"}, Sentence: "13m ago"})
	const want = "Kubernetes 1.37 may be unable to decode what is stored in the cluster; that cannot be determined now: a, b. " +
		"In the cluster, this command says why: kube-migrator check --target-version 1.37"
	if got.Safe || got.Message != want {
		t.Errorf("%+v, want %s", got, want)
	}
}

// gateCertificate returns a folder with a certificate and its key.
func gateCertificate(t *testing.T) string {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("gate.example.com", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
