// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/apiserver/pkg/storage/value"
)

// groupInfo returns the group with a store for gears.
func groupInfo(getter generic.RESTOptionsGetter) (*genericapiserver.APIGroupInfo, error) {
	gears := strategy{scheme, names.SimpleNameGenerator}
	qualified := schema.GroupResource{Group: group, Resource: resource}
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return &gear{} },
		NewListFunc:               func() runtime.Object { return &gearList{} },
		DefaultQualifiedResource:  qualified,
		SingularQualifiedResource: schema.GroupResource{Group: group, Resource: "gear"},
		CreateStrategy:            gears, UpdateStrategy: gears, DeleteStrategy: gears,
		TableConvertor: rest.NewDefaultTableConvertor(qualified),
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: getter}); err != nil {
		return nil, err
	}
	info := genericapiserver.NewDefaultAPIGroupInfo(group, scheme, runtime.NewParameterCodec(scheme), codecs)
	for version := range versions {
		info.VersionedResourcesStorageMap[version] = map[string]rest.Storage{resource: store}
	}
	return &info, nil
}

// strategy takes every gear as it is.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
}

func (strategy) NamespaceScoped() bool                                                 { return true }
func (strategy) AllowCreateOnUpdate(context.Context) bool                              { return false }
func (strategy) AllowUnconditionalUpdate(context.Context) bool                         { return true }
func (strategy) Canonicalize(runtime.Object)                                           {}
func (strategy) PrepareForCreate(context.Context, runtime.Object)                      {}
func (strategy) PrepareForUpdate(context.Context, runtime.Object, runtime.Object)      {}
func (strategy) Validate(context.Context, runtime.Object) field.ErrorList              { return nil }
func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string             { return nil }
func (strategy) WarningsOnUpdate(_ context.Context, _, _ runtime.Object) []string      { return nil }
func (strategy) ValidateUpdate(_ context.Context, _, _ runtime.Object) field.ErrorList { return nil }

// signature leaves the name of the replica in what it stores, as the field storedBy. It is outside of what the storage
// codec encodes, so an object that is stored as it would be stays, whichever replica stored it.
type signature struct {
	id    string
	delay time.Duration
}

const signed = `{"storedBy":"`

func (s signature) TransformToStorage(ctx context.Context, data []byte, _ value.Context) ([]byte, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(s.delay):
	}
	return fmt.Appendf(nil, `%s%s",%s`, signed, s.id, data[1:]), nil
}

func (signature) TransformFromStorage(_ context.Context, data []byte, _ value.Context) ([]byte, bool, error) {
	if rest, ok := bytes.CutPrefix(data, []byte(signed)); ok {
		_, rest, _ = bytes.Cut(rest, []byte(`",`))
		return append([]byte("{"), rest...), false, nil
	}
	return data, false, nil // stored by a replica of the command plain
}
