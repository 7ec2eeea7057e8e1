// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package mention

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/astutil"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

// purpose is what code does with a value that says a version: what it is compared with, or passed to. It decides what
// goes wrong at run time if the value means another version than the objects do.
type purpose string

const (
	purposeUnknown   purpose = ""
	purposeOwner     purpose = "owner"     // compared with the apiVersion of an owner reference
	purposeRequest   purpose = "request"   // compared with the kind or the resource of an admission request
	purposeOwns      purpose = "owns"      // written to an owner reference
	purposeRefers    purpose = "refers"    // written to a reference to an object
	purposeObject    purpose = "object"    // the apiVersion of an object
	purposeDynamic   purpose = "dynamic"   // asked of a client that takes a resource
	purposeInforms   purpose = "informs"   // watched
	purposeDiscovery purpose = "discovery" // looked for in discovery
	purposeMapping   purpose = "mapping"   // mapped from kind to resource or back
	purposeRegisters purpose = "registers" // the version of Go types in a scheme
	purposeScheme    purpose = "scheme"    // looked up in a scheme
	purposeCodec     purpose = "codec"     // the version that a codec writes or reads
	purposeREST      purpose = "rest"      // the version of a REST client
	purposeExported  purpose = "exported"  // held by an exported variable or constant
	purposeReturned  purpose = "returned"  // returned by an exported function
)

// consequences say what goes wrong. IN stands for the version that the value says, and NOT for the other one.
var consequences = map[purpose]string{
	purposeOwner:   "owner references that say NOT do not match. Accept both versions, or compare the group and the kind",
	purposeRequest: "requests in NOT do not match. Accept both versions, or compare the group and the resource",
	purposeOwns: "owner references are written with IN. Code that compares them with NOT does not find these objects, " +
		"and the garbage collector cannot look up an owner in a version that is not served",
	purposeRefers: "references are written with IN, and lead nowhere once that version is not served",
	purposeObject: "objects are read and written in IN. Requests fail where that version is not served, or if a client " +
		"sends them to a path of NOT",
	purposeDynamic: "a client sends requests in IN. They fail with NotFound where that version is not served, and " +
		"objects come back in IN, not in NOT",
	purposeInforms: "an informer lists and watches IN. It does not sync where that version is not served, and its " +
		"objects are in IN, not in NOT",
	purposeDiscovery: "discovery is asked for IN. The code takes the API for missing where that version is not served",
	purposeMapping:   "the RESTMapper is asked for IN. It finds no match where that version is not served",
	purposeRegisters: "a scheme gets Go types under IN. Types of NOT that are registered with it are written with the " +
		"wrong apiVersion",
	purposeScheme: "a scheme is asked for IN. It answers for the Go types of that version alone, not for those of NOT",
	purposeCodec:  "a codec reads and writes IN. It has no conversion to Go types of NOT unless the scheme has one",
	purposeREST:   "a client sends requests to paths of IN. They fail with NotFound where that version is not served",
	purposeExported: "it is exported, so code of other programs may compare it with objects, ownerReferences and " +
		"requests that say NOT",
	purposeReturned: "an exported function returns it, so callers in other programs may compare it with objects, " +
		"ownerReferences and requests that say NOT",
}

// callee is a function or method.
type callee struct {
	in    string   // the package that declares it; empty for any
	names []string // empty for all of the package and those below it
	to    purpose
}

// callees are the functions and methods that take versions.
var callees = []callee{
	{"", []string{"ForResource", "GetInformerForKind"}, purposeInforms},
	{"", []string{"SetGroupVersionKind", "SetAPIVersion"}, purposeObject},
	{"k8s.io/client-go/dynamic/dynamicinformer", nil, purposeInforms},
	{"k8s.io/client-go/dynamic", nil, purposeDynamic},
	{"k8s.io/client-go/metadata/metadatainformer", nil, purposeInforms},
	{"k8s.io/client-go/metadata", nil, purposeDynamic},
	{"k8s.io/client-go/informers", nil, purposeInforms},
	{"k8s.io/client-go/discovery", nil, purposeDiscovery},
	{"k8s.io/client-go/restmapper", nil, purposeMapping},
	{"k8s.io/apimachinery/pkg/api/meta", nil, purposeMapping},
	{"k8s.io/apimachinery/pkg/apis/meta/v1", []string{"NewControllerRef"}, purposeOwns},
	{"k8s.io/apimachinery/pkg/apis/meta/v1", []string{"AddToGroupVersion"}, purposeRegisters},
	{"k8s.io/apimachinery/pkg/runtime/serializer", nil, purposeCodec},
	{"k8s.io/apimachinery/pkg/runtime", []string{"EncoderForVersion", "DecoderToVersion"}, purposeCodec},
	{"k8s.io/apimachinery/pkg/runtime", []string{"AddKnownTypes", "AddKnownTypeWithName", "SetVersionPriority",
		"AddUnversionedTypes"}, purposeRegisters},
	{"k8s.io/apimachinery/pkg/runtime", []string{"New", "Recognizes", "IsVersionRegistered", "KnownTypes",
		"IsGroupRegistered", "VersionsForGroupKind"}, purposeScheme},
	{"k8s.io/client-go/applyconfigurations/meta/v1", []string{"WithAPIVersion"}, purposeOwns},
	{"k8s.io/client-go/applyconfigurations/core/v1", []string{"WithAPIVersion"}, purposeRefers},
	{"sigs.k8s.io/controller-runtime/pkg/client/apiutil", []string{"RESTClientForGVK"}, purposeREST},
}

