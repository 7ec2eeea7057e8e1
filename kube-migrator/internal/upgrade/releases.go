// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"bufio"
	"bytes"
	"embed"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Files are the tables of what each release can decode, one file each: "releases/v1.36.txt". `make decodable` writes
// them.
//
//go:embed releases/*.txt
var Files embed.FS

// Table says what the servers of one release can decode of the resources that are built in.
type Table struct {
	// Release is the exact release that was asked: "v1.36.3".
	Release   string
	Decodable map[schema.GroupResource]Decodable
}

// Decodable is what can be decoded of one resource.
type Decodable struct {
	Kind string
	// Versions can be decoded. The first one is the version that is written.
	Versions []schema.GroupVersion
}

// tables returns the tables of all files, by minor version: "1.36".
var tables = sync.OnceValue(func() map[string]Table {
	all := map[string]Table{}
	entries, err := Files.ReadDir("releases")
	if err != nil {
		panic(err) // the embedded folder
	}
	for _, entry := range entries {
		raw, err := Files.ReadFile("releases/" + entry.Name())
		if err != nil {
			panic(err) // an embedded file
		}
		table, err := ParseTable(raw)
		if err != nil {
			panic(err) // an embedded file, which a test reads
		}
		all[strings.TrimSuffix(strings.TrimPrefix(entry.Name(), "v"), ".txt")] = table
	}
	return all
})

// Known returns the releases that have a table, the oldest first: "1.36".
func Known() []string { return inOrder(tables()) }

var releaseForm = regexp.MustCompile(`^v?([0-9]+\.[0-9]+)(\..*|[-+].*)?$`)

// ReleaseTable returns the table of a release, which may be written as "1.36", "v1.36" or "v1.36.3"; minor is the first
// form. ok is false if the release has no table. The error says that it is not a release.
func ReleaseTable(release string) (table Table, minor string, ok bool, err error) {
	parts := releaseForm.FindStringSubmatch(release)
	if parts == nil {
		return Table{}, "", false, fmt.Errorf("%q is not a release of Kubernetes, want one like 1.36", release)
	}
	table, ok = tables()[parts[1]]
	return table, parts[1], ok, nil
}

const tableHead = "# What kube-apiserver "

// ParseTable parses a table.
func ParseTable(raw []byte) (Table, error) {
	table := Table{Decodable: map[schema.GroupResource]Decodable{}}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, tableHead); ok {
			table.Release, _, _ = strings.Cut(rest, " ")
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return table, fmt.Errorf("read table, line %d: want a resource, its kind and versions", n)
		}
		d := Decodable{Kind: fields[1]}
		for _, text := range fields[2:] {
			gv, err := schema.ParseGroupVersion(text)
			if err != nil {
				return table, fmt.Errorf("read table, line %d: %w", n, err)
			}
			d.Versions = append(d.Versions, gv)
		}
		table.Decodable[schema.ParseGroupResource(fields[0])] = d
	}
	if table.Release == "" || len(table.Decodable) == 0 {
		return table, fmt.Errorf("read table: it names no release or no resource")
	}
	return table, lines.Err()
}

// Bytes returns the table in the form that ParseTable parses, one line per resource.
func (t Table) Bytes() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s%s can decode, as its own StorageVersion objects say while every API and alpha feature is "+
		"enabled.\n", tableHead, t.Release)
	b.WriteString("# Written by `make decodable`. Resource, kind, versions; the first version is the one that it " +
		"writes.\n")
	for _, r := range resourcesOf(t) {
		b.WriteString(r.String() + " " + t.Decodable[r].Kind)
		for _, gv := range t.Decodable[r].Versions {
			b.WriteString(" " + gv.String())
		}
		b.WriteString("\n")
	}
	return b.Bytes()
}
