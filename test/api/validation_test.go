// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/internal/compare"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/config"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// change is one write and what the API server says about it; an empty refusal means that it is taken.
type change struct {
	method, path, body, refusal string
}

func (c *cluster) try(t *testing.T, one change) {
	t.Helper()
	status, answer := c.do(one.method, one.path, one.body)
	switch {
	case one.refusal == "" && status/100 != 2:
		t.Errorf("%d: %s", status, answer)
	case one.refusal == "":
		return
	}
	var said metav1.Status
	if err := json.Unmarshal([]byte(answer), &said); err != nil || said.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(said.Message, one.refusal) {
		t.Errorf("got %d, want 422 with %q:\n%s (%v)", status, one.refusal, said.Message, err)
	}
}

func migrationNamed(name, spec string) string {
	return `{"apiVersion":"migration.k8s.io/v1alpha1","kind":"StorageVersionMigration","metadata":{"name":"` + name +
		`"},"spec":` + spec + `}`
}

func stateNamed(name, spec string) string {
	return `{"apiVersion":"migration.k8s.io/v1alpha1","kind":"StorageState","metadata":{"name":"` + name +
		`"},"spec":` + spec + `}`
}

func TestTheAPIServerValidates(t *testing.T) {
	c := newCluster(t, testbed.Options{})
	t.Run("it refuses what cannot be meant", func(t *testing.T) { refusesWhatCannotBeMeant(t, c) })
	t.Run("it refuses StorageVersions that cannot be true", func(t *testing.T) { refusesUntrueStorageVersions(t, c) })
	t.Run("a new migration has defaults and a status", func(t *testing.T) { newMigrationHasDefaults(t, c) })
	t.Run("a raised generation is taken", func(t *testing.T) { raisedGenerationIsTaken(t, c) })
	t.Run("an object from before a rule existed can still be worked on",
		func(t *testing.T) { olderObjectsStayValid(t, c) })
}

