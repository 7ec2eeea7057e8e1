// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// pausedKey stands in the ConfigMap of the flags while everything is paused; its value is since when, in RFC 3339.
// install does not apply it, so that an upgrade keeps it, and uninstall removes it with the ConfigMap. Workers cannot
// write there.
const pausedKey = "paused"

// Paused returns since when everything is paused, in RFC 3339: the controller then requests no migration. Empty: it is
// not.
func Paused(ctx context.Context, client rest.Interface) (since string, err error) {
	o, err := read(ctx, client, kindNamed("ConfigMap"), metav1.NamespaceSystem, flagsName)
	if err != nil || o == nil {
		return "", err
	}
	since, _, err = unstructured.NestedString(o.Object, "data", pausedKey)
	return since, err
}

// Pause keeps the controller from requesting migrations, until Resume. Where it is paused already, it stays so.
func Pause(ctx context.Context, client rest.Interface, now time.Time) error {
	if since, err := Paused(ctx, client); err != nil || since != "" {
		return err
	}
	since := now.UTC().Format(time.RFC3339)
	err := patchFlags(ctx, client, since)
	if !apierrors.IsNotFound(err) {
		return err
	}
	// The controller was not installed by install.
	k := kindNamed("ConfigMap")
	path, err := k.path(metav1.NamespaceSystem, "")
	if err != nil {
		return err
	}
	created, err := object(k.Kind, &corev1.ConfigMap{ObjectMeta: meta(componentInstall, metav1.NamespaceSystem,
		flagsName), Data: map[string]string{pausedKey: since}})
	if err != nil {
		return err
	}
	body, err := json.Marshal(created.Object)
	if err != nil {
		return fmt.Errorf("create ConfigMap %s: %w", flagsName, err)
	}
	err = send(ctx, client.Post().AbsPath(path).Param("fieldManager", pauseManager).SetHeader("Content-Type",
		anyJSON).Body(body), nil)
	if apierrors.IsAlreadyExists(err) { // someone installs at this moment
		return patchFlags(ctx, client, since)
	}
	return err
}

// Resume lets the controller request migrations again.
func Resume(ctx context.Context, client rest.Interface) error {
	if since, err := Paused(ctx, client); err != nil || since == "" {
		return err
	}
	err := patchFlags(ctx, client, nil)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// pauseManager owns the key: another field manager than that of install, which would remove it.
const pauseManager = Name + "-pause"

func patchFlags(ctx context.Context, client rest.Interface, since any) error {
	path, err := kindNamed("ConfigMap").path(metav1.NamespaceSystem, flagsName)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"data": map[string]any{pausedKey: since}})
	if err != nil {
		return fmt.Errorf("patch ConfigMap %s: %w", flagsName, err)
	}
	return send(ctx, client.Patch(types.MergePatchType).AbsPath(path).Param("fieldManager",
		pauseManager).Body(body), nil)
}
