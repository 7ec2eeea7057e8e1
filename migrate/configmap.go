// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/pace"
)

const (
	checkpointKey = "checkpoint" // in binaryData
	// maxPacked bounds the checkpoint in a ConfigMap, of which the API server accepts 1 MiB.
	maxPacked = 900 << 10
	// configMapTimeout bounds one request; firstSaveWait is the first wait between two.
	configMapTimeout = 5 * time.Second
	firstSaveWait    = 200 * time.Millisecond
)

// ErrCheckpointTaken reports that another process has written the checkpoint: two sweeps of the resource run, and this
// one ends.
var ErrCheckpointTaken = errors.New("another process has written the checkpoint")

// ConfigMapCheckpoints returns Checkpoints in the ConfigMap of that name, which is created when it is first written.
// Each write is made under the resourceVersion of the one before: if another process writes the ConfigMap in between,
// the sweep ends with ErrCheckpointTaken.
//
// The account of config needs get, create and update on ConfigMaps in the namespace.
func ConfigMapCheckpoints(config *rest.Config, namespace, name string) (Checkpoints, error) {
	client, err := apiserver.NewClient(config)
	if err != nil {
		return nil, err
	}
	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	collection, err := apipath.Collection(configMaps, namespace)
	if err != nil {
		return nil, fmt.Errorf("checkpoints in a ConfigMap: %w", err)
	}
	path, err := apipath.Object(configMaps, namespace, name)
	if err != nil {
		return nil, fmt.Errorf("checkpoints in a ConfigMap: %w", err)
	}
	object := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return &configMap{client: client, collection: collection, path: path, object: object}, nil
}

// configMap is one ConfigMap on the API server.
type configMap struct {
	client           rest.Interface
	collection, path string
	object           *corev1.ConfigMap // as last read or written; without a resourceVersion there is none
	known            bool              // it was read or written before
}

// Load implements Checkpoints.
func (c *configMap) Load(ctx context.Context) ([]byte, error) {
	object, err := c.get(ctx)
	if err != nil {
		return nil, err
	}
	c.object, c.known = object, true
	return object.BinaryData[checkpointKey], nil
}

// get reads the ConfigMap. If there is none, it returns one without a resourceVersion.
func (c *configMap) get(ctx context.Context) (*corev1.ConfigMap, error) {
	ctx, cancel := context.WithTimeout(ctx, configMapTimeout)
	defer cancel()
	object := new(corev1.ConfigMap)
	err := apiserver.Send(ctx, c.client.Get().AbsPath(c.path).MaxRetries(0), object)
	if apierrors.IsNotFound(err) {
		return &corev1.ConfigMap{TypeMeta: c.object.TypeMeta,
			ObjectMeta: metav1.ObjectMeta{Namespace: c.object.Namespace, Name: c.object.Name}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", c.object.Name, err)
	}
	return object, nil
}

// Save implements Checkpoints. It tries again as long as the context lasts, because a checkpoint that is not saved ends
// the sweep.
func (c *configMap) Save(ctx context.Context, checkpoint Checkpoint) error {
	packed, err := checkpoint.Pack(maxPacked)
	if err != nil {
		return err
	}
	for wait := firstSaveWait; ; wait *= 2 {
		err := c.save(ctx, packed)
		if err == nil || errors.Is(err, ErrCheckpointTaken) || apierrors.IsForbidden(err) {
			return err
		}
		if pace.Sleep(ctx, wait) != nil {
			return err
		}
	}
}

// save writes the ConfigMap once. After a conflict, what is stored shows whether an earlier attempt of this process
// succeeded without an answer.
func (c *configMap) save(ctx context.Context, packed []byte) error {
	if !c.known { // a sweep that does not resume overwrites what there is
		object, err := c.get(ctx)
		if err != nil {
			return err
		}
		c.object, c.known = object, true
	}
	next := c.object.DeepCopy()
	next.BinaryData = map[string][]byte{checkpointKey: packed}
	err := c.send(ctx, next)
	switch {
	case apierrors.IsNotFound(err): // it was deleted: the next attempt creates it again
		c.object.ResourceVersion = ""
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		found, unread := c.get(ctx)
		switch {
		case unread != nil:
			return unread
		case !bytes.Equal(found.BinaryData[checkpointKey], packed):
			return fmt.Errorf("%w: ConfigMap %s/%s", ErrCheckpointTaken, next.Namespace, next.Name)
		}
		c.object, err = found, nil
	case err == nil:
		c.object = next
	}
	return err
}

// send creates or replaces the object, and stores its new resourceVersion in it.
func (c *configMap) send(ctx context.Context, next *corev1.ConfigMap) error {
	body, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("encode ConfigMap: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, configMapTimeout)
	defer cancel()
	verb, path := http.MethodPut, c.path
	if next.ResourceVersion == "" {
		verb, path = http.MethodPost, c.collection
	}
	var written metav1.PartialObjectMetadata
	err = apiserver.Send(ctx, c.client.Verb(verb).AbsPath(path).Param("fieldManager", "kube-migrator").
		SetHeader("Content-Type", "application/json").
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").
		MaxRetries(0).Body(body), &written)
	if err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", next.Name, err)
	}
	next.ObjectMeta = written.ObjectMeta
	return nil
}
