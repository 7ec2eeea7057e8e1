// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// release is what users install.
type release struct {
	version  string // v1.0.0
	image    string
	url      string
	archives []archive
}

// archive has the programs for one platform.
type archive struct{ os, arch, name, sum string }

var version = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// semantic is a version by the rules of semver.org: that of a commit without a tag comes before all releases.
func semantic(text string) string {
	if version.MatchString(text) {
		return text
	}
	return "v0.0.0-g" + regexp.MustCompile(`[^0-9A-Za-z-]`).ReplaceAllString(text, "-")
}

// krew is the manifest of the plugin "migrator".
func (r release) krew() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: migrator
spec:
  version: %s
  homepage: https://github.com/kube-migrator/kube-migrator
  shortDescription: Rewrite objects stored in old API versions
  description: |
    Finds the objects that a cluster stores in old API versions, rewrites them
    gently, and proves that none is left. Tells whether an upgrade of Kubernetes
    or of a CustomResourceDefinition is safe.
  caveats: |
    kubectl migrator plan reads the cluster and changes nothing.
    kubectl migrator migrate needs get, list and patch of what it migrates.
  platforms:
`, r.version)
	for _, a := range r.archives {
		program := "kube-migrator"
		if a.os == "windows" {
			program += ".exe"
		}
		fmt.Fprintf(&out, `  - selector:
      matchLabels:
        os: %s
        arch: %s
    uri: %s/%s
    sha256: %s
    bin: %s
`, a.os, a.arch, r.url, a.name, a.sum, program)
	}
	return out.Bytes()
}

var (
	chartVersions = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)
	chartImage    = regexp.MustCompile(`(?m)^image: ""$`)
)

// writeChart writes the chart of the release to a folder, under the name that Helm expects.
func (r release) writeChart(chart, output string) (err error) {
	folder, err := os.MkdirTemp("", "chart-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := os.CopyFS(folder, os.DirFS(chart)); err != nil {
		return err
	}
	number := strings.TrimPrefix(r.version, "v")
	if err := edit(filepath.Join(folder, "Chart.yaml"), chartVersions, "$1: "+number, 2); err != nil {
		return err
	}
	if r.image != "" {
		if err := edit(filepath.Join(folder, "values.yaml"), chartImage, "image: "+r.image, 1); err != nil {
			return err
		}
	}
	content, err := pack(folder, "kube-migrator")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(output, "kube-migrator-"+number+".tgz"), content, 0o644)
}

// edit replaces what a file has as often as expected.
func edit(file string, old *regexp.Regexp, replacement string, times int) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if found := len(old.FindAll(content, -1)); found != times {
		return fmt.Errorf("%s has %s %d times, not %d times", filepath.Base(file), old, found, times)
	}
	return os.WriteFile(file, old.ReplaceAll(content, []byte(replacement)), 0o644)
}