// calleePurpose is what a call does with an argument.
func calleePurpose(file *project.File, call *ast.CallExpr) purpose {
	var name *ast.Ident
	switch function := ast.Unparen(call.Fun).(type) {
	case *ast.SelectorExpr:
		name = function.Sel
	case *ast.Ident:
		name = function
	default:
		return purposeUnknown
	}
	function, ok := file.Info.Uses[name].(*types.Func)
	if !ok || function.Pkg() == nil {
		return purposeUnknown
	}
	in := project.Unvendored(function.Pkg().Path())
	for _, one := range callees {
		isIn := one.in == "" || in == one.in || one.names == nil && strings.HasPrefix(in, one.in+"/")
		if isIn && (one.names == nil || slices.Contains(one.names, function.Name())) {
			return one.to
		}
	}
	return purposeUnknown
}

// fieldPurpose is what a field of a struct says.
func fieldPurpose(of types.Type, field string) purpose {
	object := NamedIn(of)
	if of == nil || object == nil {
		return purposeUnknown
	}
	switch {
	case field == "GroupVersion" && strings.HasSuffix(object.Name(), "Config"):
		return purposeREST
	case field != "APIVersion":
		return purposeUnknown
	case strings.HasPrefix(object.Name(), "OwnerReference"):
		return purposeOwns
	case strings.HasSuffix(object.Name(), "Reference"):
		return purposeRefers
	}
	return purposeObject
}

// purposesOf follows a value from an expression outwards, and through variables and unexported functions of the
// package, to what is done with it. It returns each purpose once; none where nothing is known.
func (r codeReader) purposesOf(use ast.Expr) []purpose {
	var found []purpose
	r.follow(use, map[types.Object]bool{}, func(p purpose) {
		if p != purposeUnknown && !slices.Contains(found, p) {
			found = append(found, p)
		}
	})
	return found
}

// consequencesOf says what goes wrong at run time where a value that stands in an expression means one version, and
// objects the other; empty where its purpose is not known.
func (s *Reader) consequencesOf(file *project.File, use ast.Expr, meant, other string) string {
	i := slices.IndexFunc(s.Project.Packages, func(p *project.Package) bool { return slices.Contains(p.Files, file) })
	if i < 0 {
		return ""
	}
	words := []string{"IN", meant, "NOT", other}
	if s.Group != s.Old.Group {
		words = append(words, "both versions, or compare the group and the kind", "both groups",
			"both versions, or compare the group and the resource", "both groups")
	}
	var sentences []string
	for _, p := range (codeReader{s, s.Project.Packages[i], file}).purposesOf(use) {
		text := strings.NewReplacer(words...).Replace(consequences[p])
		if len(sentences) > 0 {
			text = strings.ToUpper(text[:1]) + text[1:]
		}
		sentences = append(sentences, text)
	}
	if len(sentences) > 0 && len(s.Successions) > 0 {
		sentences = append(sentences, "Decide which one is meant")
	}
	return strings.Join(sentences, ". ")
}

