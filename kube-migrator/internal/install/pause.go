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

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
)

// pausedKey is in the ConfigMap of the flags while everything is paused. Its value is the time since when, in RFC 3339.
// install does not apply the key, so an upgrade keeps it, and uninstall removes it with the ConfigMap. Workers cannot
// write there.
const pausedKey = "paused"

// acceptedKey is in the same ConfigMap once a user has accepted a rollback of Kubernetes. Its value is when the latest
// rollback that is accepted was recorded, in RFC 3339.
const acceptedKey = "accepted-rollback"

// Paused returns since when everything is paused, in RFC 3339, or "" if it is not. While everything is paused, the
// controller requests no migration.
func Paused(ctx context.Context, client rest.Interface) (since string, err error) {
	return mark(ctx, client, pausedKey)
}

// mark returns the value of a key in the ConfigMap of the flags, or "" if there is none.
func mark(ctx context.Context, client rest.Interface, key string) (value string, err error) {
	o, err := read(ctx, client, kindNamed("ConfigMap"), metav1.NamespaceSystem, flagsName)
	if err != nil || o == nil {
		return "", err
	}
	value, _, err = unstructured.NestedString(o.Object, "data", key)
	return value, err
}

// RollbackAccepted returns until when a user has accepted rollbacks of Kubernetes, or zero if no one has.
func RollbackAccepted(ctx context.Context, client rest.Interface) (time.Time, error) {
	value, err := mark(ctx, client, acceptedKey)
	if err != nil || value == "" {
		return time.Time{}, err
	}
	until, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return time.Time{}, fmt.Errorf("read %s of ConfigMap %s: %w", acceptedKey, flagsName, err)
	}
	return until, nil
}

// AcceptRollback lets the controller rewrite built-in resources although Kubernetes was rolled back, for each rollback
// that was recorded by then.
func AcceptRollback(ctx context.Context, client rest.Interface, until time.Time) error {
	return setMark(ctx, client, acceptedKey, until.UTC().Format(time.RFC3339))
}

// Pause keeps the controller from requesting migrations until Resume. If everything is paused already, it changes
// nothing.
func Pause(ctx context.Context, client rest.Interface, now time.Time) error {
	if since, err := Paused(ctx, client); err != nil || since != "" {
		return err
	}
	return setMark(ctx, client, pausedKey, now.UTC().Format(time.RFC3339))
}

// setMark sets a key in the ConfigMap of the flags.
func setMark(ctx context.Context, client rest.Interface, key, value string) error {
	err := patchFlags(ctx, client, key, value)
	if !apierrors.IsNotFound(err) {
		return err
	}
	// The controller was not installed by the command install.
	k := kindNamed("ConfigMap")
	path, err := k.path(metav1.NamespaceSystem, "")
	if err != nil {
		return err
	}
	created, err := object(k.Kind, &corev1.ConfigMap{ObjectMeta: meta(componentInstall, metav1.NamespaceSystem,
		flagsName), Data: map[string]string{key: value}})
	if err != nil {
		return err
	}
	body, err := json.Marshal(created.Object)
	if err != nil {
		return fmt.Errorf("create ConfigMap %s: %w", flagsName, err)
	}
	err = apiserver.Send(ctx, client.Post().AbsPath(path).Param("fieldManager", pauseManager).SetHeader("Content-Type",
		anyJSON).Body(body), nil)
	if apierrors.IsAlreadyExists(err) { // an installation is taking place at this moment
		return patchFlags(ctx, client, key, value)
	}
	return err
}

// Resume lets the controller request migrations again.
func Resume(ctx context.Context, client rest.Interface) error {
	if since, err := Paused(ctx, client); err != nil || since == "" {
		return err
	}
	err := patchFlags(ctx, client, pausedKey, nil)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// pauseManager owns the keys. It is not the field manager of install, which would remove them.
const pauseManager = Name + "-pause"

func patchFlags(ctx context.Context, client rest.Interface, key string, value any) error {
	path, err := kindNamed("ConfigMap").path(metav1.NamespaceSystem, flagsName)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"data": map[string]any{key: value}})
	if err != nil {
		return fmt.Errorf("patch ConfigMap %s: %w", flagsName, err)
	}
	return apiserver.Send(ctx, client.Patch(types.MergePatchType).AbsPath(path).Param("fieldManager",
		pauseManager).Body(body), nil)
}
