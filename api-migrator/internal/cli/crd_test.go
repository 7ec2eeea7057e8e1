// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/golden"
)

const manifests = "../crd/testdata"

func TestCheckShowsWhatTheGoldenFilesSay(t *testing.T) {
	olds, err := filepath.Glob(filepath.Join(manifests, "check", "*.old.yaml"))
	if err != nil || len(olds) < 12 {
		t.Fatalf("%d pairs, %v", len(olds), err)
	}
	for _, old := range olds {
		name := strings.TrimSuffix(filepath.Base(old), ".old.yaml")
		t.Run(name, func(t *testing.T) {
			next := filepath.Join(manifests, "check", name+".new.yaml")
			text, stderr, code := call(t, "crd", "check", old, next)
			if stderr != "" {
				t.Errorf("stderr is %q", stderr)
			}
			asJSON, _, jsonCode := call(t, "crd", "check", "-o", "json", old, next)
			var parsed struct{ OK bool }
			if err := json.Unmarshal([]byte(asJSON), &parsed); err != nil {
				t.Fatal(err)
			}
			if code != jsonCode || parsed.OK != (code == 0) || code != 0 && code != 2 {
				t.Errorf("exit codes %d and %d, and JSON says ok: %t", code, jsonCode, parsed.OK)
			}
			golden.Compare(t, "testdata/"+filepath.Join("check", name+".golden"), text+"\n"+asJSON)
		})
	}
}
