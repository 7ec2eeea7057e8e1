// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"path"

	"go.yaml.in/yaml/v3"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// projectFile is where kubebuilder remembers what it has scaffolded.
const projectFile = "PROJECT"

// ScaffoldFile is the PROJECT of the module that a folder belongs to, or else that of the root; nil without one.
func ScaffoldFile(w *Workspace, dir string) (string, []byte, error) {
	name := path.Join(w.ModuleOf(dir).Dir, projectFile)
	content, err := tree.ReadIfThere(w.Root, name)
	if err != nil || content != nil {
		return name, content, err
	}
	content, err = tree.ReadIfThere(w.Root, projectFile)
	return projectFile, content, err
}

// Domain is the domain that PROJECT says; empty without one.
func Domain(w *Workspace, dir string) (string, error) {
	name, content, err := ScaffoldFile(w, dir)
	if err != nil {
		return "", err
	}
	var said struct {
		Domain string `yaml:"domain"`
	}
	if err := yaml.Unmarshal(content, &said); err != nil {
		return "", hint.Errorf("kubebuilder edit", "%s is not YAML: %v", name, err)
	}
	return said.Domain, nil
}

// DeepCopyFile is the name that controller-gen and deepcopy-gen both give their output.
const DeepCopyFile = "zz_generated.deepcopy.go"
