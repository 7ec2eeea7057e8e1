// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Loss is a field that objects in one folder of etcd have lost.
type Loss struct {
	// Key is that of the first object, Revision that of the write, and Count the number of writes that lost the field.
	Key      string
	Revision int64
	Count    int
	// Path is that of the field, in the words of Lost.
	Path string
}

func (l Loss) String() string {
	return fmt.Sprintf("%s lost %s at revision %d, in %d such writes", l.Key, l.Path, l.Revision, l.Count)
}

// place is what losses are counted by.
type place struct{ folder, path string }

// maxPlaces bounds the memory of a Watch.
const maxPlaces = 100

// Watch applies Lost to every write of a custom resource to an etcd that its client reaches, from Begin on. Other
// resources have no schema that drops fields: their fields may have another name in another version, and API servers
// write some of them without managedFields. It keeps a bounded number of
// losses and no objects. Its methods may not be called concurrently.
type Watch struct {
	client *clientv3.Client
	next   int64 // the first revision that was not compared
	losses map[place]*Loss
	// defined are the names of all CRDs that there have been.
	defined map[string]bool

	cancel context.CancelFunc
	work   sync.WaitGroup
}

// NewWatch returns a watch that has not begun.
func NewWatch(client *clientv3.Client) *Watch {
	return &Watch{client: client, losses: map[place]*Loss{}, defined: map[string]bool{}}
}

// often is how long writes are gathered: etcd reads and sends many at once for less than each by itself. It is far shorter
// than the time after which API servers compact them away.
const often = 10 * time.Second

// Begin compares writes from a revision on, until End. etcd may end and start again meanwhile, on the same data.
func (w *Watch) Begin(ctx context.Context, revision int64) {
	w.next = revision
	ctx, w.cancel = context.WithCancel(ctx)
	w.work.Go(func() {
		for pause(ctx, often) {
			_ = w.catchUp(ctx) // of the next time, or of End
		}
	})
}

// End compares everything that was written before it was called.
func (w *Watch) End(ctx context.Context) error {
	w.Stop()
	if err := w.catchUp(ctx); err != nil {
		return fmt.Errorf("compare the contents of etcd: %w", err)
	}
	return nil
}

// catchUp compares every write until now.
func (w *Watch) catchUp(ctx context.Context) error {
	now, err := w.client.Get(ctx, everything)
	if err != nil {
		return err
	}
	return w.follow(ctx, now.Header.Revision)
}

// Stop ends the comparison wherever it is.
func (w *Watch) Stop() {
	if w.cancel != nil {
		w.cancel()
	}
	w.work.Wait()
}

// Next returns the revision at which to go on after End.
func (w *Watch) Next() int64 { return w.next }

// Losses returns what was lost until End, sorted by key and path.
func (w *Watch) Losses() []Loss {
	var all []Loss
	for _, l := range w.losses {
		all = append(all, *l)
	}
	slices.SortFunc(all, func(a, b Loss) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Path, b.Path))
	})
	return all
}

// everything is the first of all keys: each revision has written one of them.
const everything = "\x00"

// follow compares every write up to a revision. A watch that breaks begins again where it broke. Writes that were
// compacted away meanwhile are not compared.
func (w *Watch) follow(ctx context.Context, until int64) error {
	for w.next <= until {
		watching, cancel := context.WithCancel(ctx)
		for answer := range w.client.Watch(watching, everything, clientv3.WithFromKey(), clientv3.WithPrevKV(),
			clientv3.WithFragment(), clientv3.WithRev(w.next)) {
			if errors.Is(answer.Err(), rpctypes.ErrCompacted) {
				w.next = max(w.next, answer.CompactRevision)
			}
			w.compare(answer.Events)
			if w.next > until {
				break
			}
		}
		cancel()
		if w.next <= until && !pause(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}

// pause waits, and reports whether the context lasts.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

const (
	// crds is followed by the name of a CRD, PLURAL.GROUP.
	crds = "/registry/apiextensions.k8s.io/customresourcedefinitions/"
	// own is the group of kube-migrator's records, which it edits.
	own = "migration.k8s.io"
)

// isCustom reports whether a key is that of a custom resource, /registry/GROUP/PLURAL/…, whose CRD the watch has seen.
func (w *Watch) isCustom(key string) bool {
	parts := strings.Split(key, "/")
	return len(parts) > 3 && parts[2] != own && w.defined[parts[3]+"."+parts[2]]
}

func (w *Watch) compare(events []*clientv3.Event) {
	for _, e := range events {
		w.next = e.Kv.ModRevision + 1
		key := string(e.Kv.Key)
		if name, ok := strings.CutPrefix(key, crds); ok {
			w.defined[name] = true
		}
		if !e.IsModify() || e.PrevKv == nil || !w.isCustom(key) {
			continue
		}
		for _, lost := range Lost(e.PrevKv.Value, e.Kv.Value) {
			at := place{path.Dir(key), lost}
			if w.losses[at] == nil && len(w.losses) < maxPlaces {
				w.losses[at] = &Loss{Key: key, Revision: e.Kv.ModRevision, Path: lost}
			}
			if l := w.losses[at]; l != nil {
				l.Count++
			}
		}
	}
}