func refusesWhatCannotBeMeant(t *testing.T, c *cluster) {
	const widgets = `{"resource":{"group":"demo.example.com","resource":"widgets"},"generation":3}`
	one := migrations + "/one"
	c.must(http.MethodPost, migrations, migrationNamed("one", widgets))
	c.must(http.MethodPost, states, stateNamed("widgets.demo.example.com",
		`{"resource":{"group":"demo.example.com","resource":"widgets"}}`))
	state := states + "/widgets.demo.example.com"
	long := strings.Repeat("x", 1025)

	for name, test := range map[string]change{
		"a migration of a resource": {http.MethodPost, migrations,
			migrationNamed("core", `{"resource":{"resource":"secrets"}}`), ""},
		"a migration without a spec": {http.MethodPost, migrations,
			`{"apiVersion":"migration.k8s.io/v1alpha1","kind":"StorageVersionMigration","metadata":{"name":"x"}}`,
			"spec: Required value"},
		"a migration of nothing": {http.MethodPost, migrations,
			migrationNamed("x", `{"resource":{"group":"demo.example.com"}}`), "names no resource"},
		"a migration of a resource without a name": {http.MethodPost, migrations,
			migrationNamed("x", `{"resource":{"resource":""}}`), "names no resource"},
		"another resource": {http.MethodPatch, one,
			`{"spec":{"resource":{"resource":"gadgets"}}}`,
			"is immutable; create another StorageVersionMigration for another resource"},
		"another version of it": {http.MethodPatch, one,
			`{"spec":{"resource":{"version":"v2"}}}`, "is immutable"},
		"no resource any more": {http.MethodPatch, one, `{"spec":{"resource":null}}`,
			"spec.resource: Required value"},
		"a lower generation": {http.MethodPatch, one,
			`{"spec":{"generation":2}}`, "can only be raised"},
		"no generation any more, which means 1": {http.MethodPatch, one,
			`{"spec":{"generation":null}}`, "can only be raised"},
		"the generation 0": {http.MethodPost, migrations,
			migrationNamed("x", `{"resource":{"resource":"pods"},"generation":0}`),
			"should be greater than or equal to 1"},
		"an unknown state": {http.MethodPatch, one, `{"spec":{"state":"Stopped"}}`,
			`supported values: "Active", "Paused", "Cancelled"`},
		"a priority of nothing": {http.MethodPatch, one, `{"spec":{"priority":0}}`,
			"should be greater than or equal to 1"},
		"a negative rate": {http.MethodPatch, one,
			`{"spec":{"pace":{"maxObjectsPerSecond":-1}}}`, "should be greater than or equal to 0"},
		"a negative bandwidth": {http.MethodPatch, one,
			`{"spec":{"pace":{"maxBytesPerSecond":-1}}}`, "should be greater than or equal to 0"},
		"a bandwidth": {http.MethodPost, migrations,
			migrationNamed("bounded", `{"resource":{"resource":"pods"},"pace":{"maxBytesPerSecond":10485760}}`), ""},
		"more in flight than any API server bears": {http.MethodPatch, one, `{"spec":{"pace":{"maxInFlight":1025}}}`,
			"should be less than or equal to 1024"},
		"a negative time to live": {http.MethodPatch, one, `{"spec":{"ttlSecondsAfterFinished":-1}}`,
			"should be greater than or equal to 0"},
		"a reason that is too long": {http.MethodPatch, one, `{"spec":{"reason":"` + long + `"}}`,
			"may not be more than 1024"},
		"a resource that is a path": {http.MethodPost, migrations,
			migrationNamed("x", `{"resource":{"resource":"../../secrets"}}`), "spec.resource.resource: Invalid value"},
		"a resource with an escape sequence": {http.MethodPost, migrations,
			migrationNamed("x", `{"resource":{"resource":"pods\u001b[2J"}}`), "spec.resource.resource: Invalid value"},
		"a resource with a line feed at its end": {http.MethodPost, migrations,
			migrationNamed("x", `{"resource":{"resource":"pods\n"}}`), "spec.resource.resource: Invalid value"},
		"a group that is not a DNS subdomain": {http.MethodPost, migrations,
			migrationNamed("x", `{"resource":{"group":"Demo..example.com","resource":"widgets"}}`),
			"spec.resource.group: Invalid value"},
		"a version with a slash": {http.MethodPost, migrations,
			migrationNamed("x", `{"resource":{"version":"v1/x","resource":"pods"}}`),
			"spec.resource.version: Invalid value"},
		"a group with a digit and a hyphen": {http.MethodPost, migrations,
			migrationNamed("digits", `{"resource":{"group":"0-1.k8s.io","version":"v1beta1","resource":"widgets"}}`),
			""},
		"a group version with an escape sequence": {http.MethodPatch, one,
			`{"spec":{"groupVersions":[{"group":"a\u001b[1m","version":"v1"}]}}`,
			"spec.groupVersions[0].group: Invalid value"},
		"a reason in any language": {http.MethodPatch, one,
			`{"spec":{"reason":"Schlüsselwechsel – 鍵の更新 €"}}`, ""},
		"a reason with an escape sequence": {http.MethodPatch, one,
			`{"spec":{"reason":"\u001b]52;c;cm0gLXJm\u0007"}}`, "spec.reason: Invalid value"},
		"a reason with a C1 control character": {http.MethodPatch, one, `{"spec":{"reason":"a\u009b31m"}}`,
			"spec.reason: Invalid value"},
		"a reason of two lines": {http.MethodPatch, one, `{"spec":{"reason":"a\nb"}}`,
			"spec.reason: Invalid value"},
		"a reason that changes the direction": {http.MethodPatch, one, `{"spec":{"reason":"a\u202eb"}}`,
			"spec.reason: Invalid value"},
		"a continue token of 4 KiB": {http.MethodPatch, one, `{"spec":{"continueToken":"` +
			strings.Repeat("x", 4096) + `"}}`, ""},
		"a continue token of more": {http.MethodPatch, one, `{"spec":{"continueToken":"` +
			strings.Repeat("x", 4097) + `"}}`, "may not be more than 4096"},
		"a continue token with a control character": {http.MethodPatch, one, `{"spec":{"continueToken":"x\u0000"}}`,
			"spec.continueToken: Invalid value"},
		"an unknown phase": {http.MethodPatch, one + "/status",
			`{"status":{"state":"Idle"}}`, "Unsupported value"},
		"a condition that is neither true nor false": {http.MethodPatch, one + "/status",
			`{"status":{"conditions":[{"type":"Running","status":"Perhaps"}]}}`, "Unsupported value"},
		"two conditions of one type": {http.MethodPatch, one + "/status",
			`{"status":{"conditions":[{"type":"Running","status":"True"},{"type":"Running","status":"False"}]}}`,
			"Duplicate value"},
		"a negative count": {http.MethodPatch, one + "/status", `{"status":{"progress":{"total":-1}}}`,
			"should be greater than or equal to 0"},
		"21 failures": {http.MethodPatch, one + "/status", `{"status":{"failures":[` +
			strings.Repeat(`{"name":"a"},`, 20) + `{"name":"a"}]}}`, "must have at most 20 items"},

		"a state of the core group": {http.MethodPost, states,
			stateNamed("secrets", `{"resource":{"resource":"secrets"}}`), ""},
		"a state of the core group, spelt out": {http.MethodPost, states,
			stateNamed("pods", `{"resource":{"group":"","resource":"pods"}}`), ""},
		"a state with another name": {http.MethodPost, states,
			stateNamed("widgets", `{"resource":{"group":"demo.example.com","resource":"widgets"}}`),
			"the name is <resource>.<group>, or <resource> for the core group"},
		"a state of the core group with another name": {http.MethodPost, states,
			stateNamed("nodes.core", `{"resource":{"resource":"nodes"}}`), "the name is <resource>.<group>"},
		"a state of a resource that is a path": {http.MethodPost, states,
			stateNamed("x..y", `{"resource":{"group":".y","resource":"x"}}`), "Invalid value"},
		"a state of nothing": {http.MethodPost, states, stateNamed("x", `{"resource":{}}`),
			"spec.resource.resource: Required value"},
		"a state without a resource": {http.MethodPost, states, stateNamed("x", `{}`),
			"spec.resource: Required value"},
		"a state of another resource": {http.MethodPatch, state,
			`{"spec":{"resource":{"resource":"gadgets"}}}`, "is immutable"},
		"a state of the same resource and other group": {http.MethodPatch, state,
			`{"spec":{"resource":{"group":"example.com"}}}`, "is immutable"},
		"the same hash twice": {http.MethodPatch, state + "/status",
			`{"status":{"persistedStorageVersionHashes":["a","a"]}}`, "Duplicate value"},
	} {
		t.Run(name, func(t *testing.T) { c.try(t, test) })
	}
}

