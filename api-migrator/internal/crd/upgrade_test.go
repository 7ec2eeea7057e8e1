// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/golden"
)

// manifests are the files of a folder of testdata, by their names without extension.
func manifests(t *testing.T, pattern string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("find %s: %d files, %v", pattern, len(files), err)
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))] = string(text)
	}
	return all
}

func TestUpgradeWritesWhatTheGoldenFilesSay(t *testing.T) {
	for name, text := range manifests(t, "upgrade/*.yaml") {
		t.Run(name, func(t *testing.T) {
			upgraded, err := Upgrade(t.Context(), name+".yaml", text, Options{})
			var got strings.Builder
			if err != nil {
				fmt.Fprintf(&got, "# error: %v\n", err)
			}
			if upgraded != nil {
				for _, note := range upgraded.Notes {
					fmt.Fprintf(&got, "# note: %s\n", note)
				}
				got.WriteString(upgraded.Text)
			}
			golden.Compare(t, filepath.Join("testdata", "upgrade", name+".golden"), got.String())
		})
	}
}

func TestUpgradingWhatWasUpgradedChangesNothing(t *testing.T) {
	for name, text := range manifests(t, "upgrade/*.yaml") {
		for _, options := range []Options{{}, {AddVersion: "v9"}, {AddVersion: "v9", KeepStorage: true}} {
			t.Run(fmt.Sprintf("%s, %+v", name, options), func(t *testing.T) {
				once, err := Upgrade(t.Context(), name, text, options)
				if rejected := (*RefusedError)(nil); errors.As(err, &rejected) {
					return // nothing is written
				}
				if err != nil {
					t.Fatal(err)
				}
				twice, err := Upgrade(t.Context(), name, once.Text, options)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(once.Text, twice.Text); diff != "" {
					t.Errorf("the second upgrade changes (-first +second):\n%s", diff)
				}
				if len(twice.Notes) > 0 {
					t.Errorf("the second upgrade notes %q", twice.Notes)
				}
			})
		}
	}
}

func TestUpgradeKeepsEveryComment(t *testing.T) {
	for name, text := range manifests(t, "upgrade/*.yaml") {
		t.Run(name, func(t *testing.T) {
			upgraded, err := Upgrade(t.Context(), name, text, Options{})
			if upgraded == nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(text) {
				i := strings.Index(line, "#")
				if i < 0 {
					continue
				}
				if comment := strings.TrimSpace(line[i:]); !strings.Contains(upgraded.Text, comment) {
					t.Errorf("the comment %q is lost", comment)
				}
			}
		})
	}
}

func TestUpgradeKeepsTheLineEndsOfWindows(t *testing.T) {
	text := manifests(t, "upgrade/guide.yaml")["guide"]
	want, err := Upgrade(t.Context(), "guide", text, Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Upgrade(t.Context(), "guide", strings.ReplaceAll(text, "\n", "\r\n"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.ReplaceAll(want.Text, "\n", "\r\n"), got.Text); diff != "" {
		t.Errorf("with \\r\\n (-want +got):\n%s", diff)
	}
}

func TestAddedVersionIsACopyOfTheStoredOneInFrontOfAll(t *testing.T) {
	text := manifests(t, "upgrade/several-documents.yaml")["several-documents"]
	for name, options := range map[string]Options{
		"add-version-stored":     {AddVersion: "v2"},
		"add-version-not-stored": {AddVersion: "v2", KeepStorage: true},
	} {
		t.Run(name, func(t *testing.T) {
			upgraded, err := Upgrade(t.Context(), "several-documents.yaml", text, options)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, filepath.Join("testdata", "upgrade", name+".golden"), upgraded.Text)
		})
	}
}

func TestFlagsAreReadAsTheAPIServerReadsThem(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: " +
		"as.example.com\nspec:\n  group: example.com\n" +
		"  names:\n    kind: A\n    plural: as\n  scope: Cluster\n  preserveUnknownFields: False\n  versions:\n"
	version := func(name, served, storage string) string {
		return "  - name: " + name + "\n    served: " + served + "\n    storage: " + storage +
			"\n    schema:\n      openAPIV3Schema:\n        type: object\n"
	}
	for _, test := range []struct {
		text    string
		options Options
		want    string
	}{
		{version("v1", "yes", "True"), Options{}, version("v1", "yes", "True")},
		{version("v1", "yes", "True"), Options{AddVersion: "v2"}, version("v2", "true", "true") +
			version("v1", "yes", "false")},
		{version("v2", "yes", "no") + version("v1", "On", "TRUE"), Options{Storage: "v2"},
			version("v2", "yes", "true") + version("v1", "On", "false")},
		{version("v2", "y", "yes") + version("v1", "On", "off"), Options{Unserve: "v1"}, version("v2", "y", "yes") +
			version("v1", "false", "off")},
	} {
		upgraded, err := Upgrade(t.Context(), "a", head+test.text, test.options)
		if err != nil {
			t.Errorf("%+v: %v", test.options, err)
			continue
		}
		if diff := cmp.Diff(head+test.want, upgraded.Text); diff != "" || len(upgraded.Notes) > 0 {
			t.Errorf("%+v, notes %q (-want +got):\n%s", test.options, upgraded.Notes, diff)
		}
	}
	pruned := strings.Replace(head, "k8s.io/v1\n", "k8s.io/v1beta1\n", 1) +
		"  - name: v1\n    served: true\n    storage: true\n"
	upgraded, err := Upgrade(t.Context(), "a", pruned, Options{})
	if refused := (*RefusedError)(nil); !errors.As(err, &refused) || len(upgraded.Notes) > 0 {
		t.Errorf("no schema, and nothing kept that it does not name: %v; want a refusal, and no schema that keeps "+
			"everything", err)
	}
	aliased := head + "  - name: v2\n    served: &yes true\n    storage: false\n    schema: &any\n      " +
		"openAPIV3Schema:\n        type: object\n" +
		"  - name: v1\n    served: true\n    storage: *yes\n    schema: *any\n"
	if _, err := Upgrade(t.Context(), "a", aliased, Options{Storage: "v2"}); err == nil ||
		!strings.Contains(err.Error(), "an alias (*)") {
		t.Errorf("a flag that is an alias: %v, want a refusal, since nothing was done before without a word", err)
	}
}

func TestUpgradeRefusesWhatItCannotTake(t *testing.T) {
	const head = "apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\nmetadata: {name: " +
		"a.example.com}\n"
	for name, test := range map[string]struct {
		text    string
		options Options
		want    string
	}{
		"a file without CRDs": {text: "kind: ConfigMap\napiVersion: v1\n",
			want: "upgrade f.yaml: it has no CustomResourceDefinition"},
		"no YAML":              {text: head + "\t", want: "read f.yaml: yaml: "},
		"a CRD without a spec": {text: head, want: "upgrade f.yaml: it has no spec"},
		"a version that is not the first": {
			text: head + "spec:\n  version: v1\n  versions:\n  - name: v2\n    served: true\n    storage: true\n",
			want: "upgrade f.yaml: spec.version is v1, and the first of spec.versions is v2",
		},
		"a version that exists with another schema": {
			text:    manifests(t, "upgrade/webhook-preserving.yaml")["webhook-preserving"],
			options: Options{AddVersion: "v2"},
			want:    "upgrade f.yaml: version v2 exists already, with a schema that no other version has",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Upgrade(t.Context(), "f.yaml", test.text, test.options)
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("Upgrade: %v, want %s", err, test.want)
			}
		})
	}
}

