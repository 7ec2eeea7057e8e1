// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	_ "embed" // templates
	"fmt"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf8"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

var (
	//go:embed templates/methods.tmpl
	methodsText string
	//go:embed templates/roundtrip.tmpl
	roundTripText string
	//go:embed preserve/preserve.go
	preserveText string
)

// addSpoke compares a version with the hub and writes its conversion, if it has none.
func (s *scaffold) addSpoke(version *project.Version) error {
	own := map[*types.Package]bool{}
	for _, pkg := range s.project.Packages {
		own[pkg.Types] = true
	}
	d := newDecider(version.Package.Types, func(pkg *types.Package) bool { return own[pkg] })
	root := d.kind(typeOf(version, s.request.Kind), typeOf(s.hub, s.request.Kind))
	look := &survey{spokeName: version.Version, hubName: s.hub.Version, spokeKeys: map[string][]string{},
		hubKeys: map[string][]string{}, keys: s.listKeys, preserve: s.request.Preserve}
	look.pair(root, "", "")
	from, name := s.siblings(version)
	spoke := Spoke{Version: version.Version, Rote: look.rote,
		Differing: append([]Field{}, look.differing...), Empty: append([]Field{}, look.empty...), File: name + ".go"}
	spoke.Same = len(look.differing) == 0 && !look.renamed
	defer func() { s.plan.Spokes = append(s.plan.Spokes, spoke) }()
	if version.HasMethod(s.request.Kind, "ConvertTo") {
		spoke.Skipped = "it has ConvertTo and ConvertFrom"
		return nil
	}
	if err := s.mustBeFree(name + ".go"); err != nil {
		return err
	}
	licence, err := header(from)
	if err != nil {
		return err
	}
	w := &writer{scaffold: s, version: version, licence: licence, decider: d, root: root, survey: look,
		preserve: s.request.Preserve && (len(look.differing) > 0 || look.losesEmpty)}
	content, err := w.conversion()
	if err != nil {
		return err
	}
	s.add(name+".go", content)
	if w.preserve {
		if err := s.addPreserve(licence); err != nil {
			return err
		}
	}
	there, err := exists(s.project.Root, name+"_test.go")
	if err != nil || there {
		return err
	}
	if content, err = w.test(path.Base(name) + ".go"); err != nil {
		return err
	}
	s.add(name+"_test.go", content)
	s.plan.Tests = append(s.plan.Tests, testCommand(s.project.Workspace, version.Package.Dir))
	return nil
}

// testCommand is run in the project's root.
func testCommand(workspace *project.Workspace, dir string) string {
	within := "./" + dir
	if module := workspace.ModuleOf(dir); module.Dir != "." {
		within = "./" + strings.TrimPrefix(strings.TrimPrefix(dir, module.Dir), "/")
	}
	return goCommand(workspace, dir) + " test " + within
}

// addPreserve copies the package that keeps fields in annotations, next to the versions, unless it is there.
func (s *scaffold) addPreserve(licence string) error {
	name := s.preserveDir() + "/preserve.go"
	there, err := exists(s.project.Root, name)
	if err != nil || there || slices.ContainsFunc(s.plan.Files, func(f File) bool { return f.Path == name }) {
		return err
	}
	_, text, _ := strings.Cut(preserveText, "\n\n") // what is above it is our licence
	s.add(name, []byte(licence+text))
	return nil
}

// preserveDir lies in the deepest folder that all versions lie in.
func (s *scaffold) preserveDir() string {
	parent := path.Dir(s.hub.Package.Dir)
	for slices.ContainsFunc(s.versions, func(v *project.Version) bool {
		return parent != "." &&
			!strings.HasPrefix(v.Package.Dir, parent+"/")
	}) {
		parent = path.Dir(parent)
	}
	return path.Join(parent, "internal", "preserve")
}

// writer writes the files of one spoke.
type writer struct {
	*scaffold
	version  *project.Version
	licence  string
	decider  *decider
	root     *pair
	survey   *survey
	preserve bool
}

// names is what the templates say.
type names struct {
	Kind, Lower, Group        string
	SpokeVersion, HubVersion  string
	SpokeSuffix, HubSuffix    string // parts of names: V1, V2
	Conversion, Fmt           string // how packages are called
	HubPackage                string
	PreservePackage           string
	Preserve                  bool
	SpokeKeys, HubKeys        string
	ToHub, FromHub            function
	Call                      func(f function, in, out string) string
	FuzzPackage, Filler, Fill string
	JSON                      string // a type that holds any JSON
	File                      string
}

func (w *writer) names(i *imports) names {
	n := names{
		Kind: w.request.Kind, Lower: lower(w.request.Kind), Group: w.hub.Group, SpokeVersion: w.version.Version,
		HubVersion:  w.hub.Version,
		SpokeSuffix: upper(w.version.Version), HubSuffix: upper(w.hub.Version), Preserve: w.preserve,
		ToHub: w.root.toHub, FromHub: w.root.fromHub,
		HubPackage: i.name(w.hub.Package.Path, w.hub.Package.Name),
	}
	n.Call = func(f function, in, out string) string {
		if !f.fallible {
			return f.name + "(" + in + ", " + out + ")"
		}
		return "if err := " + f.name + "(" + in + ", " + out + "); err != nil {\nreturn err\n}"
	}
	return n
}

