// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command release-page writes the page on what each Kubernetes release changes in etcd, from the tables of package
// upgrade.
package main

//go:generate go run . ../../../../../docs/releases.md

import (
	"bytes"
	"fmt"
	"os"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "no file named\nTry: go generate ./kube-migrator/internal/cli/...")
		os.Exit(1)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(path string) error {
	known := upgrade.Known()
	newest := known[len(known)-1]
	var page bytes.Buffer
	if err := render.ReleasePage(&page, render.Explanation{Target: newest, Releases: known,
		Changes: upgrade.Changes(newest)}); err != nil {
		return err
	}
	if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}
