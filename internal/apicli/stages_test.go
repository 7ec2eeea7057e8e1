// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package apicli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/stages"
)

const guideManifest = guide + "/deploy/crds/operators_v1_catalogsourceconfig_crd.yaml"

func TestStagesAreShownAndWrittenOnce(t *testing.T) {
	t.Parallel()
	text, complaint, code := call(t, "stages", "--from", "v1", "--to", "v2", guideManifest)
	if code != 0 || !strings.HasPrefix(text, "# catalogsourceconfigs.operators.example.com: from v1 to v2\n") ||
		complaint != "" {
		t.Fatalf("exit code %d: %s%s", code, text, complaint)
	}
	out, _, code := call(t, "stages", "--from", "v1", "--to", "v2", "--single-release", "-o", "json", guideManifest,
		guide+"/deploy/crds/operators_v1_operatorgroup_crd.yaml")
	var plans []stages.Plan
	if err := json.Unmarshal([]byte(out), &plans); err != nil || code != 0 || len(plans) != 2 ||
		len(plans[1].Stages) != 5 {
		t.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	dir := filepath.Join(t.TempDir(), "stages")
	for range 2 { // the second time nothing is another
		out, complaint, code = call(t, "stages", "--from", "v1", "--to", "v2", "--out", dir, guideManifest)
		if code != 0 || strings.Count(out, "wrote ") != 11 ||
			!strings.HasPrefix(complaint, "warning: catalogsourceconfigs.operators.example.com: ") {
			t.Fatalf("exit code %d: %s%s", code, out, complaint)
		}
	}
	gate := filepath.Join(dir, "catalogsourceconfigs.operators.example.com", "a-gate.sh")
	if info, err := os.Stat(gate); err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Errorf("the gate cannot be run: %v, %v", info, err)
	}
	if err := os.WriteFile(gate, []byte("true\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	before := filesOf(t, dir)
	_, complaint, code = call(t, "stages", "--from", "v1", "--to", "v3", "--out", dir, guideManifest)
	if try := "Try: api-migrator stages --from v1 --to v3 --out " + dir + ".new " + guideManifest + "\n"; code != 1 ||
		!strings.Contains(complaint, "is there with another content") || !strings.HasSuffix(complaint, try) {
		t.Errorf("over the user's files: exit code %d: %s", code, complaint)
	}
	if diff := cmp.Diff(before, filesOf(t, dir)); diff != "" {
		t.Errorf("something was written all the same:\n%s", diff)
	}
}

func TestStagesAreThoseOfTheCRDsWithTheVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := func(plural, version string) string {
		return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: " + plural +
			".example.com\nspec:\n  group: example.com\n  names:\n    kind: Kind" + plural +
			"\n    plural: " + plural + "\n  scope: Cluster\n  versions:\n  - name: " + version +
			"\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n        type: object\n"
	}
	for name, content := range map[string]string{
		"all.yaml":      text("as", "v1") + "---\n" + text("bs", "v1beta1") + "---\nkind: ConfigMap\n",
		"a.yaml":        text("as", "v1"),
		"copy.yaml":     text("as", "v1"),
		"list.yaml":     "kind: List\nitems:\n- " + strings.ReplaceAll(text("as", "v1"), "\n", "\n  "),
		"template.yaml": "{{ if .Values.crds }}\n" + text("as", "v1") + "{{ end }}\n",
		"alias.yaml": strings.Replace(text("as", "v1"), "served: true\n    storage: true",
			"served: &yes true\n    storage: *yes", 1),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	out, complaint, code := call(t, "stages", "--from", "v1", "--to", "v2", in("all.yaml"), in("all.yaml"))
	if want := "note: bs.example.com in " + in("all.yaml") + " has no version v1, and no stages\n"; code != 0 ||
		strings.Count(out, "\n## ") != 6 || complaint != want {
		t.Errorf("exit code %d: %swith %q, want six stages and %q", code, out, complaint, want)
	}
	for name, test := range map[string]struct {
		args      []string
		want, try string
	}{
		"none with the version": {[]string{"--from", "v7", in("all.yaml")}, "as.example.com in " + in("all.yaml") +
			" has no version v7", "api-migrator stages --from v1 --to v2 " + in("all.yaml")},
		"one in two files": {[]string{"--from", "v1", "--out", in("out"), in("copy.yaml"), in("a.yaml")},
			in("copy.yaml") + " and " + in("a.yaml") + " both have as.example.com",
			"api-migrator stages --from v1 --to v2 --out " + in("out") + " " + in("copy.yaml")},
		"a list": {[]string{"--from", "v1", in("list.yaml")}, "it has a CustomResourceDefinition in a list",
			"yq '.items[] | split_doc' " + in("list.yaml")},
		"a template": {[]string{"--from", "v1", in("template.yaml")}, "it is a template",
			"helm template --include-crds CHART"},
		"an alias": {[]string{"--from", "v1", in("alias.yaml")}, "an alias (*)", "yq 'explode(.)' " + in("alias.yaml")},
	} {
		out, complaint, code := call(t, append([]string{"stages", "--to", "v2"}, test.args...)...)
		lines := strings.Split(strings.TrimSuffix(complaint, "\n"), "\n")
		if code != 1 || out != "" || len(lines) != 2 || !strings.Contains(lines[0], test.want) ||
			lines[1] != "Try: "+test.try {
			t.Errorf("%s: exit code %d, output %q, errors\n%s\nwant 1, nothing, %q and\nTry: %s", name, code, out,
				complaint, test.want, test.try)
		}
	}
	if _, err := os.Stat(in("out")); err == nil {
		t.Error("something was written all the same")
	}
}

func TestStagesOfAPlanAreThoseOfItsKinds(t *testing.T) {
	t.Parallel()
	write := func(text string) string {
		t.Helper()
		plan := filepath.Join(t.TempDir(), "plan.yaml")
		if err := os.WriteFile(plan, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return plan
	}
	const head = "format: api-migrator/v1\nrequest:\n  kinds: [CatalogSourceConfig]\n  from: " +
		"operators.example.com/v1\n  to: "
	out, complaint, code := call(t, "stages", "-C", guide, write(head+"operators.example.com/v2\n"))
	if code != 0 || strings.Count(out, "\n## ") != 6 || !strings.HasPrefix(out, "# catalogsourceconfigs.") {
		t.Errorf("exit code %d: %s%s", code, out, complaint)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"another group": {[]string{"-C", guide, write(head + "other.example.com/v2\n")},
			"the objects are copied"},
		"another name": {[]string{"-C", guide, write(head + "operators.example.com/v2\n  toKind: Other\n")},
			"the objects are copied"},
		"a kind without manifest": {[]string{"-C", guide,
			write(strings.Replace(head, "CatalogSourceConfig", "Other", 1) + "operators.example.com/v2\n")},
			"no manifest of a CustomResourceDefinition for Other"},
		"nothing":         {nil, "one PLAN, or --from, --to and FILE, is missing"},
		"a version alone": {[]string{"--from", "v1", guideManifest}, "--from and --to need each other"},
		"no files":        {[]string{"--from", "v1", "--to", "v2"}, "FILE is missing"},
		"no such file":    {[]string{"--from", "v1", "--to", "v2", "nowhere.yaml"}, "read manifest"},
		"no CRD": {[]string{"--from", "v1", "--to", "v2", guide +
			"/deploy/crds/operators_v1_catalogsourceconfig_cr.yaml"}, "has no CustomResourceDefinition"},
		"an unknown version": {[]string{"--from", "v7", "--to", "v2", guideManifest}, "has no version v7"},
		"an unknown output":  {[]string{"-o", "xml", "plan.yaml"}, `unknown value "xml" for --output`},
	} {
		out, complaint, code := call(t, append([]string{"stages"}, test.args...)...)
		lines := strings.Split(strings.TrimSuffix(complaint, "\n"), "\n")
		if code != 1 || out != "" || len(lines) != 2 || !strings.HasPrefix(lines[0], "error: ") ||
			!strings.Contains(lines[0], test.want) || !strings.HasPrefix(lines[1], "Try: ") {
			t.Errorf("%s: exit code %d, output %q, errors %q; want 1, nothing and two lines with %q", name, code,
				out, complaint, test.want)
		}
	}
}
