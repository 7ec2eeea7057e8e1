// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiyaml "sigs.k8s.io/yaml"
)

// gadget is a CRD that encoders write in different ways: it has empty objects and lists, characters that some of them
// escape, and a number that a program would write as another.
const gadget = `{
  "apiVersion": "apiextensions.k8s.io/v1",
  "kind": "CustomResourceDefinition",
  "metadata": {
    "annotations": {},
    "name": "gadgets.example.com"
  },
  "spec": {
    "group": "example.com",
    "names": {
      "categories": [],
      "kind": "Gadget",
      "plural": "gadgets",
      "shortNames": [
        "ga",
        "gad"
      ]
    },
    "scope": "Namespaced",
    "versions": [
      {
        "name": "v1",
        "schema": {
          "openAPIV3Schema": {
            "description": "a <b> & \"c\", größer",
            "properties": {
              "size": {
                "maximum": 1e3,
                "type": "number"
              }
            },
            "required": [
              "size"
            ],
            "type": "object"
          }
        },
        "served": true,
        "storage": true,
        "subresources": {
          "status": {}
        }
      }
    ]
  }
}
`

// withV2 is a manifest of gadget with a second version, which is stored.
func withV2(manifest string) string {
	from, to := strings.Index(manifest, "      {\n        \"name\": \"v1\""), strings.LastIndex(manifest, "\n    ]\n")
	version := manifest[from:to]
	return strings.Replace(manifest, version, strings.Replace(version, `"v1"`, `"v2"`, 1)+",\n"+
		strings.Replace(version, `"storage": true`, `"storage": false`, 1), 1)
}

