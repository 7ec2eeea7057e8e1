// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/typed"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

const (
	projectFile   = "PROJECT"
	oldProgram    = "main.go"
	newProgram    = "cmd/main.go"
	crdList       = "config/crd/kustomization.yaml"
	defaultList   = "config/default/kustomization.yaml"
	webhookPatch  = "config/crd/patches/webhook_in_widgets.yaml"
	nextToTypes   = "api/v2/widget_webhook.go"
	ofItsOwn      = "internal/webhook/v2/widget_webhook.go"
	injectedPatch = "config/crd/patches/cainjection_in_widgets.yaml"
)

// scaffoldedBy is the project "conversion" as a release of kubebuilder has scaffolded it.
func scaffoldedBy(t *testing.T, layout string) string {
	t.Helper()
	dir := fixture.Copy(t, "conversion")
	for _, archive := range []string{"runtime", layout} {
		fixture.Write(t, dir, fixture.Archive(t, "../convert/testdata/wiring/"+archive+".txtar"))
	}
	return dir
}

// replace changes parts of a file, each of which is there.
func replace(t *testing.T, dir, name string, oldNew ...string) {
	t.Helper()
	text := fixture.Read(t, dir, name)
	for i := 0; i < len(oldNew); i += 2 {
		if !strings.Contains(text, oldNew[i]) {
			t.Fatalf("%s has no %q:\n%s", name, oldNew[i], text)
		}
		text = strings.ReplaceAll(text, oldNew[i], oldNew[i+1])
	}
	fixture.Write(t, dir, map[string]string{name: text})
}

