// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
)

// API is where a Publisher publishes: the group of a StorageVersion API, whose version is v1alpha1 in both cases.
type API string

func (a API) path() string { return "/apis/" + string(a) + "/v1alpha1/storageversions" }

// Resource is one resource that a server stores.
type Resource struct {
	// GroupResource is the resource, as discovery names it. Required.
	schema.GroupResource
	// EncodingVersion is the version in which the server stores it. Required.
	EncodingVersion schema.GroupVersion
	// DecodableVersions are all versions that the server can read from storage, among them EncodingVersion; at most 64.
	// A migrator rewrites nothing where no server can decode any other version, and judges downgrades by it. Default:
	// EncodingVersion alone.
	DecodableVersions []schema.GroupVersion
	// ServedVersions are the versions that the server serves, all of them decodable; at most 64. Default: none is
	// published.
	ServedVersions []schema.GroupVersion
}

// Options configure a Publisher.
type Options struct {
	// Config is the configuration for the cluster's API server, such as that of rest.InClusterConfig. Required. It is
	// not changed.
	Config *rest.Config
	// Resources are the resources that the server stores. Required: at least one, each once.
	Resources []Resource
	// Component is the kind of server, which all replicas share: the value of the label
	// apiserver.kubernetes.io/identity of their Leases. A valid value of a label, and not "kube-apiserver". Required.
	Component string
	// ID identifies this server: it is the name of its identity Lease, a DNS subdomain. Default: Component, a hyphen,
	// and 16 random digits. A process whose ID another process used waits until the Lease of that is deleted or has
	// expired, so choose an ID of your own only where no two processes share it at one time. The name of a StatefulSet's
	// pod is one: the server keeps its entries if its container is restarted within the LeaseDuration. It waits in this
	// case, too: the earlier process may still be writing. Do not choose an ID for pods in the network of their host that
	// are replaced there one by one: the new process would end the writes of the old one before that has drained.
	ID string
	// Namespace is where the identity Leases are. Default: kube-system, which is where kube-migrator looks for them.
	// All servers of one resource must use the same.
	Namespace string
	// API is where to publish. Default: MigrationAPI. All servers of one resource must use the same.
	API API
	// LeaseDuration is for how long an identity Lease counts without being renewed, in whole seconds, at least 3.
	// Default: one minute. If the API server does not answer, writes are refused after two thirds of it, and writes in
	// flight cancelled after five sixths. An entry of a server that crashed is dropped about one LeaseDuration after
	// its last renewal was seen. Leases are renewed, and entries looked at, every sixth of it, at least every 10
	// seconds: kube-migrator counts a server as live for a minute after a renewal.
	LeaseDuration time.Duration
	// DrainTimeout is how long Run waits, once its context has ended, for the writes in flight before it cancels them;
	// then it waits as long again. Default: one minute.
	DrainTimeout time.Duration
	// Logger receives failures that are tried again. nil discards them.
	Logger *slog.Logger
}

// complete checks the options and sets defaults.
func (o *Options) complete() error {
	o.ID = cmp.Or(o.ID, o.Component+"-"+strings.ReplaceAll(string(uuid.NewUUID()), "-", "")[:randomDigits])
	o.Namespace = cmp.Or(o.Namespace, metav1.NamespaceSystem)
	o.API = cmp.Or(o.API, MigrationAPI)
	o.LeaseDuration = cmp.Or(o.LeaseDuration, defaultLeaseDuration)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, defaultDrainTimeout)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.Config == nil:
		return errors.New("no Config")
	case o.Component == "" || len(validation.IsValidLabelValue(o.Component)) > 0:
		return fmt.Errorf("the Component %q is not the value of a label", o.Component)
	case o.Component == "kube-apiserver":
		return errors.New("the Component kube-apiserver is that of kube-apiservers")
	case len(validation.IsDNS1123Subdomain(o.ID)) > 0:
		return fmt.Errorf("the ID %q is not a DNS subdomain", o.ID)
	case len(validation.IsDNS1123Label(o.Namespace)) > 0:
		return fmt.Errorf("the Namespace %q is not a DNS label", o.Namespace)
	case o.API != MigrationAPI && o.API != InternalAPI:
		return fmt.Errorf("the API %q is neither %s nor %s", o.API, MigrationAPI, InternalAPI)
	case o.LeaseDuration < minLeaseDuration || o.LeaseDuration%time.Second != 0 || o.LeaseDuration > 24*time.Hour:
		return fmt.Errorf("the LeaseDuration %s is not a number of seconds between %s and a day",
			o.LeaseDuration, minLeaseDuration)
	case o.DrainTimeout < 0:
		return fmt.Errorf("the DrainTimeout %s is negative", o.DrainTimeout)
	case len(o.Resources) == 0:
		return errors.New("no Resources")
	}
	o.Resources = slices.Clone(o.Resources)
	seen := map[schema.GroupResource]bool{}
	for i := range o.Resources {
		r := &o.Resources[i]
		if seen[r.GroupResource] {
			return fmt.Errorf("the resource %s comes twice", r)
		}
		seen[r.GroupResource] = true
		if err := r.complete(); err != nil {
			return fmt.Errorf("resource %s: %w", r, err)
		}
	}
	return nil
}

func (r *Resource) complete() error {
	if len(r.DecodableVersions) == 0 {
		r.DecodableVersions = []schema.GroupVersion{r.EncodingVersion}
	}
	switch {
	case len(validation.IsDNS1035Label(r.Resource)) > 0:
		return errors.New("the name is not a DNS label")
	case r.Group != "" && len(validation.IsDNS1123Subdomain(r.Group)) > 0:
		return errors.New("the group is not a DNS subdomain")
	case len(r.DecodableVersions) > maxVersions || len(r.ServedVersions) > maxVersions:
		return fmt.Errorf("more than %d versions", maxVersions)
	case !slices.Contains(r.DecodableVersions, r.EncodingVersion):
		return fmt.Errorf("the encoding version %s is not decodable", r.EncodingVersion)
	}
	for _, served := range r.ServedVersions {
		if !slices.Contains(r.DecodableVersions, served) {
			return fmt.Errorf("the served version %s is not decodable", served)
		}
	}
	for _, v := range r.DecodableVersions {
		if len(validation.IsDNS1035Label(v.Version)) > 0 || v.Group != "" &&
			len(validation.IsDNS1123Subdomain(v.Group)) > 0 {
			return fmt.Errorf("%q is not a group and version", v)
		}
	}
	return nil
}

// namesOf returns each version once: the API servers take lists without duplicates.
func namesOf(versions []schema.GroupVersion) []string {
	var names []string
	for _, v := range versions {
		if !slices.Contains(names, v.String()) {
			names = append(names, v.String())
		}
	}
	return names
}
