// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package typeschema

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The types of this file are read by go/types, and their values are written by encoding/json.

type Kind struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec    `json:"spec"`
	Status *Status `json:"status,omitempty"`
}

type Spec struct {
	Common   `json:",inline"`
	Merged   Merged               `json:",inline"`
	Size     int32                `json:"size,omitempty"`
	Port     intstr.IntOrString   `json:"port"`
	Labels   map[string]string    `json:"labels,omitempty"`
	Parts    []Part               `json:"parts,omitempty"`
	Template Template             `json:"template"`
	Config   runtime.RawExtension `json:"config,omitempty"`
	Custom   Custom               `json:"custom"`
	Free     map[string]any       `json:"free,omitempty"`
	ByName   map[string]ByPointer `json:"byName,omitempty"`
	Hidden   string               `json:"-"`
}

type Common struct {
	Paused bool `json:"paused,omitempty"`
}

type Merged struct {
	Mode string `json:"mode"`
}

type Part struct {
	Name  string `json:"name"`
	Parts []Part `json:"parts,omitempty"`
}

type Template struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// Custom writes itself.
type Custom struct{ parts []string }

func (c Custom) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]any{"parts": c.parts}) }

type Status struct {
	Phase      string             `json:"phase,omitempty"`
	Since      *metav1.Time       `json:"since,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

type Text string

func (t *Text) MarshalText() ([]byte, error) { return []byte(*t), nil }

type ByPointer struct {
	Value int `json:"value"`
}

func (b *ByPointer) MarshalJSON() ([]byte, error) {
	return []byte(`"` + time.Duration(b.Value).String() + `"`), nil
}

type byte2 byte

func (b byte2) MarshalText() ([]byte, error) { return []byte{'b'}, nil }

type bottom struct{ Deepest int }

type left struct {
	bottom
	Twice int
	Once  int
}

type right struct {
	bottom
	Twice int
}

type tagged struct {
	Renamed int `json:"Twice"`
}

type number int

type Number int

type withTime struct{ metav1.Time }

type mergedPointer *Merged

// Oddities has what encoding/json treats in a way of its own.
type Oddities struct {
	left
	*right
	Tagged tagged `json:"tagged"`
	number
	Number
	*Status      `json:",inline"`
	Minus        int `json:"-,"`
	Ignored      int `json:"-"`
	private      int
	Invalid      int                  `json:"in\"valid"`
	Quoted       int                  `json:"quoted,string"`
	Named        Merged               `json:",inline,omitempty"`
	Bytes        []byte               `json:"bytes"`
	Texts        []byte2              `json:"texts"`
	Array        [2]int               `json:"array"`
	Any          any                  `json:"any"`
	Pointer      **int                `json:"pointer"`
	Indirect     mergedPointer        `json:"indirect"`
	Text         Text                 `json:"text"`
	ByPointer    ByPointer            `json:"byPointer"`
	InMap        map[string]ByPointer `json:"inMap"`
	WithTime     withTime             `json:"withTime"`
	Raw          json.RawMessage      `json:"raw"`
	Unnamed      struct{ A int }      `json:"unnamed"`
	When         metav1.Time          `json:"when"`
	Every        metav1.Duration      `json:"every"`
	Instantiated Pair[Merged]         `json:"instantiated"`
}

type Pair[T any] struct {
	One T `json:"one"`
}

// Shadowing hides fields of embedded structs.
type Shadowing struct {
	left
	tagged
	Once string
}

// Ambiguous has a field of one name from two structs of one depth, and from a tag.
type Ambiguous struct {
	left
	right
	tagged
}