// The cases are those of Kubernetes' validation of internal.apiserver.k8s.io/v1alpha1.
func refusesUntrueStorageVersions(t *testing.T, c *cluster) {
	named := func(name string) string {
		return `{"apiVersion":"migration.k8s.io/v1alpha1","kind":"StorageVersion","metadata":{"name":"` + name +
			`"},"spec":{}}`
	}
	c.must(http.MethodPost, storageVersions, named("demo.example.com.widgets"))
	status := storageVersions + "/demo.example.com.widgets/status"
	published := func(status string) string { return `{"status":{"commonEncodingVersion":null,` + status + `}}` }
	entry := func(id, encoding, decodable string) string {
		return `{"apiServerID":"` + id + `","encodingVersion":"` + encoding +
			`","decodableVersions":[` + decodable + `]}`
	}
	alone := func(entry string) string {
		return `{"status":{"commonEncodingVersion":"v1","storageVersions":[` + entry + `]}}`
	}
	v1, v2 := entry("a", "v1", `"v1"`), entry("b", "v2", `"v1","v2"`)
	many := `"v1"` + strings.Repeat(`,"v1"`, 64)

	for name, test := range map[string]change{
		"a StorageVersion of the core group": {http.MethodPost, storageVersions, named("core.pods"), ""},
		"a StorageVersion without a group": {http.MethodPost, storageVersions, named("pods"),
			"the name is <group>.<resource>"},
		"a resource that begins with a digit": {http.MethodPost, storageVersions, named("example.com.1pods"),
			"the name is <group>.<resource>"},
		"an entry": {http.MethodPatch, status, alone(v1), ""},
		"two entries that agree": {http.MethodPatch, status,
			alone(v1 + "," + entry("b", "v1", `"v1","v2"`)), ""},
		"two entries that differ": {http.MethodPatch, status,
			published(`"storageVersions":[` + v1 + `,` + v2 + `]`), ""},
		"no entries": {http.MethodPatch, status,
			published(`"storageVersions":[]`), ""},
		"an encoding version with a group": {http.MethodPatch, status,
			`{"status":{"commonEncodingVersion":"a.b/v1","storageVersions":[` +
				entry("a", "a.b/v1", `"a.b/v1"`) + `]}}`, ""},
		"an encoding version that is not decodable": {http.MethodPatch, status, alone(entry("a", "v1", `"v2"`)),
			"decodableVersions must include encodingVersion"},
		"nothing decodable": {http.MethodPatch, status, alone(entry("a", "v1", ``)),
			"decodableVersions must include encodingVersion"},
		"no encoding version": {http.MethodPatch, status,
			alone(`{"apiServerID":"a","decodableVersions":["v1"]}`), "encodingVersion: Required value"},
		"an empty encoding version": {http.MethodPatch, status,
			alone(entry("a", "", `""`)), "should match"},
		"an encoding version with two slashes": {http.MethodPatch, status,
			alone(entry("a", "a/b/v1", `"a/b/v1"`)), "should match"},
		"a served version that is not decodable": {http.MethodPatch, status,
			alone(strings.Replace(v1, `}`, `,"servedVersions":["v1","v2"]}`, 1)),
			"decodableVersions must include all servedVersions"},
		"an empty server": {http.MethodPatch, status,
			alone(entry("", "v1", `"v1"`)), "apiServerID"},
		"a server whose name no Lease can have": {http.MethodPatch, status,
			alone(entry("A_1", "v1", `"v1"`)), "should match"},
		"a server that is named twice": {http.MethodPatch, status,
			alone(v1 + "," + v1), "Duplicate value"},
		"65 decodable versions": {http.MethodPatch, status, alone(entry("a", "v1", many)),
			"must have at most 64 items"},
		"a common version while entries differ": {http.MethodPatch, status, alone(v1 + "," + v2),
			"commonEncodingVersion is the encodingVersion of all entries"},
		"a common version that no entry has": {http.MethodPatch, status, alone(entry("a", "v2", `"v2"`)),
			"commonEncodingVersion is the encodingVersion of all entries"},
		"a common version without entries": {http.MethodPatch, status,
			`{"status":{"commonEncodingVersion":"v1","storageVersions":[]}}`, "commonEncodingVersion is"},
		"no common version while all entries agree": {http.MethodPatch, status,
			published(`"storageVersions":[` + v1 + `]`), "commonEncodingVersion is"},
		"an encoding version that is longer than any": {http.MethodPatch, status,
			alone(entry("a", strings.Repeat("v", 318), `"v1"`)), "Too long"},
	} {
		t.Run(name, func(t *testing.T) { c.try(t, test) })
	}
}

