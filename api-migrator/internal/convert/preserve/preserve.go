// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package preserve keeps, in an annotation of a converted object, what the version that it was converted to cannot
// express, so that it is there again after the way back.
//
// Only that part is kept, each value next to the one that the way back gives without it. A value comes back only where
// that is still what the way back gives: what a client has changed since wins, and nothing stale returns. What the
// annotation says is never an error: users can write it, and an object must stay readable whatever they write.
package preserve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Keys are the fields that tell the elements of a list apart, by the path of the list: "spec.parts", "spec.groups.*"
// for lists that are values of a map, "spec.parts[].tags" for lists in elements of another. An element of a list that
// is not named here counts as another one as soon as anything in it has changed.
type Keys map[string][]string

// kept is the content of the annotation: two trees of JSON with those fields alone in which they differ.
type kept struct {
	Seen map[string]interface{} `json:"seen"` // what the way back gives
	Is   map[string]interface{} `json:"is"`   // what there was
}

// leaveOut drops what no conversion may change.
func (k *kept) leaveOut() {
	for _, fields := range []map[string]interface{}{k.Seen, k.Is} {
		delete(fields, "apiVersion")
		delete(fields, "kind")
		delete(fields, "metadata")
	}
}

// ThroughJSON gives to, an empty object of the same type, what a client decodes of from: what omitempty omits in JSON
// is nil there, though it may be an empty list in memory.
func ThroughJSON(from, to metav1.Object) error {
	content, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("encode object: %w", err)
	}
	if err := json.Unmarshal(content, to); err != nil {
		return fmt.Errorf("decode object: %w", err)
	}
	return nil
}

