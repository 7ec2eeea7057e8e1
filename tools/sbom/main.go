// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command sbom writes the software bill of materials of a Go binary, as SPDX 2.3 in JSON:
//
//	go -C tools run ./sbom --binary bin/kube-migrator --output kube-migrator.spdx.json
//
// It reads what the Go linker recorded in the binary itself, so it lists what is in there and not what a module file
// would allow: the main module, every module that it was linked with, and the Go release. The same binary makes the
// same bytes.
package main

import (
	"bytes"
	"debug/buildinfo"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spdx/tools-golang/json"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("sbom", flag.ContinueOnError)
	binary := flags.String("binary", "", "the Go binary to describe")
	version := flags.String("version", "", "its version, such as v1.0.0")
	output := flags.String("output", "", "file that the SBOM is written to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *binary == "":
		return fmt.Errorf("--binary is missing, such as --binary bin/kube-migrator")
	case *version == "":
		return fmt.Errorf("--version is missing, such as --version v1.0.0")
	case *output == "":
		return fmt.Errorf("--output is missing, such as --output kube-migrator.spdx.json")
	}
	content, err := os.ReadFile(*binary)
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("%s is not a Go binary: %w\nTry: make build", *binary, err)
	}
	document, err := describe(filepath.Base(*binary), *version, content, info)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := json.Write(document, &text, json.Indent("  ")); err != nil {
		return fmt.Errorf("encode SBOM: %w", err)
	}
	return os.WriteFile(*output, append(bytes.TrimSpace(text.Bytes()), '\n'), 0o644)
}
