// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Objects are many objects of a kind, alike but for name and UID. They are generated, not remembered: the lab needs no
// memory for a million of them.
type Objects struct {
	Kind
	// Bytes is the size of one in its old form.
	Bytes int
	lab   *Lab
	// template is an object as the API server shows it, whose name and UID are templateName and uid.
	template []byte
	uid      string
	// current is the template as the API server stores it now.
	current []byte
}

const templateName = "bench-0000000"

// ObjectName returns the name of object number i.
func ObjectName(i int) string { return fmt.Sprintf("bench-%07d", i) }

// NewObjects makes an object through the API server, so that it has the managedFields, defaults and UID of a real one,
// and takes it as the template for all others. size is about that of one object.
func (l *Lab) NewObjects(ctx context.Context, k Kind, size int) (*Objects, error) {
	o := &Objects{Kind: k, lab: l}
	bare, err := o.make(ctx, 0)
	if err != nil {
		return nil, err
	}
	if _, err = o.make(ctx, max(0, size-bare)); err != nil {
		return nil, err
	}
	return o, nil
}

// make sets the template to an object with a payload of a size, and returns the size of the whole.
func (o *Objects) make(ctx context.Context, payloadBytes int) (int, error) {
	if err := o.lab.Cluster.DeleteRaw(ctx, o.Key(0)); err != nil {
		return 0, err
	}
	object := o.object(payload(payloadBytes))
	object["apiVersion"], object["kind"] = apiVersion(o.Group, o.OldVersion), o.Kind.Kind
	object["metadata"] = map[string]any{"name": templateName, "namespace": "default",
		"labels": map[string]any{"app": "demo"}}
	var shown map[string]any
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := Await(ctx, func() (bool, error) {
		body, err := json.Marshal(object)
		if err != nil {
			return false, err
		}
		status, answer, err := o.lab.Do(ctx, http.MethodPost, o.oldPath()+"?fieldManager=bench", body)
		switch {
		case err != nil:
			return false, err
		case status == http.StatusNotFound || status == http.StatusConflict || status == http.StatusServiceUnavailable:
			// The namespace default, the deletion of the one before, or the storage of a new CRD is on its way.
			return false, nil
		case status != http.StatusCreated:
			return false, fmt.Errorf("create template: %d: %s", status, answer)
		}
		return true, json.Unmarshal(answer, &shown)
	})
	if err != nil {
		return 0, fmt.Errorf("create template of %s: %w", o.Plural, err)
	}
	metadata := shown["metadata"].(map[string]any)
	delete(metadata, "resourceVersion")
	o.uid = metadata["uid"].(string)
	if o.template, err = json.Marshal(shown); err != nil {
		return 0, err
	}
	o.template = append(o.template, '\n')
	o.Bytes = len(o.template)
	if o.current, err = o.lab.Cluster.Raw(ctx, o.Key(0)); err != nil {
		return 0, err
	}
	return o.Bytes, o.lab.Cluster.DeleteRaw(ctx, o.Key(0))
}

// Key returns the etcd key of object number i.
func (o *Objects) Key(i int) string { return o.folder() + ObjectName(i) }

// value is object number i in its old form.
func (o *Objects) value(i int) []byte { return o.like(o.template, i) }

// like is object number i in the form of a template. Names and UIDs are as long as those of the template.
func (o *Objects) like(template []byte, i int) []byte {
	uid := fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i)
	value := bytes.Replace(template, []byte(o.uid), []byte(uid), 1)
	return bytes.Replace(value, []byte(templateName), []byte(ObjectName(i)), 1)
}

// Fill stores n objects, the first of them in their old form and all others in the current one. It waits for no watch
// cache.
func (o *Objects) Fill(ctx context.Context, n, old int) error {
	o.lab.filled[o.folder()] = n
	return o.lab.Cluster.PutRaws(ctx, n, o.Bytes, func(i int) (string, []byte, error) {
		if i < old {
			return o.Key(i), o.value(i), nil
		}
		return o.Key(i), o.like(o.current, i), nil
	})
}

