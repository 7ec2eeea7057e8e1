// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"context"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/tools/go/packages"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
)

// checker type-checks the packages of a module. The project's own packages are checked from their source, and so are
// those that import one of them; the rest comes from the compiler's export data, which the go command keeps in its build
// cache. packages.Load does this as well, but has the compiler build the project's own packages first, and does not use
// the outcome: for a copy of a project, that is most of the work.
type checker struct {
	root    string // of the project
	asked   []*packages.Package
	fset    *token.FileSet
	overlay map[string][]byte
	roots   map[string]bool  // IDs of the packages that are asked for
	nodes   map[string]*node // by the package's ID
	paths   map[string]bool  // of all packages
	order   []*node          // each behind those that it imports
	parsed  map[string]*parsedFile
	parseMu sync.Mutex // guards parsed

	list Lister
	*libraries
	exportMu sync.Mutex     // guards importer
	importer types.Importer // of export data
}

// Lister is packages.Load, or stands in for it. A package that comes with types is taken as it is.
type Lister func(config *packages.Config, patterns ...string) ([]*packages.Package, error)

// Libraries are what the go command has compiled of packages that are not the project's own, by the folder of the module
// that imports them.
type Libraries map[string]*libraries

type libraries struct {
	exports map[string]string // files with export data, by the path of their package; empty for one that has none
	sizes   types.Sizes       // of the compiler
}

// node is a package on its way.
type node struct {
	*packages.Package
	isRoot, fromSource bool
	done               chan struct{}
}

type parsedFile struct {
	once   sync.Once
	syntax *ast.File
	err    error
}

// metadata is what the go command knows of packages without compiling any. Files that are made with cgo are not among that.
const metadata = packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedModule |
	packages.NeedForTest | packages.NeedEmbedFiles

// loadModule returns the packages below the folder of a configuration, with syntax, types and what does not compile.
func (p *Project) loadModule(ctx context.Context, module Module, config packages.Config) ([]*packages.Package, error) {
	if p.Libraries[module.Dir] == nil {
		p.Libraries[module.Dir] = &libraries{exports: map[string]string{}}
	}
	c, err := p.newChecker(config, metadata, p.Libraries[module.Dir])
	if err == nil && c.usesCgo() {
		c, err = p.newChecker(config, metadata|packages.NeedCompiledGoFiles, p.Libraries[module.Dir])
	}
	if err != nil {
		return nil, err
	}
	if err := c.findExports(config); err != nil {
		return nil, err
	}
	if err := c.check(ctx); err != nil {
		return nil, err
	}
	return c.asked, nil
}

// newChecker asks the go command for the packages below the folder of a configuration.
func (p *Project) newChecker(config packages.Config, mode packages.LoadMode, known *libraries) (*checker, error) {
	config.Mode = mode
	roots, err := p.list(&config, "./...")
	if err != nil {
		return nil, err
	}
	// The go command writes the programs that run tests.
	roots = slices.DeleteFunc(roots, func(root *packages.Package) bool { return strings.HasSuffix(root.PkgPath, ".test") })
	c := &checker{root: p.Root, fset: p.Fset, overlay: p.overlay, asked: roots, nodes: map[string]*node{},
		roots: map[string]bool{}, paths: map[string]bool{}, parsed: map[string]*parsedFile{}, list: p.list, libraries: known}
	c.importer = importer.ForCompiler(p.Fset, "gc", func(name string) (io.ReadCloser, error) { return os.Open(c.exports[name]) })
	for _, root := range roots {
		c.roots[root.ID] = true
	}
	for _, root := range roots {
		c.visit(root)
	}
	return c, nil
}

// usesCgo reports whether the compiler sees other files of a package than those that there are.
func (c *checker) usesCgo() bool {
	return slices.ContainsFunc(c.order, func(n *node) bool {
		return n.fromSource && slices.ContainsFunc(n.GoFiles, func(name string) bool {
			syntax, _ := c.parse(name)
			return syntax != nil && source.Imports(syntax, "C")
		})
	})
}

// visit adds a package and what it imports, and finds out which ones are checked from their source. packages.Load has taken
// imports away that lead back to the package.
func (c *checker) visit(pkg *packages.Package) *node {
	n := c.nodes[pkg.ID]
	if n != nil {
		return n
	}
	isRoot := c.roots[pkg.ID]
	n = &node{Package: pkg, done: make(chan struct{}), isRoot: isRoot, fromSource: isRoot || c.isOwn(pkg)}
	if len(pkg.CompiledGoFiles) == 0 {
		pkg.CompiledGoFiles = pkg.GoFiles
	}
	c.paths[pkg.PkgPath] = true
	c.nodes[pkg.ID] = n
	for _, imported := range pkg.Imports {
		n.fromSource = c.visit(imported).fromSource || n.fromSource
	}
	c.order = append(c.order, n)
	return n
}

// isOwn reports whether a package lies in the project's folder, and is not a copy of another project's, in a folder vendor
// or in a module cache that lies there.
func (c *checker) isOwn(pkg *packages.Package) bool {
	if of := pkg.Module; of != nil && !of.Main && (of.Replace == nil || of.Replace.Version != "") {
		return false
	}
	for _, file := range slices.Concat(pkg.GoFiles, pkg.CompiledGoFiles) {
		if within(c.root, file) {
			return !strings.Contains(filepath.ToSlash(file[len(c.root):]), "/vendor/")
		}
	}
	return false
}

