// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// placeholder is the image of config/default until the user sets one.
const placeholder = "localhost/kube-migrator"

func TestKustomizeRendersWhatInstallApplies(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("0", 64)
	for name, test := range map[string]struct{ images, want string }{
		"without an image": {"", placeholder},
		"with a tag": {
			"images: [{name: " + placeholder + ", newName: registry.example.com/kube-migrator, newTag: v1.0.0}]",
			"registry.example.com/kube-migrator:v1.0.0",
		},
		"with a digest, from a registry with a port": {
			"images: [{name: " + placeholder + ", newName: 'registry.example.com:5000/a/kube-migrator', digest: '" + digest +
				"'}]",
			"registry.example.com:5000/a/kube-migrator@" + digest,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// `kustomize edit set image` writes images into the kustomization.
			folder := t.TempDir()
			if err := os.CopyFS(folder, os.DirFS(config)); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(folder, "default", "kustomization.yaml")
			kustomization, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, append(kustomization, test.images+"\n"...), 0o600); err != nil {
				t.Fatal(err)
			}
			got, problems, err := run(t, testbed.Newest, "kubectl", "", "kustomize", filepath.Dir(file))
			if err != nil {
				t.Fatalf("%v\n%s", err, problems)
			}
			o := defaults()
			o.Image = test.want
			compare(t, planned(t, o), byName(t, got))
			// in the order of the plan: the permissions and the guard before the controller
			if last := got[strings.LastIndex(got, "\n---\n"):]; !strings.Contains(last, "\nkind: Deployment\n") {
				t.Errorf("the last object is not the Deployment:\n%s", last)
			}
		})
	}
}
