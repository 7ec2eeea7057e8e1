// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/internal/golden"
)

// scaffoldedBy is the project "conversion" as a release of kubebuilder has scaffolded it.
func scaffoldedBy(t *testing.T, layout string) string {
	t.Helper()
	dir := fixture.Copy(t, "conversion")
	fixture.Write(t, dir, fixture.Archive(t, "testdata/wiring/runtime.txtar"))
	fixture.Write(t, dir, fixture.Archive(t, "testdata/wiring/"+layout+".txtar"))
	fixture.Write(t, dir, map[string]string{"runtime/go.sum": fixture.Read(t, dir, "go.sum")})
	return dir
}

func TestAServerIsToldToCallTheConversionAsTheLayoutDoesIt(t *testing.T) {
	t.Parallel()
	fixture.NeedsGo(t)
	for _, layout := range []string{"v2", "v3", "v4"} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			dir, patched := scaffoldedBy(t, layout), scaffoldedBy(t, layout)
			plan, err := Make(t.Context(), dir, Request{Kind: "Widget", Preserve: true})
			if err != nil {
				t.Fatal(err)
			}
			patch, err := plan.Patch()
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "testdata/wiring/"+layout+".golden", wired(plan, patch))

			fixture.Write(t, patched, map[string]string{"the.patch": patch})
			fixture.Run(t, patched, "git", "init", "-q")
			fixture.Run(t, patched, "git", "apply", "the.patch")
			fixture.Run(t, patched, "rm", "the.patch")
			const program = "main.go"
			at := map[string]string{"v4": "cmd/"}[layout] + program
			original := fixture.Read(t, dir, at)
			fixture.Append(t, dir, at, "\n// changed meanwhile\n")
			before := fixture.Files(t, dir)
			if err := plan.Write(); err == nil || !strings.Contains(err.Error(), at+": it has changed meanwhile") {
				t.Errorf("write over a change of someone else: %v", err)
			}
			if diff := cmp.Diff(before, fixture.Files(t, dir)); diff != "" {
				t.Errorf("an error leaves a part (-before +after):\n%s", diff)
			}
			fixture.Write(t, dir, map[string]string{at: original})
			if err := plan.Write(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(fixture.Files(t, patched), fixture.Files(t, dir)); diff != "" {
				t.Errorf("what is written is not what git apply makes of the patch (-patch +written):\n%s", diff)
			}
			if again := scaffolded(t, dir, Request{Kind: "Widget", Preserve: true}); len(again.Files) != 0 {
				t.Errorf("a second run writes %v", again.Files)
			}
		})
	}
}

// wired is the part of a patch that is not the conversion itself, and the findings.
func wired(plan *Plan, patch string) string {
	const file = "diff --git "
	var shown strings.Builder
	for _, part := range strings.Split(patch, file)[1:] {
		if name, _, _ := strings.Cut(part, "\n"); !strings.Contains(name, "_conversion") && !strings.Contains(name, "/preserve/") {
			shown.WriteString(file + part)
		}
	}
	for _, one := range plan.Findings {
		shown.WriteString("finding: " + one.String() + "\n")
	}
	return shown.String()
}

func TestAnImportGetsANameThatIsNotTaken(t *testing.T) {
	t.Parallel()
	fixture.NeedsGo(t)
	dir := scaffoldedBy(t, "v4")
	fixture.Append(t, dir, "cmd/main.go", "\nconst webhookv2 = \"\"\n")
	scaffolded(t, dir, Request{Kind: "Widget", Preserve: true})
	text := fixture.Read(t, dir, "cmd/main.go")
	for _, line := range []string{"\twidgetswebhookv2 \"github.com/test-org/widget-operator/internal/webhook/v2\"\n",
		"err := widgetswebhookv2.SetupWidgetWebhookWithManager(mgr)"} {
		if !strings.Contains(text, line) {
			t.Errorf("the program lacks %s:\n%s", line, text)
		}
	}
}

// What is there already stays, and what kubebuilder would not recognise is left to a person.
func TestOnlyWhatIsMissingIsWired(t *testing.T) {
	t.Parallel()
	fixture.NeedsGo(t)
	const program, list = "cmd/main.go", "config/crd/kustomization.yaml"
	dir := scaffoldedBy(t, "v4")
	scaffolded(t, dir, Request{Kind: "Widget", Preserve: true})
	look := func() (changed, found []string) {
		plan, err := Make(t.Context(), dir, Request{Kind: "Widget", Preserve: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range plan.Files {
			changed = append(changed, one.Path)
		}
		for _, one := range plan.Findings {
			found = append(found, one.String())
		}
		return changed, found
	}
	replace(t, dir, program, "err := webhookv2.SetupWidgetWebhookWithManager(mgr)", "err := error(nil)",
		"\twebhookv2 \"github.com/test-org/widget-operator/internal/webhook/v2\"\n", "")
	replace(t, dir, list, "- path: patches/webhook", "#- path: patches/webhook")
	changed, found := look()
	if diff := cmp.Diff([]string{program, list}, changed); diff != "" || found != nil {
		t.Errorf("changes (-want +got):\n%s\nfindings: %v", diff, found)
	}

	replace(t, dir, program, "// +kubebuilder:scaffold:builder", "")
	replace(t, dir, list, "patches:\n# [WEBHOOK] To enable webhook, uncomment all the sections with [WEBHOOK] prefix.\n", "")
	replace(t, dir, "config/crd/kustomizeconfig.yaml", "webhook/clientConfig", "other")
	replace(t, dir, "config/default/kustomization.yaml", "- ../certmanager", "#- ../certmanager")
	changed, found = look()
	want := []string{
		list + ": has no place for patches that kubebuilder knows: list patches/webhook_in_widgets.yaml in it",
		"config/crd/kustomizeconfig.yaml: does not name spec/conversion/webhook/clientConfig/service/name: kustomize leaves the " +
			"name of the service in the CRD as it is then, without the prefix of config/default",
		"config/default/kustomization.yaml: does not list ../certmanager: uncomment the sections [WEBHOOK] and [CERTMANAGER] " +
			"before you deploy, or the API server calls a webhook that is not there",
		"no program has kubebuilder's marker +kubebuilder:scaffold:builder and makes a manager: call ctrl.NewWebhookManagedBy " +
			"for Widget of widgets.example.com/v2 before the manager starts, with every version in its scheme",
	}
	if diff := cmp.Diff(want, found); diff != "" || changed != nil {
		t.Errorf("findings (-want +got):\n%s\nchanges: %v", diff, changed)
	}
}
