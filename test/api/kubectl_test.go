// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/golden"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func TestKubectl(t *testing.T) {
	c := newCluster(t, testbed.Options{})
	t.Run("it shows migrations in columns", func(t *testing.T) { showsColumns(t, c) })
	t.Run("it shows what is stored in columns", func(t *testing.T) { showsStates(t, c) })
	t.Run("it explains fields", func(t *testing.T) { explainsFields(t, c) })
}

func showsColumns(t *testing.T, c *cluster) {
	c.must(http.MethodPost, migrations, migrationNamed("new",
		`{"resource":{"resource":"secrets"},"reason":"key rotation"}`))
	c.must(http.MethodPost, migrations, migrationNamed("widgets.demo.example.com",
		`{"resource":{"group":"demo.example.com","resource":"widgets"},"reason":"storage version changed v1 → v2"}`))
	c.must(http.MethodPatch, migrations+"/widgets.demo.example.com/status",
		`{"status":{"state":"Running","storageVersion":"v2",
		"progress":{"total":10000,"done":2500,"rewritten":2400,"current":97,"gone":1,"failed":2,"retried":0,"objectsPerSecond":430,"estimatedCompletionTime":"2030-01-02T03:04:05Z"}}}`)
	age := regexp.MustCompile(`(?m)\d+s$`)
	for name, args := range map[string][]string{
		"get.table": {"get", "svmig"},
		"get.wide":  {"get", "storageversionmigrations.migration.k8s.io", "-o", "wide"},
	} {
		out, err := c.kubectl(t.Context(), args...)
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		golden.Compare(t, "testdata/"+name, age.ReplaceAllString(out, "1s"))
	}
	if out, err := c.kubectl(t.Context(), "get", "kube-migrator", "-o", "name"); err != nil ||
		!strings.Contains(out, "storageversionmigration.migration.k8s.io/new") {
		t.Errorf("the category kube-migrator lists %q (%v)", out, err)
	}
}

func showsStates(t *testing.T, c *cluster) {
	const path = "/apis/migration.k8s.io/v1alpha1/storagestates"
	for _, state := range []struct{ group, resource, status string }{
		{"", "secrets", `"state":"Migrated","persistedVersions":["v1"],"currentVersion":"v1","evidence":"Observed","conditions":[{"type":"Migrated","status":"True","message":"Every stored object is in the current version"}]`},
		{"gateway.networking.k8s.io", "backendtlspolicies",
			`"state":"NotMigrated","persistedVersions":["v1alpha2","v1alpha3"],"currentVersion":"v1alpha3","evidence":"Observed"`},
		{"resource.k8s.io", "deviceclasses", `"state":"Disagreed","persistedVersions":["v1beta2","v1"]`},
		// The longest name in Kubernetes 1.37.
		{"admissionregistration.k8s.io", "validatingadmissionpolicybindings",
			`"state":"Unknown","persistedVersions":["Unknown","v1"],"currentVersion":"v1","conditions":[{"type":"Migrated","status":"False","message":"The stored versions are unknown: nothing is recorded"}]`},
		{"admissionregistration.k8s.io", "mutatingadmissionpolicies",
			`"state":"Forbidden","persistedVersions":["Unknown","v1beta1"],"currentVersion":"v1beta1"`},
	} {
		name := strings.TrimSuffix(state.resource+"."+state.group, ".")
		c.must(http.MethodPost, path, fmt.Sprintf(
			`{"apiVersion":"migration.k8s.io/v1alpha1","kind":"StorageState","metadata":{"name":%q},"spec":{"resource":{"group":%q,"resource":%q}}}`, name, state.group, state.resource,
		))
		c.must(http.MethodPatch, path+"/"+name+"/status",
			fmt.Sprintf(`{"status":{"lastHeartbeatTime":%q,%s}}`,
				time.Now().UTC().Add(-12*time.Minute-10*time.Second).Format(time.RFC3339), state.status))
	}
	for name, args := range map[string][]string{"states.table": {"get", "storagestates"},
		"states.wide": {"get", "storagestates", "-o", "wide"}} {
		out, err := c.kubectl(t.Context(), args...)
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for line := range strings.Lines(out) {
			if name == "states.table" && len(strings.TrimRight(line, " \n")) > 120 {
				t.Errorf("%d columns: %s", len(line), line)
			}
		}
		golden.Compare(t, "testdata/"+name, out) // kubectl tells no seconds from ten minutes on
	}
}

func explainsFields(t *testing.T, c *cluster) {
	for name, field := range map[string]string{
		"explain.spec":     "svmig.spec",
		"explain.pace":     "svmig.spec.pace",
		"explain.progress": "svmig.status.progress",
		"explain.state":    "storagestates.status.persistedStorageVersionHashes",
	} {
		out, err := c.kubectl(t.Context(), "explain", field)
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		golden.Compare(t, "testdata/"+name, out)
	}
}
