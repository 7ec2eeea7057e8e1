// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"bytes"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"sigs.k8s.io/yaml"
)

// AnnotationLimit is how many bytes API servers allow for the keys and values of all annotations of an object.
const AnnotationLimit = validation.TotalAnnotationSizeLimitB

// TooLargeToApply returns the CRDs of a file that kubectl apply cannot write without --server-side, because it keeps
// the whole object in an annotation: the size of each as JSON, in bytes, by its name. What cannot be read is left out.
func TooLargeToApply(from, file string) map[string]int {
	sizes := map[string]int{}
	if len(file) == 0 {
		return sizes
	}
	for _, part := range split(file) {
		if !isContent(part) {
			continue
		}
		texts, err := crdTexts(from, part)
		if err != nil {
			continue
		}
		for _, text := range texts {
			if name, size := sizeOf(text); size+len(corev1.LastAppliedConfigAnnotation) > AnnotationLimit {
				sizes[name] = size
			}
		}
	}
	return sizes
}

// sizeOf is the name of a CRD, and its size as compact JSON.
func sizeOf(text string) (name string, size int) {
	encoded, err := yaml.YAMLToJSON(filledIn([]byte(text)))
	if err != nil {
		return "", 0
	}
	var compact bytes.Buffer
	var named struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if json.Compact(&compact, encoded) != nil || json.Unmarshal(encoded, &named) != nil {
		return "", 0
	}
	return named.Metadata.Name, compact.Len()
}