func (r codeReader) follow(use ast.Expr, seen map[types.Object]bool, found func(purpose)) {
	path, _ := astutil.PathEnclosingInterval(r.file.Syntax, use.Pos(), use.End())
	var inner ast.Node = use
	for i, node := range path {
		if node == inner {
			continue
		}
		switch node := node.(type) {
		case *ast.ParenExpr, *ast.UnaryExpr, *ast.StarExpr, *ast.SelectorExpr:
		case *ast.BinaryExpr:
			found(r.comparedWith(node, inner))
			return
		case *ast.CaseClause:
			if around, ok := path[min(i+2, len(path)-1)].(*ast.SwitchStmt); ok && around.Tag != nil {
				found(r.purposeOfSubject(around.Tag))
			}
			return
		case *ast.CallExpr:
			if node.Fun != inner && !r.file.Info.Types[node.Fun].IsType() {
				p := calleePurpose(r.file, node)
				if p != purposeUnknown {
					found(p)
					return
				}
				if !carriesVersion(r.file.Info.TypeOf(node)) && !isTuple(r.file.Info.TypeOf(node)) {
					return // it ends in the call
				}
			}
		case *ast.KeyValueExpr:
			if p := r.purposeOfKey(node, path[min(i+1, len(path)-1)]); p != purposeUnknown || node.Key == inner {
				found(p)
				return
			}
		case *ast.CompositeLit:
			if !isGroupVersion(r.file.Info.TypeOf(node)) && !carriesVersion(r.file.Info.TypeOf(node)) {
				return
			}
		case *ast.ValueSpec:
			for _, name := range node.Names {
				r.followObject(r.file.Info.Defs[name], seen, found)
			}
			return
		case *ast.AssignStmt:
			r.followAssigned(node, inner, seen, found)
			return
		case *ast.ReturnStmt:
			r.followReturned(path[i:], seen, found)
			return
		default:
			return
		}
		inner = node
	}
}

func isTuple(t types.Type) bool {
	_, ok := t.(*types.Tuple)
	return ok
}

// comparedWith is the purpose of one side of a comparison.
func (r codeReader) comparedWith(comparison *ast.BinaryExpr, side ast.Node) purpose {
	if comparison.Op != token.EQL && comparison.Op != token.NEQ {
		return purposeUnknown
	}
	if comparison.X == side {
		return r.purposeOfSubject(comparison.Y)
	}
	return r.purposeOfSubject(comparison.X)
}

func (r codeReader) purposeOfSubject(expr ast.Expr) purpose {
	return map[subject]purpose{subjectOwner: purposeOwner, subjectRequest: purposeRequest}[r.subjectOf(expr)]
}

// purposeOfKey is what an element of a literal says.
func (r codeReader) purposeOfKey(pair *ast.KeyValueExpr, literal ast.Node) purpose {
	around, ok := literal.(*ast.CompositeLit)
	if !ok {
		return purposeUnknown
	}
	if key, _ := known(r.file, pair.Key); key == "apiVersion" {
		return purposeObject // of an unstructured object
	}
	key, ok := pair.Key.(*ast.Ident)
	if !ok {
		return purposeUnknown
	}
	return fieldPurpose(r.file.Info.TypeOf(around), key.Name)
}

func (r codeReader) followAssigned(statement *ast.AssignStmt, value ast.Node, seen map[types.Object]bool,
	found func(purpose)) {
	for i, left := range statement.Lhs {
		if len(statement.Rhs) == len(statement.Lhs) && statement.Rhs[i] != value {
			continue
		}
		switch left := ast.Unparen(left).(type) {
		case *ast.Ident:
			if object := r.file.Info.ObjectOf(left); object != nil && carriesVersion(object.Type()) {
				r.followObject(object, seen, found)
			}
		case *ast.SelectorExpr:
			found(fieldPurpose(r.file.Info.TypeOf(left.X), left.Sel.Name))
		}
	}
}

// followReturned goes on at the callers. path begins at the statement.
func (r codeReader) followReturned(path []ast.Node, seen map[types.Object]bool, found func(purpose)) {
	for _, node := range path {
		switch node := node.(type) {
		case *ast.FuncLit:
			return
		case *ast.FuncDecl:
			if node.Name.IsExported() {
				found(purposeReturned)
			}
			r.followObject(r.file.Info.Defs[node.Name], seen, found)
			return
		}
	}
}

// followObject goes on at the uses of a variable, a constant or a function.
func (r codeReader) followObject(object types.Object, seen map[types.Object]bool, found func(purpose)) {
	if object == nil || object.Pkg() == nil || seen[object] {
		return
	}
	seen[object] = true
	_, isFunction := object.(*types.Func)
	if object.Exported() && object.Parent() == object.Pkg().Scope() && !isFunction {
		found(purposeExported)
	}
	for _, use := range usesOf(r.pkg, object) {
		codeReader{r.Reader, r.pkg, use.file}.follow(use.expr, seen, found)
	}
}
