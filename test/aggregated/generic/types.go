// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

const (
	group    = "parts.example.com"
	kind     = "Gear"
	resource = "gears"
)

// gear is the form that the server works with. Its versions have its number of teeth in fields of different names.
type gear struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Teeth int
}

type gearList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []gear
}

// gearV1 is a gear in v1.
type gearV1 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              specV1 `json:"spec"`
}

type specV1 struct {
	Teeth int `json:"teeth,omitempty"`
}

type gearListV1 struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []gearV1 `json:"items"`
}

// gearV2 is a gear in v2.
type gearV2 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              specV2 `json:"spec"`
}

type specV2 struct {
	ToothCount int `json:"toothCount,omitempty"`
}

type gearListV2 struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []gearV2 `json:"items"`
}

func (g *gear) DeepCopyObject() runtime.Object {
	c := *g
	g.DeepCopyInto(&c.ObjectMeta)
	return &c
}

func (g *gearV1) DeepCopyObject() runtime.Object {
	c := *g
	g.DeepCopyInto(&c.ObjectMeta)
	return &c
}

func (g *gearV2) DeepCopyObject() runtime.Object {
	c := *g
	g.DeepCopyInto(&c.ObjectMeta)
	return &c
}

func (l *gearList) DeepCopyObject() runtime.Object {
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = each(l.Items, func(from, to *gear) {
		*to = *from
		from.DeepCopyInto(&to.ObjectMeta)
	})
	return &c
}

func (l *gearListV1) DeepCopyObject() runtime.Object {
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = each(l.Items, func(from, to *gearV1) {
		*to = *from
		from.DeepCopyInto(&to.ObjectMeta)
	})
	return &c
}

func (l *gearListV2) DeepCopyObject() runtime.Object {
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = each(l.Items, func(from, to *gearV2) {
		*to = *from
		from.DeepCopyInto(&to.ObjectMeta)
	})
	return &c
}

// each converts the items of a list.
func each[From, To any](items []From, convert func(*From, *To)) []To {
	converted := make([]To, len(items))
	for i := range items {
		convert(&items[i], &converted[i])
	}
	return converted
}

var (
	scheme   = newScheme()
	codecs   = serializer.NewCodecFactory(scheme)
	versions = map[string]schema.GroupVersion{
		"v1": {Group: group, Version: "v1"}, "v2": {Group: group, Version: "v2"},
	}
)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	s.AddUnversionedTypes(schema.GroupVersion{Version: "v1"}, &metav1.Status{}, &metav1.APIVersions{},
		&metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	for version, types := range map[string][2]runtime.Object{
		runtime.APIVersionInternal: {&gear{}, &gearList{}}, "v1": {&gearV1{}, &gearListV1{}},
		"v2": {&gearV2{}, &gearListV2{}},
	} {
		served := schema.GroupVersion{Group: group, Version: version}
		s.AddKnownTypeWithName(served.WithKind(kind), types[0])
		s.AddKnownTypeWithName(served.WithKind(kind+"List"), types[1])
		if version != runtime.APIVersionInternal {
			metav1.AddToGroupVersion(s, served)
		}
	}
	fromV1 := func(from *gearV1, to *gear) { *to = gear{ObjectMeta: from.ObjectMeta, Teeth: from.Spec.Teeth} }
	toV1 := func(from *gear, to *gearV1) { *to = gearV1{ObjectMeta: from.ObjectMeta, Spec: specV1{from.Teeth}} }
	fromV2 := func(from *gearV2, to *gear) { *to = gear{ObjectMeta: from.ObjectMeta, Teeth: from.Spec.ToothCount} }
	toV2 := func(from *gear, to *gearV2) { *to = gearV2{ObjectMeta: from.ObjectMeta, Spec: specV2{from.Teeth}} }
	convert(s, fromV1)
	convert(s, toV1)
	convert(s, fromV2)
	convert(s, toV2)
	convert(s, func(from *gearListV1, to *gearList) { to.ListMeta, to.Items = from.ListMeta, each(from.Items, fromV1) })
	convert(s, func(from *gearList, to *gearListV1) { to.ListMeta, to.Items = from.ListMeta, each(from.Items, toV1) })
	convert(s, func(from *gearListV2, to *gearList) { to.ListMeta, to.Items = from.ListMeta, each(from.Items, fromV2) })
	convert(s, func(from *gearList, to *gearListV2) { to.ListMeta, to.Items = from.ListMeta, each(from.Items, toV2) })
	utilruntime.Must(s.SetVersionPriority(
		schema.GroupVersion{Group: group, Version: "v1"}, schema.GroupVersion{Group: group, Version: "v2"}))
	return s
}

// convert registers a conversion that cannot fail.
func convert[From, To any](s *runtime.Scheme, f func(*From, *To)) {
	utilruntime.Must(s.AddConversionFunc((*From)(nil), (*To)(nil), func(from, to any, _ conversion.Scope) error {
		f(from.(*From), to.(*To))
		return nil
	}))
}
