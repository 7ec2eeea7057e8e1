// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/kube-migrator/kube-migrator/migrate"
)

// store keeps the checkpoint in a ConfigMap. It implements migrate.Checkpoints.
type store struct {
	configMaps dynamic.ResourceInterface
	name       string
}

const (
	checkpointKey = "checkpoint"
	// maxBytes is less than the 1 MiB that a ConfigMap may hold, and maxFailures so few that they have less than that.
	maxBytes    = 900 << 10
	maxFailures = 100
)

// Load implements migrate.Checkpoints.
func (s store) Load(ctx context.Context) ([]byte, error) {
	object, err := s.configMaps.Get(ctx, s.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, _, err := unstructured.NestedString(object.Object, "binaryData", checkpointKey)
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(text)
}

// Save implements migrate.Checkpoints.
func (s store) Save(ctx context.Context, c migrate.Checkpoint) (err error) {
	if len(c.Data) > maxBytes {
		if c, err = c.WithFailures(maxFailures); err != nil {
			return err
		}
	}
	_, err = s.configMaps.Apply(ctx, s.name, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"metadata":   map[string]any{"name": s.name},
		"binaryData": map[string]any{checkpointKey: base64.StdEncoding.EncodeToString(c.Data)},
	}}, metav1.ApplyOptions{FieldManager: "operator", Force: true})
	return err
}
