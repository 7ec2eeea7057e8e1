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
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/typed"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// guideRequest is a request for the project "guide".
func guideRequest() request.Request {
	return request.Request{Kinds: []string{"CatalogSourceConfig"}, From: "operators.example.com/v1",
		To: "operators.example.com/v2", Storage: request.StorageNew, Unexported: request.UnexportedInternal,
		Consumers: []string{request.ConsumersAll}}
}

// shop has a kind that moves (Widget), one that stays (Gadget), and what both use.
func shop(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := fixture.Folder(t)
	fixture.Write(t, dir, fixture.Archive(t, "testdata/shop.txtar"))
	fixture.Write(t, dir, files)
	return dir
}

func shopRequest() request.Request {
	return request.Request{Kinds: []string{"Widget"}, From: "shop.example.com/v1", To: "shop.example.com/v2",
		Storage: request.StorageNew, Unexported: request.UnexportedInternal, Consumers: []string{request.ConsumersAll},
		WithoutCRDs: true}
}

// decide decides a request for the project in dir.
func decide(t *testing.T, dir string, asked request.Request) (*Layout, finding.Report) {
	t.Helper()
	p := typed.Load(t, dir)
	asked = asked.WithDefaults()
	old, err := asked.Check(p)
	if err != nil {
		t.Fatal(err)
	}
	l, report, err := Decide(p, old, asked)
	if err != nil {
		t.Fatal(err)
	}
	return l, report
}

// seen is where each name is found afterwards, as folder and name, by someone in a package.
func seen(l *Layout, viewer Home) map[string]string {
	at := map[string]string{}
	for _, d := range l.Graph.Declarations {
		for _, name := range d.Names {
			at[name] = l.Dir(l.HomeOf(d, viewer)) + "." + l.NameOf(d, name, viewer)
		}
	}
	return at
}

