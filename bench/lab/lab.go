// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

const (
	widgetsPath = "/apis/" + testbed.WidgetGroup + "/"
	crdPath     = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + testbed.WidgetCRD
	// restoreWorkers write old objects at the same time.
	restoreWorkers = 8
)

// lab is the cluster on which everything is measured, with objects that can be made old again.
type lab struct {
	cluster *testbed.Cluster
	client  rest.Interface
	// prefix begins the objects' names.
	prefix string
	// old holds, for each etcd key, the value in the old version.
	old map[string][]byte
}

// newLab starts a cluster whose widgets are stored as v2 from now on.
func newLab(ctx context.Context, progress io.Writer) (*lab, error) {
	cluster, err := testbed.Start(ctx, testbed.Options{Progress: progress})
	if err != nil {
		return nil, err
	}
	l := &lab{cluster: cluster}
	if err := l.prepare(ctx); err != nil {
		cluster.Stop()
		return nil, err
	}
	return l, nil
}

func (l *lab) prepare(ctx context.Context) (err error) {
	if l.client, err = apiserver.NewClient(l.cluster.Config()); err != nil {
		return err
	}
	if err := l.cluster.InstallWidgets(ctx, testbed.Widgets{}); err != nil {
		return err
	}
	return l.cluster.MoveStorage(ctx, testbed.WidgetCRD, "v2")
}

// fill replaces all objects by count others of a size, and remembers them as they are: old.
func (l *lab) fill(ctx context.Context, prefix string, count, bytes int) error {
	for key := range l.old {
		if err := l.cluster.DeleteRaw(ctx, key); err != nil {
			return err
		}
	}
	l.prefix, l.old = prefix, make(map[string][]byte, count)
	if err := l.cluster.BulkCreate(ctx, testbed.Bulk{Prefix: prefix, Count: count, Bytes: bytes}); err != nil {
		return err
	}
	return l.cluster.EachRaw(ctx, testbed.WidgetsPrefix, func(key string, value []byte, _ int64) {
		l.old[key] = slices.Clone(value)
	})
}

// restore makes the first n objects old again, removes the others, and returns etcd's revision once every watch cache
// has seen that. Etcd forgets the history, so that every measurement begins with the same.
func (l *lab) restore(ctx context.Context, n int) (int64, error) {
	keys := slices.Sorted(maps.Keys(l.old))
	group, writing := errgroup.WithContext(ctx)
	group.SetLimit(restoreWorkers)
	for i, key := range keys {
		group.Go(func() error {
			if i >= n {
				return l.cluster.DeleteRaw(writing, key)
			}
			return l.cluster.PutRaw(writing, key, l.old[key])
		})
	}
	if err := group.Wait(); err != nil {
		return 0, fmt.Errorf("make objects old again: %w", err)
	}
	// The last write is to an object, or the watch cache of the widgets would wait for a bookmark.
	if err := l.cluster.PutRaw(ctx, keys[0], l.old[keys[0]]); err != nil {
		return 0, err
	}
	claim := []byte(`{"status":{"storedVersions":["v1","v2"]}}`)
	if err := l.client.Patch(types.MergePatchType).AbsPath(crdPath,
		"status").Body(claim).Do(ctx).Error(); err != nil {
		return 0, fmt.Errorf("reset stored versions: %w", err)
	}
	response, err := l.cluster.Etcd.Client().Get(ctx, keys[0])
	if err != nil {
		return 0, fmt.Errorf("read etcd revision: %w", err)
	}
	revision := response.Header.Revision
	if err := l.settled(ctx, response.Kvs[0].ModRevision); err != nil {
		return 0, err
	}
	if _, err := l.cluster.Etcd.Client().Compact(ctx, revision); err != nil {
		return 0, fmt.Errorf("compact etcd: %w", err)
	}
	return revision, nil
}

// settled returns when the watch caches of both versions have seen a revision.
func (l *lab) settled(ctx context.Context, revision int64) error {
	for _, version := range []string{"v1", "v2"} {
		list := l.client.Get().AbsPath(widgetsPath+version, "widgets").
			Param("resourceVersion", strconv.FormatInt(revision, 10)).Param("resourceVersionMatch",
			"NotOlderThan").Param("limit", "1").
			SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
		if err := list.Do(ctx).Error(); err != nil {
			return fmt.Errorf("wait for the watch cache of %s: %w", version, err)
		}
	}
	return nil
}

// rewritten returns the revisions of the first and the last of n objects that were written after a revision. It is an
// error if one of them is still old.
func (l *lab) rewritten(ctx context.Context, after int64, n int) (first, last int64, err error) {
	var current int
	err = l.cluster.EachRaw(ctx, testbed.WidgetsPrefix, func(key string, value []byte, revision int64) {
		if _, ours := l.old[key]; !ours || revision <= after ||
			!bytes.Contains(value, []byte(`"`+testbed.WidgetGroup+`/v2"`)) {
			return
		}
		current++
		last = max(last, revision)
		if first == 0 || revision < first {
			first = revision
		}
	})
	if err == nil && current != n {
		err = errors.New("not all objects were rewritten: " + strconv.Itoa(current) + " of " + strconv.Itoa(n))
	}
	return first, last, err
}
