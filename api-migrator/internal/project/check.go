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
)

// checker type-checks the packages of a module. The project's own packages are checked from their source, and so are
// those that import one of them; the rest comes from the compiler's export data, which the go command keeps in its build
// cache. packages.Load does this as well, but has the compiler build the project's own packages first, and does not use
// the outcome: for a copy of a project, that is most of the work.
type checker struct {
	root    string // of the project
	fset    *token.FileSet
	overlay map[string][]byte
	roots   map[string]bool  // IDs of the packages that are asked for
	nodes   map[string]*node // by the package's ID
	paths   map[string]bool  // of all packages
	order   []*node          // each behind those that it imports
	parsed  map[string]*parsedFile
	parseMu sync.Mutex // guards parsed

	exports  map[string]string // files with export data, by the path of their package
	exportMu sync.Mutex        // guards importer
	importer types.Importer    // of export data
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

// metadata is what the go command knows of packages without compiling any.
const metadata = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
	packages.NeedDeps | packages.NeedModule | packages.NeedForTest | packages.NeedEmbedFiles | packages.NeedTypesSizes

// load returns the packages below the folder of a configuration, with syntax, types and what does not compile.
func (p *Project) load(ctx context.Context, config packages.Config) ([]*packages.Package, error) {
	config.Mode = metadata
	roots, err := packages.Load(&config, "./...")
	if err != nil {
		return nil, err
	}
	c := &checker{root: p.Root, fset: p.Fset, overlay: p.overlay, nodes: map[string]*node{},
		roots: map[string]bool{}, paths: map[string]bool{},
		parsed: map[string]*parsedFile{}, exports: map[string]string{}}
	c.importer = importer.ForCompiler(p.Fset, "gc", func(name string) (io.ReadCloser, error) { return os.Open(c.exports[name]) })
	for _, root := range roots {
		c.roots[root.ID] = true
	}
	for _, root := range roots {
		c.visit(root)
	}
	if err := c.findExports(config); err != nil {
		return nil, err
	}
	if err := c.check(ctx); err != nil {
		return nil, err
	}
	return roots, nil
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
// source. What does not compile is checked from its source, too.
func (c *checker) findExports(config packages.Config) error {
	var names []string
	for _, n := range c.order {
		if !n.fromSource {
			continue
		}
		for _, imported := range n.Imports {
			if of := c.nodes[imported.ID]; !of.fromSource && of.PkgPath != "unsafe" && len(of.CompiledGoFiles) > 0 {
				names = append(names, of.PkgPath)
			}
		}
	}
	slices.Sort(names)
	var found []*packages.Package
	if names = slices.Compact(names); len(names) > 0 {
		config.Mode, config.Tests = packages.NeedName|packages.NeedExportFile|packages.NeedImports|packages.NeedDeps, false
		var err error
		if found, err = packages.Load(&config, names...); err != nil {
			return err
		}
	}
	packages.Visit(found, nil, func(pkg *packages.Package) {
		if pkg.ExportFile != "" {
			c.exports[pkg.PkgPath] = pkg.ExportFile
		}
	})
	for _, n := range slices.Backward(c.order) {
		if !n.fromSource {
			continue
		}
		for _, imported := range n.Imports {
			of := c.nodes[imported.ID]
			of.fromSource = of.fromSource || c.exports[of.PkgPath] == "" && of.PkgPath != "unsafe"
		}
	}
	return nil
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
		IgnoreFuncBodies: !n.isRoot, Sizes: n.TypesSizes,
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
