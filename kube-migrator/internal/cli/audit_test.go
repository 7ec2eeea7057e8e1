// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/etcdaudit"
)

// runAudit runs the command as a user does.
func runAudit(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	code = Run(t.Context(), append([]string{"kube-migrator", "audit"}, args...), Streams{Out: &out, Err: &errs})
	return code, out.String(), errs.String()
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAuditRefusesBadInputInTwoLines(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	text := writeFile(t, "hello")
	for name, test := range map[string]struct {
		args []string
		want string
		try  string
	}{
		"no source": {nil, "--etcd-endpoints or --snapshot is missing",
			"kube-migrator audit --help"},
		"two sources": {[]string{"--snapshot", "a", "--etcd-endpoints", "b"}, "cannot be used together",
			"kube-migrator audit --help"},
		"an argument": {[]string{"widgets"}, "unexpected argument", "kube-migrator audit --help"},
		"certificates for a snapshot": {[]string{"--snapshot", "a", "--cacert", "b"}, "cannot be used together",
			"kube-migrator audit --help"},
		"a certificate without a key": {[]string{"--etcd-endpoints", "a", "--cert", "b"}, "--cert needs --key",
			"kube-migrator audit --help"},
		"a CA that does not exist": {[]string{"--etcd-endpoints", "a", "--cacert", "/none/ca.crt"}, "/none/ca.crt",
			"kube-migrator audit --help"},
		"a CA that is none": {[]string{"--etcd-endpoints", "a", "--cacert", text},
			"holds no PEM certificate", "kube-migrator audit --help"},
		"another scheme": {[]string{"--etcd-endpoints", "ftp://a"}, "want http:// or https://",
			"kube-migrator audit --help"},
		"certificates for http": {[]string{"--etcd-endpoints", "http://a", "--cacert", text},
			"http:// does not use them", "kube-migrator audit --help"},
		"a snapshot that is not there": {[]string{"--snapshot", "/none/db"}, "/none/db does not exist",
			"kube-migrator audit --help"},
		"a file that is not a snapshot": {[]string{"--snapshot", text}, "no etcd snapshot",
			"etcdctl snapshot save snapshot.db"},
		"stale without versions": {[]string{"--snapshot", text, "--stale"}, "--stale needs --kubeconfig or --current",
			"kube-migrator audit --help"},
		"a bad file of versions": {[]string{"--snapshot", text, "--current", text}, "want lines like",
			"kube-migrator audit --help"},
		"no file of versions": {[]string{"--snapshot", text, "--current", "/none/file"}, "/none/file",
			"kube-migrator audit --help"},
		"an unknown format": {[]string{"--snapshot", text, "-o", "xml"}, "use table, wide, json, yaml, name, html or prometheus",
			"kube-migrator audit --help"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := runAudit(t, test.args...)
			lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
			if code != 1 || stdout != "" || len(lines) != 2 || !strings.Contains(lines[0], test.want) ||
				lines[1] != "Try: "+test.try {
				t.Errorf("exit code %d, stdout %q, stderr:\n%s", code, stdout, stderr)
			}
		})
	}
}

