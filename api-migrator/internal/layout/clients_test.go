// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
)

func TestTheModuleOfAGeneratedClientKeepsItsNameWhereItIsThatOfTheGroup(t *testing.T) {
	t.Parallel()
	modules := []project.Module{{Path: "github.com/cache/v1", Dir: "."}, {Path: "github.com/cache/v1/cache", Dir: "cache"}}
	next := map[string]string{"cache": "storage", "v1": "v2"}
	for from, want := range map[string]string{
		"github.com/cache/v1/listers/cache/v1":       "github.com/cache/v1/listers/storage/v2",
		"github.com/cache/v1/cache/listers/cache/v1": "github.com/cache/v1/cache/listers/storage/v2",
		"github.com/cache/v1/cached/v1":              "github.com/cache/v1/cached/v2",
	} {
		if got := replaceBelow(modules, from, next); got != want {
			t.Errorf("%s becomes %s, want %s", from, got, want)
		}
	}
}

// Code that takes objects from a client of the old version, or gives it some, stays there, and so does what it exchanges
// objects with.
func TestUsersOfAClientThatIsNotGeneratedYetStay(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "kubebuilder")
	fixture.Write(t, dir, fixture.Archive(t, "../move/testdata/clients.txtar"))
	fixture.Commit(t, dir, "with clients")
	for to, write := range map[string]string{
		"cache.example.com/v1beta2": "V1beta2().Memcacheds", "storage.example.com/v1": "Storage().V1().Memcacheds",
		"cache.other.example.com/v1": "Cache().V1().Memcacheds", "new-group.example.com/v1": "Memcacheds of the new client",
	} {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			asked := shopRequest()
			asked.Kinds, asked.From, asked.To = []string{"Memcached"}, "cache.example.com/v1", to
			l, report := decide(t, dir, asked)
			var stay, follow []string
			for _, pkg := range l.Project.Packages {
				for _, file := range pkg.Files {
					switch uses := source.Imports(file.Syntax, l.Old.Package.Path); {
					case !uses || file.Generated || file.Test:
					case l.Consumes(file):
						follow = append(follow, file.Path)
					default:
						stay = append(stay, file.Path)
					}
				}
			}
			want := []string{"internal/kinds/kinds.go", "internal/options/options.go", "internal/reconcile/reconcile.go",
				"internal/samples/samples.go", "internal/size/size.go"}
			stay = slices.DeleteFunc(stay, func(name string) bool { return strings.HasPrefix(name, "pkg/client/") })
			if diff := cmp.Diff(want, stay); diff != "" {
				t.Errorf("what stays (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"cmd/main.go", "internal/controller/memcached_controller.go",
				"internal/names/names.go"}, follow); diff != "" {
				t.Errorf("what follows (-want +got):\n%s", diff)
			}
			if !slices.ContainsFunc(report.Findings, func(one finding.Finding) bool {
				return one.Where == "internal/watch/watch.go:8" && strings.HasPrefix(one.Text, "uses Memcacheds of a client ") &&
					strings.HasSuffix(one.Text, "and plan again; or write "+write+" then")
			}) {
				t.Errorf("no finding says what to write instead of the client: %v", report.Findings)
			}
		})
	}
}