// findExports has the go command compile what is not in its build cache of the packages that are not checked from their
// source. What does not compile is checked from its source, too, with the packages that it imports.
func (c *checker) findExports(config packages.Config) error {
	config.Mode, config.Tests = packages.NeedName|packages.NeedExportFile|packages.NeedTypesSizes, false
	for {
		var names []string
		for _, n := range slices.Backward(c.order) {
			if !n.fromSource {
				continue
			}
			for _, imported := range n.Imports {
				of := c.nodes[imported.ID]
				export, known := c.exports[of.PkgPath]
				switch {
				case of.fromSource || of.Types != nil || of.PkgPath == "unsafe":
				case !known && len(of.GoFiles) > 0:
					names = append(names, of.PkgPath)
				case export == "":
					of.fromSource = true
				}
			}
		}
		if len(names) == 0 {
			return nil
		}
		slices.Sort(names)
		names = slices.Compact(names)
		found, err := c.list(&config, names...)
		if err != nil {
			return err
		}
		for _, name := range names {
			c.exports[name] = ""
		}
		for _, pkg := range found {
			c.exports[pkg.PkgPath], c.sizes = pkg.ExportFile, pkg.TypesSizes
		}
	}
}

// check type-checks the packages, several at a time, each after those that it imports.
func (c *checker) check(ctx context.Context) error {
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	needed := map[*node]bool{}
	for _, n := range slices.Backward(c.order) {
		if !n.isRoot && !needed[n] || !n.fromSource {
			continue
		}
		needed[n] = true
		for _, imported := range n.Imports {
			needed[c.nodes[imported.ID]] = true
		}
	}
	for _, n := range c.order {
		if !needed[n] || !n.fromSource {
			close(n.done)
			continue
		}
		go func() {
			defer close(n.done)
			for _, imported := range n.Imports {
				<-c.nodes[imported.ID].done
			}
			turns <- struct{}{}
			defer func() { <-turns }()
			if ctx.Err() == nil {
				c.checkPackage(n)
			}
		}()
	}
	for _, n := range c.order {
		<-n.done
	}
	return ctx.Err()
}

func (c *checker) checkPackage(n *node) {
	for _, name := range n.CompiledGoFiles {
		syntax, err := c.parse(name)
		n.addError(err)
		if syntax != nil {
			n.Syntax = append(n.Syntax, syntax)
		}
	}
	n.Fset = c.fset
	n.Types = types.NewPackage(n.PkgPath, n.Name)
	if n.isRoot {
		n.TypesInfo = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{},
			Uses: map[*ast.Ident]types.Object{}, Implicits: map[ast.Node]types.Object{}}
	}
	config := &types.Config{
		Importer: importerOf(func(name string) (*types.Package, error) { return c.importFor(n, name) }), Error: n.addError,
		IgnoreFuncBodies: !n.isRoot, Sizes: c.sizes,
	}
	if n.Module != nil && n.Module.GoVersion != "" {
		config.GoVersion = "go" + n.Module.GoVersion
	}
	_ = types.NewChecker(config, c.fset, n.Types, n.TypesInfo).Files(n.Syntax) // it reports each error
	n.Types.MarkComplete()
	switch plain := c.nodes[n.PkgPath]; {
	case !n.isRoot:
		n.Syntax = nil
	case plain != nil && plain != n: // which has the same files with types of their own
		n.TypesInfo = infoOf(n.TypesInfo, slices.DeleteFunc(slices.Clone(n.Syntax), func(file *ast.File) bool {
			return slices.Contains(plain.CompiledGoFiles, c.fset.Position(file.Package).Filename)
		}))
	}
}

type importerOf func(name string) (*types.Package, error)

func (f importerOf) Import(name string) (*types.Package, error) { return f(name) }

// importFor is the package that the source of another one imports by a name.
func (c *checker) importFor(n *node, name string) (*types.Package, error) {
	imported := n.Imports[name]
	switch {
	case name == "unsafe":
		return types.Unsafe, nil
	case imported == nil && c.paths[name]: // see visit
		return nil, errors.New(importCycle)
	case imported == nil:
		return nil, errors.New("it is not known to the go command")
	case imported.Types != nil: // from its source
		return imported.Types, nil
	}
	return c.importExport(imported.PkgPath)
}

func (c *checker) importExport(name string) (*types.Package, error) {
	c.exportMu.Lock()
	defer c.exportMu.Unlock()
	return c.importer.Import(name)
}

// parse reads a file once. The variants of a package share what it says.
func (c *checker) parse(name string) (*ast.File, error) {
	c.parseMu.Lock()
	file := c.parsed[name]
	if file == nil {
		file = &parsedFile{}
		c.parsed[name] = file
	}
	c.parseMu.Unlock()
	file.once.Do(func() {
		var content any
		if text, ok := c.overlay[name]; ok {
			content = text
		}
		file.syntax, file.err = parser.ParseFile(c.fset, name, content, parser.AllErrors|parser.ParseComments)
	})
	return file.syntax, file.err
}

// addError takes what is wrong with a package, as packages.Load does.
func (n *node) addError(err error) {
	var (
		list scanner.ErrorList
		typ  types.Error
		path *os.PathError
	)
	switch {
	case err == nil:
	case errors.As(err, &list):
		for _, one := range list {
			n.Errors = append(n.Errors, packages.Error{Pos: one.Pos.String(), Msg: one.Msg, Kind: packages.ParseError})
		}
	case errors.As(err, &typ):
		n.Errors = append(n.Errors, packages.Error{Pos: typ.Fset.Position(typ.Pos).String(), Msg: typ.Msg,
			Kind: packages.TypeError})
	case errors.As(err, &path):
		n.Errors = append(n.Errors, packages.Error{Pos: path.Path + ":1", Msg: path.Err.Error(), Kind: packages.ParseError})
	default:
		n.Errors = append(n.Errors, packages.Error{Msg: err.Error(), Kind: packages.UnknownError})
	}
}
