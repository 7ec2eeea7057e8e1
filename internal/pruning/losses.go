// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package pruning

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LossError says which fields of an object a write would drop. No request was sent.
type LossError struct{ Fields []string }

// Error implements error.
func (e *LossError) Error() string {
	return "the API server would drop " + Describe(e.Fields) +
		": the schema under which the object would be stored does not have it"
}

// Losses are objects that would lose fields. Only the first few objects and fields are named (I6).
type Losses struct {
	// Objects is how many objects would lose fields.
	Objects int64 `json:"objects"`
	// Fields are the first fields that were found, sorted.
	Fields []string `json:"fields,omitempty"`
	// Named are the first objects.
	Named []Losing `json:"named,omitempty"`
}

// Losing is an object and the first fields that it would lose.
type Losing struct {
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name"`
	Fields    []string `json:"fields"`
}

// maxFields bounds how many fields Losses name, and maxLength the bytes of a name: clients make both up.
const maxFields, maxLength = 100, 200

// Add counts an object that would lose fields.
func (l *Losses) Add(object *metav1.ObjectMeta, fields []string) {
	if len(fields) == 0 {
		return
	}
	l.Objects++
	fields = slices.DeleteFunc(slices.Clone(fields), func(field string) bool { return len(field) > maxLength })
	for _, field := range fields {
		if at, found := slices.BinarySearch(l.Fields, field); !found && len(l.Fields) < maxFields {
			l.Fields = slices.Insert(l.Fields, at, field)
		}
	}
	if len(l.Named) < maxNamed {
		l.Named = append(l.Named, Losing{object.Namespace, object.Name, fields[:min(maxNamed, len(fields))]})
	}
}

// String names the first objects with their fields, for users.
func (l Losses) String() string {
	var words []string
	for _, o := range l.Named {
		name := o.Name
		if o.Namespace != "" {
			name = o.Namespace + "/" + o.Name
		}
		words = append(words, fmt.Sprintf("%s (%s)", name, strings.Join(o.Fields, ", ")))
	}
	if more := l.Objects - int64(len(l.Named)); more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, ", ")
}

// Outlook is what schemas and some objects show, before a migration, of the fields that it would drop.
type Outlook struct {
	// Possible are fields that objects may have and that the schemas on their way do not keep.
	Possible []string `json:"possible,omitempty"`
	// Looked is how many objects were looked at. The losses are those of these objects.
	Looked int64 `json:"looked"`
	Losses
	// All means that there are no other objects.
	All bool `json:"all"`
}

// String says which objects would be left alone, for users. It is empty if none is known, and none is to be expected.
func (o *Outlook) String() string {
	switch {
	case o == nil:
		return ""
	case o.Objects > 0 && o.All:
		return fmt.Sprintf("%d of %d objects would be left alone, because they would lose fields: %s", o.Objects, o.Looked,
			o.Losses)
	case o.Objects > 0:
		return fmt.Sprintf("%d of the first %d objects would be left alone, because they would lose fields: %s", o.Objects,
			o.Looked, o.Losses)
	case len(o.Possible) > 0 && !o.All:
		return "objects that have " + Describe(o.Possible) + " would be left alone, because they would lose it"
	}
	return ""
}
