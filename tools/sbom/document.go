// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
)

// What SPDX says for "no one has looked".
const noAssertion = "NOASSERTION"

// describe makes the document of one binary. It is pure: the time of the document is that of the commit, which the
// binary holds.
func describe(name, version string, content []byte, info *debug.BuildInfo) (*spdx.Document, error) {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	created := time.Unix(0, 0).UTC()
	if at := settings["vcs.time"]; at != "" {
		var err error
		if created, err = time.Parse(time.RFC3339, at); err != nil {
			return nil, fmt.Errorf("read time of the commit: %w", err)
		}
	}
	digest := sha256.Sum256(content)
	sum := hex.EncodeToString(digest[:])

	binary := modulePackage("binary", info.Main.Path, version)
	binary.PackageFileName, binary.PrimaryPackagePurpose = name, "APPLICATION"
	binary.PackageChecksums = []spdx.Checksum{{Algorithm: spdx.SHA256, Value: sum}}
	binary.PackageLicenseDeclared = "Apache-2.0"
	binary.PackageComment = fmt.Sprintf("built for %s/%s with %s", settings["GOOS"], settings["GOARCH"], info.GoVersion)

	packages := []*spdx.Package{modulePackage("", "stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		for m.Replace != nil {
			m = m.Replace
		}
		at := m.Version
		if at == "(devel)" { // a module of the workspace, which is released together with the binary
			at = version
		}
		p := modulePackage("", m.Path, at)
		if m.Sum != "" {
			p.PackageSourceInfo = "checksum in go.sum: " + m.Sum
		}
		packages = append(packages, p)
	}
	slices.SortFunc(packages, func(a, b *spdx.Package) int {
		return cmp.Or(strings.Compare(a.PackageName, b.PackageName),
			strings.Compare(a.PackageVersion, b.PackageVersion))
	})
	relationships := []*spdx.Relationship{relation("DOCUMENT", spdx.RelationshipDescribes,
		binary.PackageSPDXIdentifier)}
	for i, p := range packages {
		p.PackageSPDXIdentifier = common.ElementID(fmt.Sprintf("module-%d", i+1))
		relationships = append(relationships, relation("binary", spdx.RelationshipDependsOn, p.PackageSPDXIdentifier))
	}
	return &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      fmt.Sprintf("%s %s for %s/%s", name, version, settings["GOOS"], settings["GOARCH"]),
		DocumentNamespace: "https://" + info.Main.Path + "/spdx/" + sum,
		CreationInfo: &spdx.CreationInfo{
			Created:  created.UTC().Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "kube-migrator-tools-sbom"}},
		},
		Packages: append([]*spdx.Package{binary}, packages...), Relationships: relationships,
	}, nil
}

// modulePackage describes a Go module. Its package URL is what scanners look for.
func modulePackage(id, path, version string) *spdx.Package {
	p := &spdx.Package{
		PackageName: path, PackageSPDXIdentifier: common.ElementID(id), PackageVersion: version,
		PackageDownloadLocation: noAssertion, PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: noAssertion,
		PackageCopyrightText:      noAssertion,
		IsFilesAnalyzedTagPresent: true,
	}
	p.PackageExternalReferences = []*spdx.PackageExternalReference{{
		Category: spdx.CategoryPackageManager, RefType: spdx.PackageManagerPURL,
		Locator: "pkg:golang/" + path + "@" + version,
	}}
	return p
}

func relation(from, kind string, to common.ElementID) *spdx.Relationship {
	return &spdx.Relationship{
		RefA: common.MakeDocElementID("", from), RefB: common.MakeDocElementID("", string(to)), Relationship: kind,
	}
}
