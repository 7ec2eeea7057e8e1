// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command image packs static binaries into an OCI image, without a container engine and without a base image:
//
//	go -C tools run ./image --name kube-migrator:v1.0.0 --output FILE linux/amd64=BINARY linux/arm64=BINARY
//	go -C tools run ./image --name registry.example.com/kube-migrator:v1.0.0 --push linux/amd64=BINARY linux/arm64=BINARY
//
// Each platform's image is one layer that holds its binary, which is the entrypoint and runs as a user that is not
// root. The output is a tar of an OCI image layout, which containerd, podman, skopeo and kind read; with --push the
// same image goes to a registry, and the digest that it has there is printed. The same binaries make the same bytes.
//
// It is a module of its own together with the linter, so that none of what it needs reaches the go.mod of
// kube-migrator.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	name := flags.String("name", "", "name of the image, such as kube-migrator:v1.0.0")
	output := flags.String("output", "", "file that the tar is written to")
	pushes := flags.Bool("push", false, "push the image under its name instead of writing it, with the credentials "+
		"that docker and cosign log in to, and print its digest")
	noted := flags.String("digest", "", "file that the digest is written to which the image will have in a registry")
	command := flags.String("command", "", "name of the binary in the image; empty: the image's name")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *name == "":
		return fmt.Errorf("--name is missing, such as --name kube-migrator:v1.0.0")
	case *output == "" && !*pushes:
		return fmt.Errorf("--output is missing, such as --output image.tar")
	case flags.NArg() == 0:
		return fmt.Errorf("the binary is missing, such as linux/amd64=bin/kube-migrator")
	}
	reference, err := parseReference(*name)
	if err != nil {
		return err
	}
	if *command == "" {
		*command = reference.base()
	}
	binaries, err := parseBinaries(flags.Args())
	if err != nil {
		return err
	}
	index, err := newIndex(reference, *command, binaries)
	if err != nil {
		return err
	}
	if *pushes {
		digest, err := push(reference, index)
		if err != nil {
			return err
		}
		fmt.Println(digest)
		return nil
	}
	size, err := writeTar(*output, index)
	if err != nil {
		return err
	}
	if *noted != "" {
		digest, err := digestOf(index)
		if err != nil {
			return err
		}
		if err := os.WriteFile(*noted, []byte(digest.String()+"\n"), 0o644); err != nil {
			return err
		}
	}
	var platforms []string
	for _, b := range binaries {
		platforms = append(platforms, b.platform.String())
	}
	fmt.Printf("%s: %s, %.1f MB in %s\n", reference, strings.Join(platforms, " and "), float64(size)/1e6, *output)
	return nil
}

// binary is a platform and the file of the binary that runs on it.
type binary struct {
	platform v1.Platform
	path     string
}

// parseBinaries reads arguments such as linux/amd64=bin/kube-migrator.
func parseBinaries(args []string) ([]binary, error) {
	var binaries []binary
	for _, arg := range args {
		platform, path, ok := strings.Cut(arg, "=")
		system, architecture, whole := strings.Cut(platform, "/")
		if !ok || !whole || path == "" {
			return nil, fmt.Errorf("%q is not a platform and its binary, such as linux/amd64=bin/kube-migrator", arg)
		}
		binaries = append(binaries, binary{platform: v1.Platform{OS: system, Architecture: architecture},
			path: filepath.Clean(path)})
	}
	return binaries, nil
}
