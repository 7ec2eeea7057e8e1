// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command dist packs what users install a release with:
//
//	go -C tools run ./dist --version v1.0.0 --image registry.example.com/kube-migrator:v1.0.0@sha256:… \
//		--root FOLDER --output FOLDER --url https://example.com/v1.0.0 linux/amd64=FOLDER darwin/arm64=FOLDER …
//
// Each folder has the programs for one platform, and becomes an archive with the licence. Of the archives it makes the
// manifest of krew, kubectl's manager of plugins, and of the chart one whose image is the release's. The same files
// make the same bytes.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("dist", flag.ContinueOnError)
	version := flags.String("version", "", "the release, such as v1.0.0; any other text becomes a version before v0.0.0")
	image := flags.String("image", "", "what the chart installs by default; empty: users have to name an image")
	root := flags.String("root", "", "folder with the licence, and the chart in charts/kube-migrator")
	output := flags.String("output", "", "folder that the files are written to")
	url := flags.String("url", "", "address of the folder from which users download the files")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for name, value := range map[string]string{"version": *version, "root": *root, "output": *output, "url": *url} {
		if value == "" {
			return fmt.Errorf("--%s is missing", name)
		}
	}
	r := release{version: semantic(*version), image: *image, url: strings.TrimSuffix(*url, "/")}
	for _, arg := range flags.Args() {
		platform, folder, ok := strings.Cut(arg, "=")
		system, architecture, both := strings.Cut(platform, "/")
		if !ok || !both {
			return fmt.Errorf("%q names no platform and folder, such as linux/amd64=bin", arg)
		}
		a := archive{os: system, arch: architecture, name: fmt.Sprintf("kube-migrator-%s-%s.tar.gz", system, architecture)}
		content, err := pack(folder, "", filepath.Join(*root, "LICENSE"))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		a.sum = hex.EncodeToString(sum[:])
		if err := os.WriteFile(filepath.Join(*output, a.name), content, 0o644); err != nil {
			return err
		}
		r.archives = append(r.archives, a)
	}
	if len(r.archives) == 0 {
		return fmt.Errorf("no platform is named, such as linux/amd64=bin")
	}
	if err := os.WriteFile(filepath.Join(*output, "migrator.yaml"), r.krew(), 0o644); err != nil {
		return err
	}
	return r.writeChart(filepath.Join(*root, "charts", "kube-migrator"), *output)
}