func TestEachPackageFindsANameWhereTheOptionsPutIt(t *testing.T) {
	t.Parallel()
	dir := shop(t, nil)
	for name, test := range map[string]struct {
		change func(*request.Request)
		viewer Home
		want   map[string]string // some of the names
	}{
		"importers": {func(*request.Request) {}, Importer, map[string]string{
			"Widget": "api/v2.Widget", "WidgetSpec": "api/v2.WidgetSpec", "Gadget": "api/v1.Gadget", "Size": "api/shared.Size",
			"NewWidgetSpec": "api/v2.NewWidgetSpec", "rounded": "api/internal/shared.Rounded",
		}},
		"the old version": {func(*request.Request) {}, OldPackage, map[string]string{
			"Gadget": "api/v1.Gadget", "GroupVersion": "api/v1.GroupVersion", "rounded": "api/internal/shared.Rounded",
		}},
		"unexported code is exported": {func(r *request.Request) { r.Unexported = request.UnexportedExport }, Importer,
			map[string]string{"rounded": "api/shared.Rounded", "Size": "api/shared.Size"}},
		"the newest version has what is shared": {func(r *request.Request) {
			r.Shared, r.Unexported = request.SharedNewest, request.UnexportedExport
		}, Importer, map[string]string{"Size": "api/v2.Size", "rounded": "api/v2.Rounded", "Gadget": "api/v1.Gadget"}},
		"the old version keeps what is shared": {func(r *request.Request) {
			r.Shared, r.Unexported = request.SharedOld, request.UnexportedExport
		}, NewPackage, map[string]string{"Size": "api/v1.Size", "Widget": "api/v2.Widget"}},
		"each version has its own": {func(r *request.Request) { r.Shared = request.SharedDuplicate }, NewPackage,
			map[string]string{"Size": "api/v2.Size", "rounded": "api/v2.rounded"}},
		"both kinds move": {func(r *request.Request) { r.Kinds = []string{"Widget", "Gadget"} }, Importer,
			map[string]string{"Size": "api/v2.Size", "rounded": "api/v2.rounded", "Gadget": "api/v2.Gadget"}},
		"a declaration is assigned": {func(r *request.Request) {
			r.Assign = map[string]split.Destination{"NewWidgetSpec": split.Stay}
		}, Importer, map[string]string{"NewWidgetSpec": "api/v1.NewWidgetSpec", "WidgetSpec": "api/shared.WidgetSpec"}},
		"another group and name": {func(r *request.Request) { r.To, r.ToKind = "depot.example.com/v1", "Item" }, Importer,
			map[string]string{"Widget": "api/depot/v1.Item", "WidgetSpec": "api/depot/v1.ItemSpec", "NewWidgetSpec": "api/depot/v1.NewItemSpec"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := shopRequest()
			test.change(&asked)
			l, report := decide(t, dir, asked)
			if len(report.Blockers) > 0 {
				t.Errorf("blockers: %v", report.Blockers)
			}
			all, got := seen(l, test.viewer), map[string]string{}
			for name := range test.want {
				got[name] = all[name]
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheFoldersOfNewPackagesAreThoseOfTheProjectsScaffold(t *testing.T) {
	t.Parallel()
	const scaffold = "domain: example.com\nlayout:\n- go.kubebuilder.io/v4\nmultigroup: %\nresources: []\nversion: \"3\"\n"
	for name, test := range map[string]struct {
		folder, to, kind string
		want             []string
	}{
		"one group":                        {"api", "shop.example.com/v2", "", []string{"api/internal/shared", "api/shared", "api/v1", "api/v2"}},
		"several groups":                   {"api/shop", "shop.example.com/v2", "", []string{"api/shop/internal/shared", "api/shop/shared", "api/shop/v1", "api/shop/v2"}},
		"apis":                             {"apis/shop", "shop.example.com/v2", "", []string{"apis/shop/internal/shared", "apis/shop/shared", "apis/shop/v1", "apis/shop/v2"}},
		"a second group":                   {"api", "depot.example.com/v1", "", []string{"api/depot/v1", "api/internal/shared", "api/shared", "api/v1"}},
		"a group next to the old one":      {"api/shop", "depot.example.com/v1", "", []string{"api/depot/v1", "api/internal/shared", "api/shared", "api/shop/v1"}},
		"another name in the same version": {"api", "shop.example.com/v1", "Item", []string{"api/internal/shared", "api/shared", "api/v1"}},
		"a group with a dash":              {"api/shop", "new-depot.example.com/v1", "", []string{"api/internal/shared", "api/new-depot/v1", "api/shared", "api/shop/v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, multi := fixture.Folder(t), "false"
			if test.folder != "api" {
				multi = "true"
			}
			for name, content := range fixture.Archive(t, "testdata/shop.txtar") {
				fixture.Write(t, dir, map[string]string{strings.Replace(name, "api/", test.folder+"/", 1): strings.ReplaceAll(content,
					"shop/api/", "shop/"+test.folder+"/")})
			}
			fixture.Write(t, dir, map[string]string{"PROJECT": strings.Replace(scaffold, "%", multi, 1)})
			asked := shopRequest()
			asked.To, asked.ToKind = test.to, test.kind
			l, _ := decide(t, dir, asked)
			if diff := cmp.Diff(test.want, slices.Compact(l.Dirs())); diff != "" {
				t.Errorf("folders (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatTheOldVersionKeepsOfAKindIsAsTheRequestSays(t *testing.T) {
	t.Parallel()
	dir := shop(t, nil)
	for old, want := range map[string]map[string]Remains{
		request.OldKeep: {"Widget": RemainsWhole, "WidgetList": RemainsWhole, "WidgetSpec": RemainsWhole, "Size": RemainsNamed,
			"Gadget": RemainsWhole, "NewWidgetSpec": RemainsWhole, "rounded": RemainsNothing},
		request.OldAlias: {"Widget": RemainsDefined, "WidgetList": RemainsWrapped, "WidgetSpec": RemainsNamed, "Size": RemainsNamed,
			"Gadget": RemainsWhole, "NewWidgetSpec": RemainsNamed, "rounded": RemainsNothing},
		request.OldWrap: {"Widget": RemainsWrapped, "WidgetList": RemainsWrapped, "WidgetSpec": RemainsNamed, "Size": RemainsNamed,
			"Gadget": RemainsWhole, "NewWidgetSpec": RemainsNamed, "rounded": RemainsNothing},
		request.OldRemove: {"Widget": RemainsNothing, "WidgetList": RemainsNothing, "WidgetSpec": RemainsNothing, "Size": RemainsNothing,
			"Gadget": RemainsWhole, "NewWidgetSpec": RemainsNothing, "rounded": RemainsNothing},
	} {
		t.Run(old, func(t *testing.T) {
			t.Parallel()
			asked := shopRequest()
			asked.Old = old
			l, _ := decide(t, dir, asked)
			got := map[string]Remains{}
			for _, d := range l.Graph.Declarations {
				if _, ok := want[d.Names[0]]; ok {
					got[d.Names[0]] = l.RemainsOf(d)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("remains (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsSharedMustNotNeedAVersion(t *testing.T) {
	t.Parallel()
	asked := shopRequest()
	asked.Assign = map[string]split.Destination{"Size": split.New}
	_, report := decide(t, shop(t, nil), asked)
	want := []finding.Finding{{Where: "api/v1/size.go:6",
		Text: "rounded is shared, but uses Size, which belongs to a version: change one of them, or use --assign"}}
	if diff := cmp.Diff(want, finding.Distinct(report.Blockers)); diff != "" {
		t.Errorf("blockers (-want +got):\n%s", diff)
	}
}

func TestAFunctionThatStaysAndTakesTheKindIsACrossing(t *testing.T) {
	t.Parallel()
	l, _ := decide(t, shop(t, map[string]string{"api/v1/gadget_from.go": "package v1\n\n// From copies the size.\n" +
		"func (g *Gadget) From(w *Widget) { g.Size = w.Spec.Size }\n"}), shopRequest())
	var got []string
	for _, function := range l.Crossings() {
		got = append(got, function.Name())
	}
	if diff := cmp.Diff([]string{"From"}, got); diff != "" {
		t.Errorf("crossings (-want +got):\n%s", diff)
	}
}

// The new version has the kinds already: nothing moves, and importers find the names there.
func TestOnlyImportersMoveToAVersionThatHasTheKinds(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for _, name := range []string{"groupversion_info.go", "widget_types.go", "size.go"} {
		text := fixture.Archive(t, "testdata/shop.txtar")["api/v1/"+name]
		files["api/v2/"+name] = strings.NewReplacer("package v1", "package v2", `"v1"`, `"v2"`, "// +kubebuilder:storageversion\n", "").
			Replace(text)
	}
	l, report := decide(t, shop(t, files), shopRequest())
	if !l.MovesOnlyImporters() || len(report.Blockers) > 0 {
		t.Fatalf("only importers: %v, blockers %v", l.MovesOnlyImporters(), report.Blockers)
	}
	got := seen(l, Importer)
	want := map[string]string{"Widget": "api/v2.Widget", "WidgetSpec": "api/v2.WidgetSpec", "Gadget": "api/v1.Gadget"}
	for name, at := range want {
		if got[name] != at {
			t.Errorf("%s is found as %s, want %s", name, got[name], at)
		}
	}
}