// Save writes into converted's annotation what original has and back has not. back is what converted, read through
// JSON, is converted back to. Where that is nothing, converted has no such annotation afterwards.
func Save(annotation string, original, back, converted metav1.Object) error {
	is, err := tree(original)
	if err != nil {
		return err
	}
	seen, err := tree(back)
	if err != nil {
		return err
	}
	keep := kept{Seen: seen, Is: is}
	keep.leaveOut()
	same := reflect.DeepEqual(keep.Seen, keep.Is)
	if _, stale := converted.GetAnnotations()[annotation]; same && !stale {
		return nil
	}
	annotations := others(annotation, converted)
	if !same {
		onlySeen, onlyIs := differing(keep.Seen, keep.Is)
		content, err := json.Marshal(map[string]interface{}{"seen": onlySeen, "is": onlyIs})
		if err != nil {
			return fmt.Errorf("write annotation %s: %w", annotation, err)
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[annotation] = string(content)
	}
	converted.SetAnnotations(annotations)
	return nil
}

// others copies the annotations but for one, since the object may share the map. Without others it is nil.
func others(annotation string, object metav1.Object) map[string]string {
	var annotations map[string]string
	for name, value := range object.GetAnnotations() {
		if name != annotation {
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[name] = value
		}
	}
	return annotations
}

// Restore gives object, which is a pointer to a struct, what its annotation keeps, and removes the annotation.
func Restore(annotation string, keys Keys, object metav1.Object) error {
	content, ok := object.GetAnnotations()[annotation]
	if !ok {
		return nil
	}
	object.SetAnnotations(others(annotation, object))
	var keep kept
	if err := decode([]byte(content), &keep); err != nil {
		return nil //nolint:nilerr // it is not ours, or was edited: see the package's comment
	}
	keep.leaveOut()
	mine, err := tree(object)
	if err != nil {
		return err
	}
	merged, err := json.Marshal(merge(keys, "", mine, keep.Seen, keep.Is))
	if err != nil {
		return fmt.Errorf("restore fields: %w", err)
	}
	target := reflect.ValueOf(object).Elem()
	restored := reflect.New(target.Type())
	if err := json.Unmarshal(merged, restored.Interface()); err != nil {
		return nil //nolint:nilerr // the same
	}
	target.Set(restored.Elem())
	return nil
}

func tree(object metav1.Object) (map[string]interface{}, error) {
	content, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	var fields map[string]interface{}
	if err := decode(content, &fields); err != nil {
		return nil, fmt.Errorf("decode object: %w", err)
	}
	return fields, nil
}

// decode keeps numbers as they are written: an int64 does not fit into a float.
func decode(content []byte, into interface{}) error {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// absent stands for a field that is not there, which is not the same as one that is null.
type absent struct{}

func get(fields map[string]interface{}, name string) interface{} {
	if value, ok := fields[name]; ok {
		return value
	}
	return absent{}
}

func set(fields map[string]interface{}, name string, value interface{}) {
	if value == (absent{}) {
		delete(fields, name)
	} else {
		fields[name] = value
	}
}

func union(maps ...map[string]interface{}) map[string]bool {
	names := map[string]bool{}
	for _, one := range maps {
		for name := range one {
			names[name] = true
		}
	}
	return names
}

// differing reduces two trees to the fields in which they differ. Lists stay whole: their elements have no names.
func differing(a, b interface{}) (onlyA, onlyB interface{}) {
	fieldsA, ok := a.(map[string]interface{})
	fieldsB, both := b.(map[string]interface{})
	if !ok || !both {
		return a, b
	}
	fewerA, fewerB := map[string]interface{}{}, map[string]interface{}{}
	for name := range union(fieldsA, fieldsB) {
		valueA, valueB := get(fieldsA, name), get(fieldsB, name)
		if reflect.DeepEqual(valueA, valueB) {
			continue
		}
		valueA, valueB = differing(valueA, valueB)
		set(fewerA, name, valueA)
		set(fewerB, name, valueB)
	}
	return fewerA, fewerB
}

// merge gives mine, a value of what has been converted back, what was kept of it: where mine is what was seen, it
// becomes what there was.
func merge(keys Keys, path string, mine, seen, is interface{}) interface{} {
	if reflect.DeepEqual(mine, seen) {
		return is
	}
	switch mine := mine.(type) {
	case map[string]interface{}:
		seen, ok := seen.(map[string]interface{})
		is, both := is.(map[string]interface{})
		if !ok || !both {
			return mine
		}
		for name := range union(seen, is) {
			// a key of a map may have dots
			under := strings.TrimPrefix(path+"."+strings.ReplaceAll(name, ".", "_"), ".")
			set(mine, name, merge(keys, under, get(mine, name), get(seen, name), get(is, name)))
		}
		return mine
	case []interface{}:
		seen, ok := seen.([]interface{})
		is, both := is.([]interface{})
		if !ok || !both || len(seen) != len(is) {
			return mine
		}
		return mergeList(keys, path, mine, seen, is)
	default:
		return mine
	}
}

// mergeList finds for each element the one that it was: one that is equal, or else one with the same keys. Each is
// found once, so that of several that look alike every one gets its own: but none does once there are more or fewer.
func mergeList(keys Keys, path string, mine, seen, is []interface{}) []interface{} {
	merged := append([]interface{}{}, mine...)
	done, used := make([]bool, len(mine)), make([]bool, len(seen))
	names := keys.of(path)
	for j := range seen {
		if !unclear(mine, seen, is, j) {
			continue
		}
		used[j] = true
		for i := range mine {
			done[i] = done[i] || reflect.DeepEqual(mine[i], seen[j])
		}
	}
	for _, same := range []func(a, b interface{}) bool{reflect.DeepEqual, func(a,
		b interface{}) bool {
		return sameKeys(names, a, b)
	}} {
		for i := range mine {
			for j := range seen {
				if !done[i] && !used[j] && same(mine[i], seen[j]) {
					merged[i] = merge(keys, path+"[]", mine[i], seen[j], is[j])
					done[i], used[j] = true, true
				}
			}
		}
	}
	return merged
}

// unclear reports whether elements that look like the one at j were different, and their number has changed. Only their
// place could tell then which one is which, and places change.
func unclear(mine, seen, is []interface{}, j int) bool {
	before, after, different := 0, 0, false
	for k := range seen {
		if reflect.DeepEqual(seen[k], seen[j]) {
			before++
			different = different || !reflect.DeepEqual(is[k], is[j])
		}
	}
	for i := range mine {
		if reflect.DeepEqual(mine[i], seen[j]) {
			after++
		}
	}
	return different && before != after
}

func sameKeys(names []string, a, b interface{}) bool {
	fieldsA, ok := a.(map[string]interface{})
	fieldsB, both := b.(map[string]interface{})
	if !ok || !both || len(names) == 0 {
		return false
	}
	for _, name := range names {
		if fieldsA[name] == nil || !reflect.DeepEqual(fieldsA[name], fieldsB[name]) {
			return false
		}
	}
	return true
}

// of finds the keys of the list at path.
func (k Keys) of(path string) []string {
	if names, ok := k[path]; ok {
		return names
	}
	for pattern, names := range k {
		if matches(strings.Split(pattern, "."), strings.Split(path, ".")) {
			return names
		}
	}
	return nil
}

func matches(pattern, path []string) bool {
	if len(pattern) != len(path) {
		return false
	}
	for i := range pattern {
		elements := strings.HasPrefix(pattern[i], "*") && strings.HasSuffix(path[i], pattern[i][1:])
		if !elements && pattern[i] != path[i] {
			return false
		}
	}
	return true
}