// MakeOld stores the first n objects in their old form and removes all others. It returns etcd's revision once every
// watch cache has seen that. Etcd forgets the history, so that every measurement begins with the same.
func (o *Objects) MakeOld(ctx context.Context, n int) (revision int64, err error) {
	cluster := o.lab.Cluster
	if o.lab.filled[o.folder()] > n {
		if err := cluster.DeleteRawBelow(ctx, o.folder()); err != nil {
			return 0, err
		}
	}
	o.lab.filled[o.folder()] = n
	err = cluster.PutRaws(ctx, n, o.Bytes, func(i int) (string, []byte, error) { return o.Key(i), o.value(i), nil })
	if err != nil {
		return 0, fmt.Errorf("make objects old: %w", err)
	}
	// The last write is to one object by itself, or a watch cache that has seen the first object of the last transaction
	// would take itself to be as new as all of it.
	if err := cluster.PutRaw(ctx, o.Key(n-1), o.value(n-1)); err != nil {
		return 0, err
	}
	if o.CRD != "" {
		versions := map[string]any{"status": map[string]any{"storedVersions": []string{o.OldVersion, o.Version}}}
		if _, err := o.lab.Send(ctx, http.MethodPatch, CRDPath(o.CRD)+"/status", versions); err != nil {
			return 0, fmt.Errorf("reset stored versions: %w", err)
		}
	}
	response, err := cluster.Etcd.Client().Get(ctx, o.Key(n-1))
	if err != nil {
		return 0, fmt.Errorf("read etcd revision: %w", err)
	}
	if err := o.settled(ctx, response.Kvs[0].ModRevision); err != nil {
		return 0, err
	}
	revision = response.Header.Revision
	if _, err := cluster.Etcd.Client().Compact(ctx, revision); err != nil {
		return 0, fmt.Errorf("compact etcd: %w", err)
	}
	return revision, nil
}

// Remove removes all objects.
func (o *Objects) Remove(ctx context.Context) error {
	o.lab.filled[o.folder()] = 0
	return o.lab.Cluster.DeleteRawBelow(ctx, o.folder())
}

// CRDs is the path of the CustomResourceDefinitions.
const CRDs = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// CRDPath is the path of a CustomResourceDefinition.
func CRDPath(name string) string { return CRDs + "/" + name }

// settled returns when the watch caches of both versions of every server have seen a revision.
func (o *Objects) settled(ctx context.Context, revision int64) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute) // a million objects take minutes
	defer cancel()
	for _, path := range []string{o.oldPath(), o.Path()} {
		path += "?limit=1&resourceVersionMatch=NotOlderThan&resourceVersion=" + strconv.FormatInt(revision, 10)
		for _, server := range o.lab.Cluster.Servers {
			err := Await(ctx, func() (bool, error) {
				status, answer, err := server.Do(ctx, http.MethodGet, path, nil)
				if err == nil && status != http.StatusOK && status != http.StatusGatewayTimeout {
					err = fmt.Errorf("%d: %s", status, answer)
				}
				return status == http.StatusOK, err // 504: a server that is busy has not seen it within its three seconds
			})
			if err != nil {
				return fmt.Errorf("wait for the watch cache at %s: %w", path, err)
			}
		}
	}
	return nil
}

// Touch gives every cache of the resource a new revision to see.
func (o *Objects) Touch(ctx context.Context) error {
	key := o.folder() + "touch"
	value := bytes.Replace(o.value(0), []byte(ObjectName(0)), []byte("touch"), 1)
	return errors.Join(o.lab.Cluster.PutRaw(ctx, key, value), o.lab.Cluster.DeleteRaw(ctx, key))
}

// Begun tells whether the object that comes first in list order was written after a revision.
func (o *Objects) Begun(ctx context.Context, after int64) (bool, error) {
	response, err := o.lab.Cluster.Etcd.Client().Get(ctx, o.Key(0))
	if err != nil {
		return false, fmt.Errorf("read the first object: %w", err)
	}
	return len(response.Kvs) > 0 && response.Kvs[0].ModRevision > after, nil
}

// Current tells whether object number i is stored in the current form.
func (o *Objects) Current(ctx context.Context, i int) (bool, error) {
	response, err := o.lab.Cluster.Etcd.Client().Get(ctx, o.Key(i))
	if err != nil {
		return false, fmt.Errorf("read %s: %w", o.Key(i), err)
	}
	return len(response.Kvs) > 0 && o.stored(response.Kvs[0].Value), nil
}

// Progress is how far a migration has come.
type Progress struct {
	// Stored is how many objects are stored in the current form and were written after the revision.
	Stored int
	// First and Last are the revisions of the first and the last of these writes.
	First, Last int64
}

// Since looks at all objects in etcd.
func (o *Objects) Since(ctx context.Context, after int64) (p Progress, err error) {
	err = o.lab.Cluster.EachRaw(ctx, o.folder(), func(key string, value []byte, revision int64) {
		if revision <= after || !strings.HasPrefix(key, o.folder()+"bench-") || !o.stored(value) {
			return
		}
		p.Stored++
		p.Last = max(p.Last, revision)
		if p.First == 0 || revision < p.First {
			p.First = revision
		}
	})
	return p, err
}

// Shown returns object number i as the API server shows it at the endpoint at which a migrator writes, without its
// resourceVersion.
func (o *Objects) Shown(ctx context.Context, i int) (map[string]any, error) {
	answer, err := o.lab.Send(ctx, http.MethodGet, o.Path()+"/"+ObjectName(i), nil)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := json.Unmarshal(answer, &object); err != nil {
		return nil, fmt.Errorf("decode %s: %w", ObjectName(i), err)
	}
	delete(object["metadata"].(map[string]any), "resourceVersion")
	return object, nil
}
