// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command manifests writes the templates of the Helm chart and the kustomizations from the plan of package install, so
// that all ways to install apply the same objects (docs/adr/0022-one-plan-for-every-installer.md).
package main

//go:generate go run . ../../../../../charts/kube-migrator/templates ../../../../../config

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "two folders are needed: the templates of the chart and the kustomizations\n"+
			"Try: go generate ./kube-migrator/internal/cli/...")
		os.Exit(1)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(templates, config string) error {
	chart, err := chartTemplates()
	if err != nil {
		return err
	}
	kustomized, err := kustomizations()
	if err != nil {
		return err
	}
	for folder, contents := range map[string]map[string]string{templates: chart, config: kustomized} {
		for name, content := range contents {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
				return fmt.Errorf("write manifest: %w", err)
			}
		}
	}
	return nil
}