func TestJSONKeepsEveryByteThatDoesNotChange(t *testing.T) {
	t.Parallel()
	oneLine := func(text string) string {
		var out bytes.Buffer
		if err := json.Compact(&out, []byte(text)); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	for name, written := range map[string]func(text string) string{
		"jq":                       func(text string) string { return text },
		"four spaces":              func(text string) string { return indentedBy(t, text, "    ") },
		"tabs":                     func(text string) string { return indentedBy(t, text, "\t") },
		"without a last line":      func(text string) string { return strings.TrimSuffix(text, "\n") },
		"on one line":              oneLine,
		"on one line, by hand":     func(text string) string { return strings.ReplaceAll(oneLine(text), `":`, `": `) + "\n" },
		"CRLF line endings":        func(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") },
		"Go, escaping for HTML":    strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`).Replace,
		"Python":                   strings.NewReplacer("ö", `\u00f6`, "ß", `\u00df`).Replace,
		"short lists on one line":  func(text string) string { return withShortLists(text, ", ", 9) },
		"lists of one on one line": func(text string) string { return withShortLists(text, ",", 1) },
		"what fits on one line": func(text string) string {
			long := `"` + strings.Repeat("g", 63) + `"`
			text = strings.ReplaceAll(text, "\"size\"\n            ]", "\"size\",\n              \"name\"\n            ]")
			return strings.Replace(withShortLists(text, ", ", 9), `["ga", "gad"]`, "[\n        "+long+",\n        \"gad\"\n      ]", 1)
		},
		"jsonnet": func(text string) string {
			return strings.NewReplacer("{}", "{ }", "[]", "[ ]").Replace(indentedBy(t, text, "   "))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upgraded, err := Upgrade(t.Context(), "gadget.json", written(gadget), Options{AddVersion: "v2"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(written(withV2(gadget)), upgraded.Text); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if upgraded.Alone || Canonical.Name("gadget.json", upgraded) != "gadget.json" {
				t.Error("the file would be called as one of YAML")
			}
			again, err := Upgrade(t.Context(), "gadget.json", upgraded.Text, Options{AddVersion: "v2"})
			if err != nil || again.Text != upgraded.Text {
				t.Errorf("the second upgrade changes it (%v):\n%s", err, cmp.Diff(upgraded.Text, again.Text))
			}
		})
	}
}

// withShortLists writes lists of strings, of so many elements at most, on one line.
func withShortLists(text, comma string, most int) string {
	return regexp.MustCompile(`\[\n\s+"[^"\n]*"(?:,\n\s+"[^"\n]*")*\n\s+\]`).ReplaceAllStringFunc(text, func(list string) string {
		elements := strings.Fields(strings.NewReplacer("[", "", "]", "", ",", "").Replace(list))
		if len(elements) > most {
			return list
		}
		return "[" + strings.Join(elements, comma) + "]"
	})
}

func indentedBy(t *testing.T, text, indent string) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(text), "", indent); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestJSONSaysAfterAnUpgradeWhatYAMLSays(t *testing.T) {
	t.Parallel()
	for name, text := range manifests(t, "upgrade/*.yaml") {
		if strings.Contains(text, "\n---") {
			continue
		}
		raw, err := apiyaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		want, err := Upgrade(t.Context(), name, text, Options{AddVersion: "v9"})
		if err != nil {
			continue
		}
		got, err := Upgrade(t.Context(), name, indentedBy(t, string(raw), "  "), Options{AddVersion: "v9"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var inYAML, inJSON any
		if err := errors.Join(apiyaml.Unmarshal([]byte(want.Text), &inYAML),
			json.Unmarshal([]byte(got.Text), &inJSON)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(inYAML, inJSON); diff != "" {
			t.Errorf("%s (-YAML +JSON):\n%s", name, diff)
		}
	}
}

func TestJSONWhoseLayoutCannotBeKeptIsRefused(t *testing.T) {
	t.Parallel()
	text := strings.Replace(gadget, "{\n      \"categories\"", "{ \"categories\"", 1)
	_, err := Upgrade(t.Context(), "gadget.json", text, Options{AddVersion: "v2"})
	if unfit := (*UnfitError)(nil); !errors.As(err, &unfit) || !strings.Contains(err.Error(), "a layout that cannot be "+
		"kept") || unfit.Try("gadget.json") != "jq . gadget.json" {
		t.Errorf("the error is %v", err)
	}
	if upgraded, err := Upgrade(t.Context(), "gadget.json", text, Options{}); err != nil || upgraded.Text != text {
		t.Errorf("nothing is to be done, and still: %v", err)
	}
}

// list has two CRDs, and other objects around them.
const list = `apiVersion: v1
kind: List
# what is applied
items:
- apiVersion: v1
  kind:   ConfigMap # stays
- apiVersion: apiextensions.k8s.io/v1 # one
  kind: CustomResourceDefinition
  metadata:
    name: as.example.com

  spec:
    group: example.com
    names: # of it
      kind: A
      plural: as
    scope: Cluster
    versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          description: |
            A text

              with an indentation.
# the other
- apiVersion: apiextensions.k8s.io/v1
  kind: CustomResourceDefinition
  metadata: {name: bs.example.com}
  spec:
    group: example.com
    names: {kind: B, plural: bs}
    scope: Cluster
    versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema: {type: object}
-   apiVersion: v1
    kind: Secret
metadata:
  resourceVersion: ""
`

func TestTheCRDsOfAListAreUpgradedWhereTheyStand(t *testing.T) {
	t.Parallel()
	const stored, name = "storage: true", "    - name: v1\n"
	versionA := list[strings.Index(list, name):strings.Index(list, "# the other")]
	before, after, _ := strings.Cut(list, "# the other")
	want := strings.Replace(before, versionA, strings.Replace(versionA, "v1", "v2", 1)+
		strings.Replace(versionA, stored, "storage: false", 1), 1) + "# the other" + after
	for _, end := range []string{"\n", "\r\n"} {
		upgraded, err := Upgrade(t.Context(), "all.yaml", strings.ReplaceAll(list, "\n", end), Options{AddVersion: "v2",
			Only: func(_, kind string) bool { return kind == "A" }})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.ReplaceAll(want, "\n", end), upgraded.Text); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if upgraded.Alone || len(upgraded.CRDs) != 1 {
			t.Errorf("alone %v with %d CRDs, want not alone, and one", upgraded.Alone, len(upgraded.CRDs))
		}
	}
	both, err := Upgrade(t.Context(), "all.yaml", list, Options{AddVersion: "v2"})
	if err != nil || len(both.CRDs) != 2 || both.CRDs[0].Kind() != "A" || strings.Count(both.Text, "name: v2\n") != 2 {
		t.Errorf("both: %v\n%s", err, both.Text)
	}
	texts, err := CRDs("all.yaml", both.Text)
	if err != nil || len(texts) != 2 {
		t.Fatalf("%d CRDs in the list, %v", len(texts), err)
	}
	if parsed, err := Parse("b", []byte(texts[1])); err != nil || parsed.Kind() != "B" {
		t.Errorf("the second is %v, %v", parsed, err)
	}
	next, err := Succeed(t.Context(), "all.yaml", list, Succession{Group: "example.com", Kind: "A", Version: "v1",
		To: Names{Group: "other.example.com", Kind: "A", List: "AList", Plural: "as", Singular: "a"}, ToVersion: "v1"})
	if err != nil || !strings.HasPrefix(next.Text, "apiVersion: apiextensions.k8s.io/v1 # one\nkind: Custom") ||
		!strings.Contains(next.Text, "name: as.other.example.com\n") {
		t.Errorf("its successor: %v\n%+v", err, next)
	}
}

func TestACRDInAListInJSONIsUpgraded(t *testing.T) {
	t.Parallel()
	const head, tail = `{"apiVersion":"v1","items":[{"apiVersion":"v1","kind":"Pod"},`, `],"kind":"List"}`
	text, want := indentedBy(t, head+gadget+tail, "  "), indentedBy(t, head+withV2(gadget)+tail, "  ")
	upgraded, err := Upgrade(t.Context(), "all.json", text, Options{AddVersion: "v2"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, upgraded.Text); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// chart is what charts and kubebuilder's patches have: YAML, in which Helm fills in strings.
const chart = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  annotations:
    cert-manager.io/inject-ca-from: '{{ .Release.Namespace }}/{{ include "chart.fullname" . }}-cert'
  labels:
    app.kubernetes.io/instance: '{{ .Release.Name }}'
    helm.sh/chart: "{{ .Chart.Name }}-{{ .Chart.Version | replace \"+\" \"_\" }}"
    '{{ .Values.first }}': a
    '{{ .Values.second }}': b
  name: gadgets.example.com
spec:
  conversion:
    strategy: Webhook
    webhook:
      clientConfig:
        caBundle: '{{ .Values.caBundle | b64enc }}'
        service:
          name: '{{ include "chart.fullname" . }}-webhook'
          namespace: '{{ .Release.Namespace }}'
          path: '{{ .Values.path }}'
      conversionReviewVersions:
      - v1
  group: example.com
  names:
    kind: Gadget
    plural: gadgets
  scope: Namespaced
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        description: a template such as {{ .name }}
        type: object
    served: true
    storage: true
`

func TestPlaceholdersInStringsAreData(t *testing.T) {
	t.Parallel()
	version := chart[strings.Index(chart, "  - name: v1\n"):]
	want := strings.Replace(chart, version, strings.Replace(version, "v1", "v2", 1)+
		strings.Replace(version, "storage: true", "storage: false", 1), 1)
	upgraded, err := Upgrade(t.Context(), "crd.yaml", chart, Options{AddVersion: "v2"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, upgraded.Text); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	service := chart[strings.Index(chart, "        service:\n"):strings.Index(chart, "      conversionReviewVersions")]
	for _, url := range []string{"{{ .Values.url }}", "https://{{ .Values.host }}/convert"} {
		if _, err := Upgrade(t.Context(), "crd.yaml", strings.Replace(chart, service, "        url: '"+url+"'\n", 1),
			Options{AddVersion: "v2"}); err != nil {
			t.Errorf("the URL %s: %v", url, err)
		}
	}
	for name, test := range map[string]struct{ old, replacement, want string }{
		"a name":  {"group: example.com", "group: '{{ .Values.group }}'", "spec.group"},
		"a label": {"helm.sh/chart: \"{{", "helm.sh/chart: \"no label {{", "metadata.labels"},
		"a schema": {"description: a template such as {{ .name }}\n        type: object",
			"type: '{{ .Values.type }}'", "openAPIV3Schema"},
	} {
		_, err := Upgrade(t.Context(), "crd.yaml", strings.Replace(chart, test.old, test.replacement, 1), Options{})
		refused := (*RefusedError)(nil)
		if !errors.As(err, &refused) || !strings.Contains(strings.Join(refused.Problems, "\n"), test.want) {
			t.Errorf("%s: %v, want a refusal that names %s", name, err, test.want)
		}
	}
}
