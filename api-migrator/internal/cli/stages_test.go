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

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/stages"
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
			!strings.HasPrefix(complaint, "warning: catalogsourceconfigs.operators.example.com: fields that ") {
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
	before := fixture.Files(t, dir)
	_, complaint, code = call(t, "stages", "--from", "v1", "--to", "v3", "--out", dir, guideManifest)
	if try := "Try: api-migrator stages --from v1 --to v3 --out " + dir + ".new " + guideManifest + "\n"; code != 1 ||
		!strings.Contains(complaint, "is there with another content") || !strings.HasSuffix(complaint, try) {
		t.Errorf("over the user's files: exit code %d: %s", code, complaint)
	}
	if diff := cmp.Diff(before, fixture.Files(t, dir)); diff != "" {
		t.Errorf("something was written all the same:\n%s", diff)
	}
}
