// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package stages

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/internal/golden"
)

// manifest is one of things.example.com with versions, each "name served storage" and a field of its own or none.
func manifest(conversion string, versions ...string) string {
	var out strings.Builder
	out.WriteString("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: " +
		"things.example.com\nspec:\n  group: example.com\n" +
		"  names:\n    kind: Thing\n    plural: things\n  scope: Cluster\n" + conversion + "  versions:\n")
	for _, version := range versions {
		words := strings.Fields(version)
		fmt.Fprintf(&out, "  - name: %s\n    served: %v\n    storage: %v\n    schema:\n      openAPIV3Schema:\n      "+
			"  type: object\n        properties:\n          a:\n            type: string\n",
			words[0], slices.Contains(words, "served"), slices.Contains(words, "storage"))
		if field, ok := strings.CutPrefix(words[len(words)-1], "+"); ok {
			fmt.Fprintf(&out, "          %s:\n            type: string\n", field)
		}
	}
	return out.String()
}

// states are the versions of each stage's manifest as "name served storage", by its letter.
func states(t *testing.T, plan *Plan) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, stage := range plan.Stages {
		if stage.Manifest == "" {
			continue
		}
		var words []string
		for line := range strings.Lines(stage.Manifest) {
			switch line = strings.TrimSpace(line); {
			case strings.HasPrefix(line, "- name: "):
				words = append(words, strings.TrimPrefix(line, "- name: "))
			case line == "served: true" || line == "storage: true":
				words[len(words)-1] += " " + strings.TrimSuffix(line, ": true")
			}
		}
		found[stage.Letter] = strings.Join(words, ", ")
	}
	return found
}

func TestStagesBeginWhereACRDIs(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		crd    string
		single bool
		want   map[string]string
	}{
		"with the old version alone": {crd: manifest("", "v1 served storage"), want: map[string]string{
			"A": "v2 served, v1 served storage", "B": "v2 served storage, v1 served", "E": "v2 served storage, v1",
			"F": "v2 served storage",
		}},
		"as apply leaves it": {crd: manifest("", "v2 served storage", "v1 served"), want: map[string]string{
			"A": "v2 served, v1 served storage", "B": "v2 served storage, v1 served", "E": "v2 served storage, v1",
			"F": "v2 served storage",
		}},
		"with the new version not served": {crd: manifest("", "v2", "v1 served storage"),
			want: map[string]string{
				"A": "v2 served, v1 served storage", "B": "v2 served storage, v1 served", "E": "v2 served storage, v1",
				"F": "v2 served storage",
			}},
		"with the new version not served, in a single release": {crd: manifest("", "v1 served storage", "v2"),
			single: true, want: map[string]string{
				"B": "v1 served, v2 served storage", "E": "v1, v2 served storage", "F": "v2 served storage",
			}},
		"with a third version that is stored": {crd: manifest("", "v1 served", "v1alpha1 served storage"),
			want: map[string]string{
				"A": "v2 served, v1 served, v1alpha1 served storage",
				"B": "v2 served storage, v1 served, v1alpha1 served",
				"E": "v2 served storage, v1, v1alpha1 served", "F": "v2 served storage, v1alpha1 served",
			}},
		"in a single release": {crd: manifest("", "v1 served storage"), single: true, want: map[string]string{
			"B": "v2 served storage, v1 served", "E": "v2 served storage, v1", "F": "v2 served storage",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan, err := Make(t.Context(), Change{File: "a.yaml", CRD: test.crd, From: "v1", To: "v2",
				SingleRelease: test.single})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, states(t, plan)); diff != "" {
				t.Errorf("versions (-want +got):\n%s", diff)
			}
			if warned := slices.ContainsFunc(plan.Warnings, func(w string) bool {
				return strings.HasPrefix(w,
					"in a single release no one can go back")
			}); warned != test.single {
				t.Errorf("warnings %q", plan.Warnings)
			}
		})
	}
}