func newMigrationHasDefaults(t *testing.T, c *cluster) {
	// Who creates an object cannot set its status.
	body := strings.Replace(migrationNamed("fresh", `{"resource":{"resource":"secrets"}}`), `"spec"`,
		`"status":{"state":"Succeeded","completedGeneration":1},"spec"`, 1)
	for _, answer := range []string{c.must(http.MethodPost, migrations, body),
		c.must(http.MethodGet, migrations+"/fresh", "")} {
		var m v1alpha1.StorageVersionMigration
		if err := json.Unmarshal([]byte(answer), &m); err != nil {
			t.Fatal(err)
		}
		want := v1alpha1.StorageVersionMigrationSpec{Resource: v1alpha1.GroupVersionResource{Resource: "secrets"},
			Generation: 1, State: v1alpha1.StateActive, Priority: v1alpha1.DefaultPriority}
		if diff := compare.Diff(want, m.Spec); diff != "" {
			t.Errorf("spec (-want +got):\n%s", diff)
		}
		status := v1alpha1.StorageVersionMigrationStatus{
			State: v1alpha1.PhasePending,
			Conditions: []v1alpha1.Condition{{
				Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPending,
				Message: "Waiting for the controller",
			}},
		}
		if diff := compare.Diff(status, m.Status); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
	}
}