// two has two CRDs and something else, and lines that no parser would write.
const two = `# The first.
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: as.example.com}
spec:
  group: example.com
  names: {kind: A, plural: as}
  scope: Cluster
  versions:
  - {name: v1, served: true, storage: true,   schema: {openAPIV3Schema: {type: object}}}
---
# Something else.
kind:    ConfigMap
spec: "no mapping"
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: bs.example.com
spec:
  group: example.com
  names:
    kind: B
    plural: bs
  scope: Cluster
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        description: alpha
  - name: v1
    served: true
    storage: false
    schema:
      openAPIV3Schema:
        type: object
        description: one
`

func TestOnlyTheChosenCRDIsTouched(t *testing.T) {
	options := Options{AddVersion: "v2", CopyOf: "v1",
		Only: func(group, kind string) bool { return group == "example.com" && kind == "B" }}
	for _, end := range []string{"\n", "\r\n"} {
		file := strings.ReplaceAll(two, "\n", end)
		upgraded, err := Upgrade(t.Context(), "two", file, options)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.NewReplacer("  versions:\n  - name: v1alpha1\n    served: true\n    storage: true", `  versions:
  - name: v2
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        description: one
  - name: v1alpha1
    served: true
    storage: false`).Replace(two)
		if diff := cmp.Diff(strings.ReplaceAll(want, "\n", end), upgraded.Text); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if upgraded.Alone || len(upgraded.CRDs) != 1 {
			t.Errorf("alone %v with %d CRDs, want not alone, and one", upgraded.Alone, len(upgraded.CRDs))
		}
	}
	options.CopyOf = "v7"
	if _, err := Upgrade(t.Context(), "two", two, options); err == nil ||
		!strings.Contains(err.Error(), "it has no version v7") {
		t.Errorf("a copy of a version that is not there: %v", err)
	}
}

func TestAVersionIsStoredUnservedAndRemoved(t *testing.T) {
	const list = `# About all.
  # About the one.
  - name: v2
    served: true # now
    storage: false
    schema: &any
      openAPIV3Schema: {type: object}
  # About the other.
  - name: v1
    served: true # still
    storage: true
    schema:
      openAPIV3Schema: {type: object}
`
	const head = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: " +
		"as.example.com\nspec:\n  group: example.com\n" +
		"  names:\n    kind: A\n    plural: as\n  scope: Cluster\n  versions: "
	stored := strings.NewReplacer("now\n    storage: false", "now\n    storage: true", "still\n    storage: true",
		"still\n    storage: false").Replace(list)
	_, tail, _ := strings.Cut(stored, "  # About the other.\n")
	for _, test := range []struct {
		options Options
		want    string
	}{
		{Options{Storage: "v2"}, stored},
		{Options{Storage: "v2", Unserve: "v1"}, strings.Replace(stored, "served: true # still",
			"served: false # still", 1)},
		{Options{Storage: "v2", Remove: "v1"}, strings.Replace(stored, "  # About the other.\n"+tail, "", 1)},
		{Options{Remove: "v7"}, list},
	} {
		upgraded, err := Upgrade(t.Context(), "a", head+list, test.options)
		if err != nil {
			t.Fatalf("%+v: %v", test.options, err)
		}
		if diff := cmp.Diff(head+test.want, upgraded.Text); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", test.options, diff)
		}
	}
	for _, options := range []Options{{Storage: "v7"}, {Serve: "v7"}, {Unserve: "v7"}} {
		if _, err := Upgrade(t.Context(), "a", head+list, options); err == nil ||
			!strings.Contains(err.Error(), "it has no version v7") {
			t.Errorf("%+v: %v", options, err)
		}
	}
}
