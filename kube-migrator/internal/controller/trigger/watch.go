// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/kube-migrator/kube-migrator/internal/identity"
	"github.com/kube-migrator/kube-migrator/internal/pace"
)

const (
	// identitySelector selects the identity Leases of kube-apiservers, in kube-system.
	identitySelector = identity.Label + "=" + identity.KubeAPIServer
	// apiServerSlices selects the EndpointSlices that list kube-apiservers, in default.
	apiServerSlices = "kubernetes.io/service-name=kubernetes"
)

// kind is one watched kind of object. Its functions are never called concurrently.
type kind struct {
	name    string
	lister  cache.ListerWatcher
	listed  func(items []metav1.Object, resourceVersion uint64)
	changed func(item metav1.Object, gone bool)
	lost    func()
}

// watcher watches everything that can end an epoch, each kind without a gap as far as the API server allows.
type watcher struct {
	kinds []kind
	log   *slog.Logger
}

// newWatcher returns a watcher that reports to the journal.
func newWatcher(config *rest.Config, j *journal, log *slog.Logger) (*watcher, error) {
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("set up watch of leases: %w", err)
	}
	all, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("set up watch of CustomResourceDefinitions: %w", err)
	}
	w := &watcher{log: log}
	w.kinds = append(w.kinds, serverKind(leases.Leases(metav1.NamespaceSystem), j), crdKind(all, j))
	for _, hint := range []struct {
		gvr       schema.GroupVersionResource
		namespace string
		selector  string
	}{
		{gvr: schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}},
		{gvr: schema.GroupVersionResource{Group: "internal.apiserver.k8s.io", Version: "v1alpha1",
			Resource: "storageversions"}},
		{gvr: schema.GroupVersionResource{Group: "migration.k8s.io", Version: "v1alpha1", Resource: "storageversions"}},
		{
			gvr: schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1",
				Resource: "endpointslices"},
			namespace: metav1.NamespaceDefault, selector: apiServerSlices,
		},
	} {
		w.kinds = append(w.kinds, hintKind(hint.gvr.GroupResource().String(),
			metadataLister(all.Resource(hint.gvr).Namespace(hint.namespace), hint.selector), j.hint))
	}
	return w, nil
}

func serverKind(leases coordinationv1client.LeaseInterface, j *journal) kind {
	holder := func(o metav1.Object) (t tenure) {
		if l, ok := o.(*coordinationv1.Lease); ok && l.Spec.HolderIdentity != nil {
			t.holder = *l.Spec.HolderIdentity
			if l.Spec.RenewTime != nil {
				t.renewed = l.Spec.RenewTime.Time
			}
		}
		return t
	}
	return kind{
		name: "leases",
		lister: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				o.LabelSelector = identitySelector
				return leases.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				j.hint() // the connection broke: a server left, or etcd was restored and this watch will be silent
				o.LabelSelector = identitySelector
				return leases.Watch(ctx, o)
			},
		},
		listed: func(items []metav1.Object, resourceVersion uint64) {
			holders := map[string]tenure{}
			for _, o := range items {
				holders[o.GetName()] = holder(o)
			}
			j.serversListed(holders, resourceVersion)
		},
		changed: func(o metav1.Object, gone bool) {
			version, _ := strconv.ParseUint(o.GetResourceVersion(), 10, 64) // 0 is ignored
			if gone {
				j.holds(o.GetName(), tenure{}, version)
			} else {
				j.holds(o.GetName(), holder(o), version)
			}
		},
		lost: j.serversLost,
	}
}

func crdKind(all metadata.Interface, j *journal) kind {
	of := func(o metav1.Object) specState { return specState{uid: o.GetUID(), generation: o.GetGeneration()} }
	gvr := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
	return kind{
		name:   "customresourcedefinitions",
		lister: metadataLister(all.Resource(gvr), ""),
		listed: func(items []metav1.Object, _ uint64) {
			present := map[string]specState{}
			for _, o := range items {
				present[o.GetName()] = of(o)
			}
			j.crdsListed(present)
		},
		changed: func(o metav1.Object, gone bool) {
			if gone {
				j.defines(o.GetName(), specState{})
			} else {
				j.defines(o.GetName(), of(o))
			}
		},
		lost: func() {},
	}
}

// hintKind is a kind whose changes only cause a look.
func hintKind(name string, lister cache.ListerWatcher, wake func()) kind {
	return kind{name: name, lister: lister, listed: func([]metav1.Object, uint64) { wake() },
		changed: func(metav1.Object, bool) { wake() }, lost: func() {}}
}

func metadataLister(r metadata.ResourceInterface, selector string) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return r.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return r.Watch(ctx, o)
		},
	}
}

// run watches until the context ends.
func (w *watcher) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, k := range w.kinds {
		all.Go(func() { w.follow(ctx, k) })
	}
	all.Wait()
}

// follow watches one kind. If the kind is not served, or watching it is forbidden, follow tries again from time to
// time.
func (w *watcher) follow(ctx context.Context, k kind) {
	const soonest, latest = time.Second, 5 * time.Minute
	pause, logged := soonest, false
	for ctx.Err() == nil {
		begun := time.Now()
		err := k.watch(ctx)
		k.lost()
		if time.Since(begun) > latest {
			pause, logged = soonest, false
		}
		if err != nil && ctx.Err() == nil && !logged {
			logged = true
			level := slog.LevelWarn
			if apierrors.IsNotFound(err) {
				level = slog.LevelDebug
			}
			w.log.Log(ctx, level, "Cannot watch; polling instead", "resource", k.name, "error", err)
		}
		_ = pace.Sleep(ctx, pause)
		pause = min(2*pause, latest)
	}
}

// watch lists once and then watches as long as nothing is missed. It resumes broken connections where they broke off.
func (k kind) watch(ctx context.Context) error {
	list, err := cache.ToListerWatcherWithContext(k.lister).ListWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	items, err := objects(list)
	if err != nil {
		return err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := watchtools.NewRetryWatcherWithContext(ctx, accessor.GetResourceVersion(),
		cache.ToWatcherWithContext(k.lister))
	if err != nil {
		return err
	}
	defer events.Stop()
	version, _ := strconv.ParseUint(accessor.GetResourceVersion(), 10, 64) // 0 is ignored
	k.listed(items, version)
	for event := range events.ResultChan() {
		switch event.Type {
		case watch.Added, watch.Modified, watch.Deleted:
			o, err := meta.Accessor(event.Object)
			if err != nil {
				return err
			}
			k.changed(o, event.Type == watch.Deleted)
		case watch.Error:
			return apierrors.FromObject(event.Object)
		case watch.Bookmark:
		}
	}
	return errors.New("the watch ended")
}

func objects(list runtime.Object) ([]metav1.Object, error) {
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	var all []metav1.Object
	for _, item := range items {
		o, err := meta.Accessor(item)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}