// conversion is the file with the methods of a spoke and the functions that they call.
func (w *writer) conversion() ([]byte, error) {
	i := newImports(w.project.Workspace.ModuleOf(w.version.Package.Dir).Path, w.version.Package.Types)
	r := &renderer{spoke: w.version.Package.Types, hub: w.hub.Package.Types, version: upper(w.hub.Version), imports: i}
	r.name(w.decider.pairs)
	n := w.names(i)
	n.Conversion, n.Fmt = i.name(conversionPackage, "conversion"), i.name("fmt", "fmt")
	if w.preserve {
		n.PreservePackage = i.name(w.project.Workspace.ImportPath(w.preserveDir()), "preserve")
		n.SpokeKeys, n.HubKeys = keysLiteral(n.PreservePackage, w.survey.spokeKeys),
			keysLiteral(n.PreservePackage, w.survey.hubKeys)
	}
	body, err := execute(methodsText, n)
	if err != nil {
		return nil, err
	}
	r.functions(w.decider.pairs)
	return source(w.licence, w.version.Package.Name, i, body+r.out.String())
}

// test is the file with the test that converts random objects.
func (w *writer) test(file string) ([]byte, error) {
	i := newImports(w.project.Workspace.ModuleOf(w.version.Package.Dir).Path, w.version.Package.Types)
	for _, name := range []string{"bytes", "encoding/json", "fmt", "math/rand", "reflect", "sort",
		"strings", "testing", "time",
		"k8s.io/apimachinery/pkg/runtime", "k8s.io/apimachinery/pkg/runtime/schema",
		"k8s.io/apimachinery/pkg/runtime/serializer", fuzzerPackage} {
		i.name(name, path.Base(name))
	}
	i.name(project.MetaPackage, "v1")
	i.name(metaFuzzerPackage, "metafuzzer")
	n := w.names(i)
	n.File, n.FuzzPackage, n.Filler, n.Fill = file, i.name(randfillPackage, "randfill"), "Filler", "Fill"
	if w.libraries.fuzz == gofuzzPackage {
		delete(i.names, randfillPackage)
		n.FuzzPackage, n.Filler, n.Fill = i.name(gofuzzPackage, "fuzz"), "Fuzzer", "Fuzz"
	}
	if json := w.anyJSON(); json != nil {
		n.JSON = i.name(json.Pkg().Path(), "apiextensionsv1") + "." + json.Name()
	}
	body, err := execute(roundTripText, n)
	if err != nil {
		return nil, err
	}
	return source(w.licence, w.version.Package.Name, i, body)
}

// anyJSON is the type for any JSON, if a field has it: bytes by chance are none.
func (w *writer) anyJSON() *types.TypeName {
	seen := map[types.Type]bool{}
	var find func(types.Type) *types.TypeName
	find = func(t types.Type) *types.TypeName {
		if seen[t] {
			return nil
		}
		seen[t] = true
		if named, ok := types.Unalias(t).(*types.Named); ok {
			if name := named.Obj(); name.Name() == "JSON" && name.Pkg() != nil &&
				project.Unvendored(name.Pkg().Path()) == extensionsPackage {
				return name
			}
		}
		switch t := t.Underlying().(type) {
		case *types.Map:
			return find(t.Elem())
		case interface{ Elem() types.Type }: // a pointer, a slice, an array
			return find(t.Elem())
		case *types.Struct:
			for field := range t.Fields() {
				if found := find(field.Type()); found != nil {
					return found
				}
			}
		}
		return nil
	}
	if found := find(w.root.spoke); found != nil {
		return found
	}
	return find(w.root.hub)
}

func execute(text string, n names) (string, error) {
	parsed, err := template.New("").Parse(text)
	if err != nil {
		return "", fmt.Errorf("read template: %w", err)
	}
	var out strings.Builder
	if err := parsed.Execute(&out, n); err != nil {
		return "", fmt.Errorf("fill template: %w", err)
	}
	return out.String(), nil
}

func keysLiteral(pkg string, keys map[string][]string) string {
	var entries []string
	for _, path := range slices.Sorted(maps.Keys(keys)) {
		entries = append(entries, fmt.Sprintf("%q: {\"%s\"}", path, strings.Join(keys[path], `", "`)))
	}
	const longest = 80 // what stands before it is short
	if line := strings.Join(entries, ", "); len(line) <= longest {
		return pkg + ".Keys{" + line + "}"
	}
	return pkg + ".Keys{\n" + strings.Join(entries, ",\n") + ",\n}"
}

// lower makes an unexported name of an exported one: widget of Widget, dnsRecord of DNSRecord.
func lower(name string) string {
	letters := []rune(name)
	for i := range letters {
		if !unicode.IsUpper(letters[i]) || i > 0 && i+1 < len(letters) && !unicode.IsUpper(letters[i+1]) {
			break
		}
		letters[i] = unicode.ToLower(letters[i])
	}
	return string(letters)
}

func upper(name string) string {
	first, size := utf8.DecodeRuneInString(name)
	return string(unicode.ToUpper(first)) + name[size:]
}
