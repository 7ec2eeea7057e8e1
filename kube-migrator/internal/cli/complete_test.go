// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

func TestTheProgramKnowsHowItWasCalled(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		called string
		name   string
		rest   []string
	}{
		{"/usr/bin/kube-migrator", "kube-migrator", []string{"plan"}},
		{"./kubectl-migrator", "kubectl migrator", []string{"plan"}},
		{"kubectl-migrator.exe", "kubectl migrator", []string{"plan"}},
		{"kubectl-storage_versions", "kubectl storage-versions", []string{"plan"}},
		{"/opt/kubectl_complete-migrator", "kubectl migrator", []string{"__complete", "plan"}},
	} {
		rest, name := invoked([]string{tt.called, "plan"})
		if diff := cmp.Diff(tt.rest, rest); name != tt.name || diff != "" {
			t.Errorf("%s: the name is %q, want %q; arguments (-want +got):\n%s", tt.called, name, tt.name, diff)
		}
	}
}

func TestExamplesShowTheNameByWhichTheProgramWasCalled(t *testing.T) {
	t.Parallel()
	for _, command := range newRoot(&environment{name: "kubectl migrator"}).Commands() {
		if strings.Contains(command.Example, "kube-migrator ") {
			t.Errorf("the examples of %s show another name:\n%s", command.Name(), command.Example)
		}
	}
}

func TestNamesOfResourcesAreCompleted(t *testing.T) {
	t.Parallel()
	all := &inventory.Inventory{Resources: []inventory.Resource{
		{GroupResource: schema.GroupResource{Resource: "pods"}},
		{GroupResource: schema.GroupResource{Group: "evil.example.com", Resource: "$(reboot)"}},
		{GroupResource: schema.GroupResource{Group: "evil.example.com", Resource: "widgets;reboot;"}},
		{GroupResource: schema.GroupResource{Resource: "bindings"}, Problem: &inventory.Problem{}},
		{GroupResource: schema.GroupResource{Group: "a.example.com", Resource: "widgets"}, CRD: &inventory.CRD{}},
		{GroupResource: schema.GroupResource{Group: "b.example.com", Resource: "widgets"}, CRD: &inventory.CRD{}},
	}}
	for name, tt := range map[string]struct {
		fit   func(inventory.Resource) bool
		typed []string
		word  string
		want  []string
	}{
		"everything that can be migrated": {fit: isMigratable,
			want: []string{"pods", "widgets.a.example.com", "widgets.b.example.com"}},
		"what begins with the word":     {fit: isMigratable, word: "Wid", want: []string{"widgets.a.example.com", "widgets.b.example.com"}},
		"nothing a second time":         {fit: isMigratable, typed: []string{"widgets.a.example.com"}, word: "w", want: []string{"widgets.b.example.com"}},
		"nothing that begins otherwise": {fit: isMigratable, word: "gadgets"},
		"custom resources where no other fits": {fit: isCRD,
			want: []string{"widgets.a.example.com", "widgets.b.example.com"}},
	} {
		if diff := cmp.Diff(tt.want, completions(all, tt.fit, tt.typed, tt.word)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestEveryCommandThatTakesResourcesCompletesThem(t *testing.T) {
	t.Parallel()
	taking := 0
	for _, command := range newRoot(&environment{name: "kube-migrator"}).Commands() {
		takes := strings.Contains(command.Use, "RESOURCE") || strings.Contains(command.Use, " CRD")
		if takes != (command.ValidArgsFunction != nil) {
			t.Errorf("%s: it completes resources: %v, want %v", command.Use, !takes, takes)
		}
		if takes {
			taking++
		}
	}
	if taking < 10 {
		t.Errorf("only %d commands take resources, so nothing was tested", taking)
	}
}

func TestContextsAreCompletedAndAClusterThatDoesNotAnswerCompletesNothing(t *testing.T) {
	t.Parallel()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	const text = `{"apiVersion": "v1", "kind": "Config", "current-context": "prod-1",
		"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
		"contexts": [{"name": "prod-2", "context": {"cluster": "c"}}, {"name": "prod-1", "context": {"cluster": "c"}},
			{"name": "lab", "context": {"cluster": "c"}}]}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"contexts":                      {[]string{"migrate", "--context", "prod"}, "prod-1\nprod-2\n:4\n"},
		"resources of a silent cluster": {[]string{"migrate", ""}, ":4\n"},
		"a second CRD":                  {[]string{"retire", "widgets.demo.example.com", ""}, ":4\n"},
	} {
		var out, problems bytes.Buffer
		args := append([]string{"kubectl_complete-migrator", "--kubeconfig=" + kubeconfig}, tt.args...)
		if code := Run(t.Context(), args, Streams{In: strings.NewReader(""), Out: &out, Err: &problems}); code != 0 ||
			out.String() != tt.want {
			t.Errorf("%s: exit code %d, stdout %q, want %q; stderr: %s", name, code, out.String(), tt.want, problems.String())
		}
	}
}
