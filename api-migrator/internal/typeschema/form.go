// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package typeschema

import (
	"cmp"
	"go/types"
	"slices"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

// form is how encoding/json writes a type.
type form int

const (
	scalar   form = iota // a number, a boolean, or a string
	list                 // an array
	keyed                // an object with any keys
	fields               // an object with the fields of a struct
	anything             // whatever a value of the type holds
)

// marshalers are types with a method MarshalJSON whose outcome is known.
var marshalers = map[string]form{
	project.MetaPackage + ".Time":                                        scalar,
	project.MetaPackage + ".MicroTime":                                   scalar,
	project.MetaPackage + ".Duration":                                    scalar,
	project.MetaPackage + ".FieldsV1":                                    anything,
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":                    scalar,
	"k8s.io/apimachinery/pkg/api/resource.Quantity":                      scalar,
	"k8s.io/apimachinery/pkg/runtime.RawExtension":                       anything,
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured.Unstructured":     anything,
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":      anything,
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1.JSON": anything,
	"encoding/json.RawMessage":                                           anything,
	"encoding/json.Number":                                               scalar,
	"time.Time":                                                          scalar,
	"math/big.Int":                                                       scalar,
}

// formOf says how encoding/json writes a type. unknown names the type if only its own method MarshalJSON knows.
func formOf(t types.Type, addressable bool) (kind form, unknown string) {
	t = types.Unalias(t)
	if named, ok := t.(*types.Named); ok && named.Obj().Pkg() != nil {
		name := project.Unvendored(named.Obj().Pkg().Path()) + "." + named.Obj().Name()
		if known, ok := marshalers[name]; ok {
			return known, ""
		}
	}
	if has(t, addressable, "MarshalJSON") {
		return anything, cmp.Or(nameOf(t), t.String())
	}
	if has(t, addressable, "MarshalText") {
		return scalar, ""
	}
	switch t := t.Underlying().(type) {
	case *types.Struct:
		return fields, ""
	case *types.Map:
		return keyed, ""
	case *types.Interface:
		return anything, ""
	case *types.Array:
		return list, ""
	case *types.Slice:
		if isBytes(t) {
			return scalar, ""
		}
		return list, ""
	}
	return scalar, ""
}

// has reports whether encoding/json calls a method of a type, which returns bytes and an error.
func has(t types.Type, addressable bool, name string) bool {
	found, _, _ := types.LookupFieldOrMethod(t, addressable, nil, name)
	method, ok := found.(*types.Func)
	if !ok {
		return false
	}
	signature := method.Signature()
	if signature.Params().Len() != 0 || signature.Results().Len() != 2 {
		return false
	}
	slice, ok := signature.Results().At(0).Type().Underlying().(*types.Slice)
	return ok && isByte(slice.Elem())
}

// isBytes reports whether encoding/json writes a slice in base64.
func isBytes(slice *types.Slice) bool {
	return isByte(slice.Elem()) && !has(slice.Elem(), true, "MarshalJSON") && !has(slice.Elem(), true, "MarshalText")
}

func isByte(t types.Type) bool {
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Kind() == types.Uint8
}

// elementOf is the type of the elements of a slice, an array or a map.
func elementOf(t types.Type) types.Type {
	return t.Underlying().(interface{ Elem() types.Type }).Elem()
}

// serverFields are those of ObjectMeta that API servers set: they mean nothing in the metadata of a template.
var serverFields = []string{"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation",
	"managedFields", "resourceVersion", "selfLink", "uid"}

// written lists the members of a struct that code sets.
func written(t types.Type) []member {
	return slices.DeleteFunc(members(types.Unalias(t)), func(m member) bool {
		return m.owner == "ObjectMeta" && m.field.Pkg() != nil &&
			project.Unvendored(m.field.Pkg().Path()) == project.MetaPackage && slices.Contains(serverFields, m.name)
	})
}
