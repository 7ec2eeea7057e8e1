// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const crdsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// writesData runs every command with -o json and -o yaml: each writes one document, and both say the same.
func (a *asked) writesData(t *testing.T) {
	a.send(
		t,
		http.MethodPost,
		"",
		`{"apiVersion":"migration.k8s.io/v1alpha1","kind":"StorageVersionMigration","metadata":{"name":"secrets"},"spec":{"resource":{"resource":"secrets"}}}`,
	)
	a.status(t, "secrets", succeededStatus(1, "x"))
	status, d, err := a.Servers[0].Do(t.Context(), http.MethodGet, crdsPath+"/"+widgets, nil)
	if err != nil || status != http.StatusOK {
		t.Fatalf("%d, %v", status, err)
	}
	crd := filepath.Join(t.TempDir(), "crd.json")
	if err := os.WriteFile(crd, d, 0o600); err != nil {
		t.Fatal(err)
	}
	lines := map[string][][]string{
		"plan":    {{"namespaces"}},
		"migrate": {{"namespaces", "--dry-run=client"}, {"namespaces", "--dry-run=server", "--settle-time=0"}},
		"audit":   {{"--etcd-endpoints", a.Etcd.Endpoint()}, {"--etcd-endpoints", a.Etcd.Endpoint(), "--stale"}},
		"check":   {{"namespaces"}, {"-f", crd}}, "upgrade-crd": {{"-f", crd, "--dry-run"}},
		"retire":    {{widgets, "--version=v2", "--dry-run", "--settle-time=0"}},
		"install":   {{"--dry-run=client", "--adopt"}, {"--export"}, {"--export", "--include=secrets"}},
		"uninstall": {{"--dry-run=client"}},
		"request":   {{"secrets", "configmaps", "--dry-run=client"}, {"secrets", "--dry-run=server"}},
		"pause":     {{"secrets"}, {"--all"}}, "resume": {{"secrets"}}, "cancel": {{"secrets"}},
		"progress": {{"secrets"}}, "wait": {{"secrets"}}, "version": {{}}, "servers": {{}},
	}
	for _, command := range commands(t) {
		if slices.Contains(noOutput, command.Name()) {
			continue
		}
		if len(lines[command.Name()]) == 0 {
			t.Errorf("%s is not tried", command.Name())
		}
		for _, arguments := range lines[command.Name()] {
			line := append([]string{command.Name()}, arguments...)
			asJSON, asYAML := a.data(t, "json", line), a.data(t, "yaml", line)
			if isStream := slices.Contains(line, "--export"); isStream { // of one document for each object
				continue
			}
			if reflect.TypeOf(asJSON) != reflect.TypeOf(asYAML) || len(asJSON) != len(asYAML) {
				t.Errorf("%q: JSON %v, YAML %v", line, asJSON, asYAML)
			}
		}
	}
	a.repeatsVerdicts(t)
	if m := a.send(t, http.MethodGet, "/secrets", ""); m.Spec.State != v1alpha1.StateActive {
		t.Errorf("state %s, want the migration that has succeeded not cancelled", m.Spec.State)
	}
	a.remove(t, "/secrets")
}

// data runs a command with -o, and decodes what it writes.
func (a *asked) data(t *testing.T, format string, line []string) (document map[string]any) {
	t.Helper()
	code, out, problem := a.run(t.Context(), append(line, "-o", format)...)
	decode := map[string]func([]byte, any) error{"json": json.Unmarshal,
		"yaml": func(raw []byte, into any) error { return yaml.Unmarshal(raw, into) }}
	if err := decode[format]([]byte(out), &document); err != nil || len(document) == 0 || code == exit.Error {
		t.Errorf("%q -o %s: exit code %d, %v\nstdout: %.300s\nstderr: %s", line, format, code, err, out, problem)
	}
	return document
}

// repeatsVerdicts reads what servers prints as a maintainer would, and comes to the verdict of a look.
func (a *asked) repeatsVerdicts(t *testing.T) {
	t.Helper()
	code, out, errors := a.run(t.Context(), "servers", "-o", "json")
	var s snapshot.Snapshot
	if err := json.Unmarshal([]byte(out), &s); err != nil || code != exit.Done || errors != "" {
		t.Fatalf("exit code %d, %v, stderr %q", code, err, errors)
	}
	for _, v := range agreement.Judge(&s) {
		if v.Resource.String() == widgets {
			if v.Epoch == nil || v.Epoch.Evidence != migrate.Observed || v.Epoch.CRDUID == "" {
				t.Errorf("the verdict about widgets is %+v", v)
			}
			return
		}
	}
	t.Error("there is no verdict about widgets")
}