// The cluster is not encrypted and was upgraded from v1 to v2 of its widgets.
func TestAuditComparesARealClusterWithWhatItsAPIServerSays(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	c := testbed.New(t, testbed.Options{})
	ctx := t.Context()
	kubeconfig, err := c.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		c.InstallWidgets(ctx, testbed.Widgets{}),
		c.BulkCreate(ctx, testbed.Bulk{Count: 3}),
		c.MoveStorage(ctx, testbed.WidgetCRD, "v2"),
		c.BulkCreate(ctx, testbed.Bulk{Version: "v2", First: 5, Count: 2}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	etcd := []string{"--etcd-endpoints", c.Etcd.Endpoint()}
	run := func(args ...string) (int, string, string) { return runAudit(t, append(etcd, args...)...) }

	t.Run("stale objects are named and end in exit code 2", func(t *testing.T) {
		code, stdout, stderr := run("--kubeconfig", kubeconfig, "--stale", "-o", "name")
		want := ""
		for _, name := range []string{"0", "1", "2"} {
			want += "widgets.demo.example.com/default/widget-000000" + name + "\n"
		}
		if diff := cmp.Diff(want, stdout); diff != "" || code != 2 || !strings.Contains(stderr, "Stale: 3 objects") {
			t.Errorf("exit code %d, stderr %q, stdout (-want +got):\n%s", code, stderr, diff)
		}
	})
	t.Run("metrics count what is stale", func(t *testing.T) {
		code, stdout, _ := run("--kubeconfig", kubeconfig, "-o", "prometheus")
		const series = `kube_migrator_audit_objects{resource="widgets.demo.example.com",stored="demo.example.com/v1",verdict="stale"} 3`
		if code != 2 || !strings.Contains(stdout, series+"\n") {
			t.Errorf("exit code %d, stdout\n%s", code, stdout)
		}
	})
	t.Run("JSON and YAML are one document with the stale objects and all counts", func(t *testing.T) {
		for format, decode := range map[string]func([]byte, any) error{
			"json": json.Unmarshal,
			"yaml": func(data []byte, to any) error { return yaml.Unmarshal(data, to) },
		} {
			code, stdout, _ := run("--kubeconfig", kubeconfig, "--stale", "-o", format)
			var got struct {
				StaleObjects []etcdaudit.StaleObject `json:"staleObjects"`
				etcdaudit.Report
			}
			if err := decode([]byte(stdout), &got); err != nil {
				t.Fatalf("%s: %v in\n%s", format, err, stdout)
			}
			totals := got.Totals
			if code != 2 || len(got.StaleObjects) != 3 || totals.Stale != 3 || totals.Undetermined != 0 ||
				totals.Objects != totals.Current+totals.Stale || got.Source.Revision == 0 ||
				got.Source.ClusterID == "" {
				t.Errorf("%s: exit code %d, %d stale objects, %+v of %+v", format, code,
					len(got.StaleObjects), totals, got.Source)
				for _, r := range got.Rows {
					if r.Comparison == etcdaudit.IsUndetermined {
						t.Logf("%+v", r)
					}
				}
			}
		}
	})
	t.Run("nothing stale among what the file asks about is exit code 0", func(t *testing.T) {
		code, stdout, stderr := run("--current", writeFile(t, "namespaces: v1\nmissing.demo.example.com: v1\n"),
			"--stale", "-o", "json")
		if code != 0 || !strings.Contains(stdout, `"staleObjects": [],`) || !json.Valid([]byte(stdout)) ||
			!strings.Contains(stderr, "Nothing is stale.") ||
			!strings.Contains(stderr, "warning: no object of missing.demo.example.com is stored") {
			t.Errorf("exit code %d, stderr:\n%s\nstdout:\n%s", code, stderr, stdout)
		}
	})
	t.Run("a file that asks about nothing that is stored is exit code 3", func(t *testing.T) {
		if code, _, stderr := run("--current", writeFile(t, "widget.demo.example.com: v2\n")); code != 3 {
			t.Errorf("exit code %d, stderr:\n%s", code, stderr)
		}
	})
	t.Run("the table says what is stored", func(t *testing.T) {
		code, stdout, _ := run("--current", writeFile(t, "widgets.demo.example.com: v2\n"))
		var got []string
		for line := range strings.Lines(stdout) {
			if fields := strings.Join(strings.Fields(line), " "); strings.HasPrefix(line, "RESOURCE") ||
				strings.HasPrefix(line, "widgets") {
				got = append(got, fields)
			}
		}
		want := []string{
			"RESOURCE STORED ENCODING KEY OBJECTS CURRENT VERDICT",
			"widgets.demo.example.com demo.example.com/v1 json - 3 demo.example.com/v2 stale",
			"widgets.demo.example.com demo.example.com/v2 json - 2 demo.example.com/v2 current",
		}
		if diff := cmp.Diff(want, got); diff != "" || code != 2 {
			t.Errorf("exit code %d, table (-want +got):\n%s", code, diff)
		}
	})
	t.Run("a value that no one understands is exit code 3", func(t *testing.T) {
		const key = "/registry/strange.example.com/things/default/a"
		if err := c.PutRaw(ctx, key, []byte("?")); err != nil {
			t.Fatal(err)
		}
		defer c.DeleteRaw(ctx, key) //nolint:errcheck // nothing follows
		if code, _, stderr := run("--current", writeFile(t, "things.strange.example.com: v2\n")); code != 3 {
			t.Errorf("exit code %d, stderr:\n%s", code, stderr)
		}
	})
}

func TestMistakesInAPatternOfSnapshotsAreTwoLines(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	folder := t.TempDir()
	const help = "Try: kube-migrator audit --help\n"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--snapshot=" + folder + "/*.db"}, "error: no file matches \"" + folder + "/*.db\"\nTry: ls " + folder + "\n"},
		{[]string{"--snapshot=" + folder + "/["}, "error: read pattern \"" + folder + "/[\": syntax error in pattern\n" + help},
		{[]string{"--snapshot=*.db", "--context=a"}, "error: --context names one cluster, but --snapshot is a pattern: use " +
			"--current\n" + help},
		{[]string{"--snapshot=a.db", "--parallel=3"}, "error: --parallel needs a pattern as --snapshot\n" + help},
		{[]string{"--snapshot=*.db", "--stale"}, "error: --stale, --output=html and --output=prometheus need a single snapshot, but --snapshot is " +
			"a pattern\n" + help},
	} {
		code, out, errs := runAudit(t, c.args...)
		if code != exit.Error || out != "" || errs != c.want {
			t.Errorf("%q: exit code %d, %s%s\nwant %s", c.args, code, out, errs, c.want)
		}
	}
}
