// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package pruning

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Releases of apimachinery differ in what FieldsV1 consists of, and in how it is read. All of them can encode it.

// FieldsOf returns the JSON of the fields that an entry of managedFields owns, "" if it names none.
func FieldsOf(f *metav1.FieldsV1) string {
	if f == nil {
		return ""
	}
	raw, err := f.MarshalJSON()
	if err != nil || string(raw) == "null" {
		return ""
	}
	return string(raw)
}

// NewFields returns the fields that JSON lists, as an entry of managedFields has them.
func NewFields(raw string) *metav1.FieldsV1 {
	f := new(metav1.FieldsV1)
	if err := f.UnmarshalJSON([]byte(raw)); err != nil {
		panic("a FieldsV1 that is not nil takes every JSON: " + err.Error())
	}
	return f
}