// added is what the project in dir lacks for the conversion of Widget.
func added(t *testing.T, dir string) *Result {
	t.Helper()
	p := typed.Load(t, dir)
	if err := p.Compiles(); err != nil {
		t.Fatal(err)
	}
	request := Request{Kind: "Widget", Hub: p.Version("widgets.example.com/v2")}
	request.Versions = []*project.Version{request.Hub, p.Version("widgets.example.com/v1"), p.Version("widgets.example.com/v1beta2")}
	result, err := Add(p, request)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// What a person has written stays, and a note says what is left where the outcome would not work or not compile.
func TestWhatIsLeftToAPersonIsANote(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: " +
		"widgets.widgets.example.com\nspec:\n  "
	for name, test := range map[string]struct {
		layout  string
		change  func(t *testing.T, dir string)
		changed []string
		notes   []string // parts of them
	}{
		"a patch that has the API server change the version alone": {"v4", func(t *testing.T, dir string) {
			fixture.Write(t, dir, map[string]string{webhookPatch: head + "conversion:\n    strategy: None\n"})
		}, []string{projectFile, newProgram, ofItsOwn}, []string{webhookPatch + ": says conversion strategy None"}},
		"a CRD that does so": {"v4", func(t *testing.T, dir string) {
			fixture.Append(t, dir, "config/crd/bases/widgets.example.com_widgets.yaml", "  conversion:\n    strategy: None\n")
		}, []string{projectFile, newProgram, ofItsOwn}, []string{"config/crd/bases/widgets.example.com_widgets.yaml: says conversion strategy"}},
		"a patch of that name for something else": {"v4", func(t *testing.T, dir string) {
			fixture.Write(t, dir, map[string]string{webhookPatch: head + "preserveUnknownFields: false\n"})
		}, []string{projectFile, newProgram, crdList, defaultList, ofItsOwn},
			[]string{webhookPatch + ": exists, and does not set spec.conversion of widgets.widgets.example.com"}},
		"a v1beta1 patch that keeps unknown fields": {"v2", func(t *testing.T, dir string) {
			fixture.Write(t, dir, map[string]string{webhookPatch: strings.Replace(head, "/v1", "/v1beta1", 1) +
				"conversion:\n    strategy: Webhook\n"})
		}, []string{nextToTypes, crdList, injectedPatch, oldProgram}, []string{webhookPatch + ": needs preserveUnknownFields: false"}},
		"one whose CRD drops them": {"v2", func(t *testing.T, dir string) {
			fixture.Write(t, dir, map[string]string{webhookPatch: strings.Replace(head, "/v1", "/v1beta1", 1) +
				"conversion:\n    strategy: Webhook\n"})
			fixture.Append(t, dir, "config/crd/bases/widgets.example.com_widgets.yaml", "  preserveUnknownFields: false\n")
		}, []string{nextToTypes, crdList, injectedPatch, oldProgram}, nil},
		"a marker below another list": {"v4", func(t *testing.T, dir string) {
			replace(t, dir, crdList, "# [WEBHOOK] To enable webhook, uncomment all", "images:\n# all")
		}, []string{projectFile, newProgram, crdList, webhookPatch, defaultList, ofItsOwn}, []string{crdList + ": has no place for patches"}},
		"replacements that name every CRD": {"v4", func(t *testing.T, dir string) {
			replace(t, dir, defaultList, "replacements:\n", "replacements:\n- source:\n    kind: Certificate\n  targets:\n"+
				"  - select:\n      kind: CustomResourceDefinition\n")
		}, []string{projectFile, newProgram, crdList, webhookPatch, ofItsOwn}, nil},
		"replacements with an indentation of their own": {"v4", func(t *testing.T, dir string) {
			replace(t, dir, defaultList, "replacements:\n", "replacements:\n- source:\n    kind: Service\n")
		}, []string{projectFile, newProgram, crdList, webhookPatch, ofItsOwn}, []string{defaultList + ": does not replace annotations"}},
		"a manager of another function": {"v4", func(t *testing.T, dir string) {
			replace(t, dir, newProgram, "\t// +kubebuilder:scaffold:builder\n", "")
			fixture.Append(t, dir, newProgram, "\nfunc more() {\n\t// +kubebuilder:scaffold:builder\n}\n")
		}, []string{projectFile, crdList, webhookPatch, defaultList}, []string{"no program has kubebuilder's marker"}},
		"a program without a place for imports": {"v4", func(t *testing.T, dir string) {
			replace(t, dir, newProgram, "\t// +kubebuilder:scaffold:imports\n", "")
		}, []string{projectFile, crdList, webhookPatch, defaultList, ofItsOwn}, []string{newProgram + ": has no marker " +
			"+kubebuilder:scaffold:imports: call webhookv2.SetupWidgetWebhookWithManager(mgr) of " +
			"github.com/test-org/widget-operator/internal/webhook/v2 before"}},
		"one without a place for versions": {"v4", func(t *testing.T, dir string) {
			replace(t, dir, newProgram, "\t// +kubebuilder:scaffold:scheme\n", "")
		}, []string{projectFile, newProgram, crdList, webhookPatch, defaultList, ofItsOwn}, []string{
			"add widgets.example.com/v1 to the scheme", "add widgets.example.com/v1beta2 to the scheme"}},
		"a webhook that is registered": {"v2", func(t *testing.T, dir string) {
			fixture.Append(t, dir, oldProgram,
				"\nfunc init() {\n\t_ = ctrl.NewWebhookManagedBy(nil).For(&widgetsv2.Widget{}).Complete()\n}\n")
		}, []string{crdList, injectedPatch, webhookPatch, oldProgram}, nil},
		"a webhook that no one can call without an object": {"v2", func(t *testing.T, dir string) {
			fixture.Write(t, dir, map[string]string{"api/v2/hooks.go": "package v2\n\nimport ctrl \"sigs.k8s.io/controller-runtime\"\n\n" +
				"type Hooks struct{}\n\nfunc (h *Hooks) Add(mgr ctrl.Manager) error {\n" +
				"\treturn ctrl.NewWebhookManagedBy(mgr).For(&Widget{}).Complete()\n}\n"})
		}, []string{crdList, injectedPatch, webhookPatch}, []string{"Hooks).Add registers the webhook of Widget, and no program"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := scaffoldedBy(t, test.layout)
			test.change(t, dir)
			result := added(t, dir)
			var changed []string
			for _, one := range result.Changes {
				changed = append(changed, one.File)
			}
			slices.Sort(test.changed)
			if diff := cmp.Diff(test.changed, changed); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			for i, note := range test.notes {
				if len(result.Findings) != len(test.notes) || !strings.Contains(result.Findings[i].String(), note) {
					t.Fatalf("notes are %v, want %v", result.Findings, test.notes)
				}
			}
			if len(test.notes) == 0 && len(result.Findings) > 0 {
				t.Errorf("notes are %v, want none", result.Findings)
			}
		})
	}
}