func raisedGenerationIsTaken(t *testing.T, c *cluster) {
	c.must(http.MethodPost, migrations, migrationNamed("raised", `{"resource":{"resource":"secrets"}}`))
	c.must(http.MethodPatch, migrations+"/raised", `{"spec":{"generation":2,"state":"Paused"}}`)
	answer := c.must(http.MethodPatch, migrations+"/raised", `{"spec":{"state":"Active"}}`)
	var m v1alpha1.StorageVersionMigration
	if err := json.Unmarshal([]byte(answer), &m); err != nil {
		t.Fatal(err)
	}
	if m.Spec.Generation != 2 || m.Generation != 3 {
		t.Errorf("spec.generation %d, metadata.generation %d, want 2, 3", m.Spec.Generation, m.Generation)
	}
}

// patterns are the rules that came after the first release, as the YAML of the CRDs has them.
var (
	patterns    = regexp.MustCompile(`(?m)^ +pattern: .*\n`)
	tokenLength = "maxLength: 4096\n"
)

// before returns the CRDs as they were before spec had patterns.
func before(t *testing.T) fs.FS {
	t.Helper()
	older := fstest.MapFS{}
	names, err := fs.Glob(config.CRDs, "crd/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	removed := 0
	for _, name := range names {
		raw, err := config.CRDs.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		removed += len(patterns.FindAll(raw, -1)) + strings.Count(string(raw), tokenLength)
		text := strings.ReplaceAll(string(patterns.ReplaceAll(raw, nil)), tokenLength, "maxLength: 65536\n")
		older[name] = &fstest.MapFile{Data: []byte(text)}
	}
	if removed != 15 {
		t.Fatalf("found %d rules to remove, want 15", removed)
	}
	return older
}

// An object that was valid when it was created stays usable (CRD validation ratcheting): its state can be changed and
// its status written, as long as the invalid fields stay as they are.
func olderObjectsStayValid(t *testing.T, c *cluster) {
	replaceCRDs(t, c, before(t))
	long := strings.Repeat("x", 5000)
	spec := `{"resource":{"group":"Demo_1","version":"V1","resource":"Widgets"},"reason":"a\nb","continueToken":"` +
		long + `","groupVersions":[{"group":"A_b","version":"V1"}]}`
	eventually(t, func() bool { // the API server takes a moment to serve the changed CRD
		status, _ := c.do(http.MethodPost, migrations, migrationNamed("older", spec))
		return status == http.StatusCreated
	})
	replaceCRDs(t, c, config.CRDs)
	eventually(t, func() bool {
		status, _ := c.do(http.MethodPost, migrations+"?dryRun=All", migrationNamed("newer", spec))
		return status == http.StatusUnprocessableEntity
	})
	older := migrations + "/older"
	c.must(http.MethodPatch, older, `{"spec":{"state":"Paused","generation":2}}`)
	c.must(http.MethodPatch, older+"/status", `{"status":{"state":"Paused","run":{"generation":2}}}`)
	c.must(http.MethodPatch, older, `{"spec":{"reason":"shorter","continueToken":""}}`)
	c.try(t, change{http.MethodPatch, older, `{"spec":{"reason":"a\nb"}}`, "spec.reason: Invalid value"})
	c.must(http.MethodDelete, older, "")
}

// replaceCRDs gives the CRDs that are there other versions, with their schemas.
func replaceCRDs(t *testing.T, c *cluster, files fs.FS) {
	t.Helper()
	names, err := fs.Glob(files, "crd/*.yaml")
	if err != nil || len(names) != 3 {
		t.Fatalf("%d CRDs (%v), want 3", len(names), err)
	}
	for _, name := range names {
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
			Spec     struct {
				Versions json.RawMessage `json:"versions"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal(raw, &crd); err != nil {
			t.Fatal(err)
		}
		c.must(http.MethodPatch, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+crd.Metadata.Name,
			`{"spec":{"versions":`+string(crd.Spec.Versions)+`}}`)
	}
}

// eventually polls until a condition holds.
func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within a minute")
		}
	}
}