func TestAPlanWarnsOfConversionsAndOfWhatTheUpgradeChanges(t *testing.T) {
	t.Parallel()
	const webhook = "  conversion:\n    strategy: Webhook\n    webhook:\n      conversionReviewVersions: [v1]\n      " +
		"clientConfig: {url: \"https://example.com/convert\"}\n"
	beta := strings.Replace(strings.Replace(manifest("", "v1 served storage"), "k8s.io/v1\n", "k8s.io/v1beta1\n", 1),
		"  scope", "  preserveUnknownFields: true\n  scope", 1)
	for want, text := range map[string]string{
		"a webhook converts between the versions: it must know v2 before stage A": manifest(webhook,
			"v1 served storage"),
		"conversion strategy None loses data: b": manifest("", "v2 served +b",
			"v1 served storage"),
		"fields that the schema does not name are kept as before": beta,
	} {
		plan, err := Make(t.Context(), Change{File: "a.yaml", CRD: text, From: "v1", To: "v2"})
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Warnings) != 1 || !strings.HasPrefix(plan.Warnings[0], want) {
			t.Errorf("warnings %q, want one that begins with %q", plan.Warnings, want)
		}
	}
}

func TestWhatCannotBeMeantIsRefused(t *testing.T) {
	t.Parallel()
	alone := manifest("", "v1 served storage")
	held := strings.Replace(alone, "metadata:\n", "metadata:\n  resourceVersion: \"7\"\n", 1)
	for name, test := range map[string]struct{ crd, from, to, want, try string }{
		"a version that is not there": {alone, "v7", "v2", "has no version v7; it has v1",
			"api-migrator stages --from v1 --to v2 a.yaml"},
		"the same version": {alone, "v1", "v1", "which is the same",
			"api-migrator stages --from v1 --to v2 a.yaml"},
		"no version": {alone, "v1", "two", `"two" is no version`,
			"api-migrator stages --from v1 --to v2 a.yaml"},
		"no version next to another": {manifest("", "v1beta1 served", "v1 served storage"), "v1beta1", "two",
			`"two" is no version`, "api-migrator stages --from v1beta1 --to v1 a.yaml"},
		"as a cluster has it": {held, "v1", "v2", "it is the object of a cluster",
			"yq 'del(.status, .metadata.resourceVersion, .metadata.uid, .metadata.creationTimestamp, " +
				".metadata.generation, .metadata.managedFields)' a.yaml"},
		"as another cluster had it": {strings.Replace(held, "resourceVersion", "uid", 1), "v1", "v2",
			"it is the object of a cluster", ""},
	} {
		_, err := Make(t.Context(), Change{File: "a.yaml", CRD: test.crd, From: test.from, To: test.to})
		problem := (*hint.Error)(nil)
		if !errors.As(err, &problem) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want an error for the user with %q", name, err, test.want)
		} else if test.try != "" && problem.Try != test.try {
			t.Errorf("%s: try %q, want %q", name, problem.Try, test.try)
		}
	}
	broken := strings.Replace(manifest("", "v1 served storage"), "plural: things", "plural: others", 1)
	_, err := Make(t.Context(), Change{File: "a.yaml", CRD: broken, From: "v1", To: "v2"})
	if refused := (*crd.RefusedError)(nil); !errors.As(err, &refused) ||
		!strings.HasPrefix(err.Error(), "plan stage A of things.example.com: ") {
		t.Errorf("a CRD that no API server takes: %v", err)
	}
}

func TestTheStagesOfTheGuidesCRD(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../testdata/guide/deploy/crds/operators_v1_catalogsourceconfig_crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := Make(t.Context(), Change{File: "guide.yaml", CRD: string(text), From: "v1", To: "v2"})
	if err != nil {
		t.Fatal(err)
	}
	files := plan.Files()
	if got, want := strings.Join(slices.Sorted(maps.Keys(files)), " "),
		"README.md a-add.yaml a-gate.sh b-gate.sh b-store.yaml c-gate.sh d-gate.sh e-gate.sh e-unserve.yaml "+
			"f-gate.sh f-remove.yaml"; got != want {
		t.Errorf("files %s, want %s", got, want)
	}
	for name, content := range files {
		if strings.HasSuffix(name, ".yaml") && !strings.HasPrefix(content, project.StageMark) {
			t.Errorf("%s would be taken for a manifest of the project:\n%s", name, content)
		}
	}
	if last := files["f-gate.sh"]; !strings.Contains(last, "# Exits with 0 once v1 is gone.\n") {
		t.Errorf("no stage comes after F, and its gate says\n%s", last)
	}
	golden.Compare(t, "../testdata/golden/guide-stages.md", plan.Text())
}
