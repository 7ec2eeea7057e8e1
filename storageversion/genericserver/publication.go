// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package genericserver

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/klog/v2"

	"github.com/kube-migrator/kube-migrator/storageversion"
)

// hookName is that of the post-start hook.
const hookName = "publish-storage-versions"

// Publication publishes what one server stores. It is also the server's readiness check.
type Publication struct {
	options storageversion.Options
	stores  *stores
	// ended is closed when the publisher has withdrawn.
	ended chan struct{}

	mu        sync.RWMutex
	installed bool
	// resources are those of the groups that are installed, publisher is theirs; nil: none is persisted.
	resources []storageversion.Resource
	publisher *storageversion.Publisher
	// running: the hook has started the publisher. closed: the server has ended, and the hook does not start it any more.
	running, closed bool
}

// AddTo adds the publication of storage versions to a server's configuration: the write barrier, a readiness check and a
// post-start hook. Call it after RecommendedOptions.ApplyTo, before any store is made, and after a BuildHandlerChainFunc
// of your own is set.
//
// Options.Resources must be empty: they are taken from the API groups. Options.Config is config.ClientConfig by default,
// Options.DrainTimeout is config.RequestTimeout, and Options.Logger writes to klog.
func AddTo(config *genericapiserver.RecommendedConfig, o storageversion.Options) (*Publication, error) {
	o.Config = cmp.Or(o.Config, config.ClientConfig)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, config.RequestTimeout)
	if o.Logger == nil {
		o.Logger = slog.New(logr.ToSlogHandler(klog.Background().WithName("storageversion")))
	}
	switch {
	case len(o.Resources) > 0:
		return nil, errors.New("publish storage versions: Resources are taken from the API groups, so they must be empty")
	case o.Config == nil:
		return nil, errors.New("publish storage versions: no Config, and the server's configuration has no ClientConfig")
	case config.RESTOptionsGetter == nil:
		return nil, errors.New("publish storage versions: the server's configuration has no RESTOptionsGetter: " +
			"call AddTo after RecommendedOptions.ApplyTo")
	}
	p := &Publication{options: o, stores: newStores(config.RESTOptionsGetter), ended: make(chan struct{})}
	if err := config.AddPostStartHook(hookName, p.start); err != nil {
		return nil, err
	}
	config.RESTOptionsGetter = p.stores
	config.AddReadyzChecks(p)
	build := config.BuildHandlerChainFunc
	config.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		return build(p.barrier(handler, c.Serializer), c)
	}
	return p, nil
}

// InstallAPIGroups installs API groups in a server, and publishes what it stores of them. Call it instead of
// server.InstallAPIGroups, before the server runs, as often as necessary. The server is the one of the configuration, or
// one to which that one delegates.
func (p *Publication) InstallAPIGroups(
	server *genericapiserver.GenericAPIServer, groups ...*genericapiserver.APIGroupInfo,
) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.add(groups); err != nil {
		return err
	}
	if !p.installed {
		server.RegisterDestroyFunc(p.wait)
	}
	p.installed = true
	return server.InstallAPIGroups(groups...)
}

// add makes a publisher of what the server stores, with that of the groups.
func (p *Publication) add(groups []*genericapiserver.APIGroupInfo) error {
	if p.running || p.closed {
		return errors.New("publish storage versions: the server runs already")
	}
	resources := slices.Clone(p.resources)
	for _, group := range groups {
		found, err := p.stores.resources(group)
		if err != nil {
			return fmt.Errorf("find out what the server stores: %w", err)
		}
		resources = append(resources, found...)
	}
	if len(resources) == 0 {
		return nil
	}
	o := p.options
	o.Resources = resources
	publisher, err := storageversion.NewPublisher(o)
	if err != nil {
		return err
	}
	p.resources, p.publisher = resources, publisher
	return nil
}

// start is the post-start hook. Its context ends when the server takes no new requests any more. It does not wait until
// everything is published: the check of an unfinished hook fails livez, too, and the server would be restarted while the
// cluster's API server does not answer.
func (p *Publication) start(hook genericapiserver.PostStartHookContext) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.publisher == nil || p.closed || p.running {
		return nil
	}
	p.running = true
	go func() {
		defer close(p.ended)
		if err := p.publisher.Run(hook.Context); err != nil {
			p.options.Logger.Error("The storage versions could not be withdrawn", "error", err)
		}
	}()
	return nil
}

// wait returns when the publisher has withdrawn. RunWithContext calls it when all requests have finished, before it
// returns.
func (p *Publication) wait() {
	p.mu.Lock()
	p.closed = true
	running := p.running
	p.mu.Unlock()
	if running {
		<-p.ended
	}
}

// Name is that of the readiness check.
func (p *Publication) Name() string { return "storage-versions-published" }

// Check returns an error unless the entries of all resources are known to stand, and everything that the server stores
// is published.
func (p *Publication) Check(request *http.Request) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if !p.installed {
		return errors.New("no API group was installed with Publication.InstallAPIGroups")
	}
	var missing []string
	for _, r := range p.stores.named() {
		if !p.publishes(r) {
			missing = append(missing, r.String())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("stores of %s were made with the server's RESTOptionsGetter, but "+
			"Publication.InstallAPIGroups has not installed them", strings.Join(missing, ", "))
	}
	if p.publisher == nil {
		return nil
	}
	return p.publisher.Check(request)
}

// publishes expects the lock.
func (p *Publication) publishes(r schema.GroupResource) bool {
	return slices.ContainsFunc(p.resources, func(o storageversion.Resource) bool { return o.GroupResource == r })
}
