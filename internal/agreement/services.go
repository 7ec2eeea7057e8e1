// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const slicesPath = "/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices?labelSelector=kubernetes.io%%2Fservice-name%%3D%s"

// service is an APIService with another API server behind it.
type service struct {
	name string
	// id changes when the APIService is created again, or when its spec changes.
	id                 string
	group              string
	namespace, service string
	// siblings identify all APIServices of the group that have the same service behind them, sorted. A resource may be
	// requested in any of their versions, and its processes are the same.
	siblings []string
	ca       []byte
	// processes are the processes behind the service, by address. unreachable says why they cannot be asked.
	processes []process
	// departed are no longer listed and can still write; see departed.go.
	departed    []process
	unreachable string
	// slices identify the EndpointSlices of the service and their generations. slices is empty if there are none or
	// they could not be read.
	slices []string
}

// process is one process of an aggregated API server.
type process struct {
	address string
	// pod is the UID of the pod. Another pod at the same address is another process.
	pod string
}

// serverName is the name for which kube-apiservers verify the server's certificate.
func (s *service) serverName() string { return s.service + "." + s.namespace + ".svc" }

// all returns the processes that can write, by address.
func (s *service) all() []process {
	if s == nil {
		return nil
	}
	list := slices.Concat(s.processes, s.departed)
	slices.SortFunc(list, func(a, b process) int { return strings.Compare(a.address, b.address) })
	return list
}

// holders identifies the processes that can write, sorted. They correspond to the holderIdentities of kube-apiservers.
func (s *service) holders() []string { return s.identities(s.all()) }

// listed identifies the processes in the endpoints of the service.
func (s *service) listed() []string {
	if s == nil {
		return nil
	}
	return s.identities(s.processes)
}

func (s *service) identities(processes []process) []string {
	if len(processes) == 0 {
		return nil
	}
	list := slices.Clone(s.siblings)
	for _, p := range processes {
		list = append(list, p.String())
	}
	return list
}

// traces are what the processes behind the service leave behind, or nil if they leave nothing that can be read. A
// process that was added and removed again has raised the generation of its EndpointSlice; another service in between
// has raised that of the APIService.
func (s *service) traces() []string {
	if len(s.slices) == 0 {
		return nil
	}
	return append([]string{"apiservice " + s.name + " " + s.id}, s.slices...)
}

// readServices lists the group-versions that other API servers serve, of one group or, if group is empty, of all
// groups. It finds the processes behind them.
func readServices(ctx context.Context, c *client, group string) (map[schema.GroupVersion]*service, error) {
	body, _, err := c.get(ctx, apiserver.APIServicesPath)
	if statusOf(err) == http.StatusNotFound { // no aggregation
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list APIServices: %w", err)
	}
	var list apiserver.APIServices
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("decode APIServices: %w", err)
	}
	found := map[schema.GroupVersion]*service{}
	behind := map[string]*service{} // a service may serve several group-versions
	for i := range list.Items {
		s := serviceBehind(&list.Items[i])
		if s == nil || group != "" && s.group != group {
			continue
		}
		key := s.namespace + "/" + s.service
		if known := behind[key]; known != nil {
			s.processes, s.slices = known.processes, known.slices
			if s.unreachable == "" {
				s.unreachable = known.unreachable
			}
		} else if err := findProcesses(ctx, c, s); err != nil {
			return nil, err
		}
		behind[key] = s
		found[list.Items[i].GroupVersion()] = s
	}
	for _, s := range found {
		for _, other := range found {
			if other.group == s.group && other.namespace == s.namespace && other.service == s.service {
				s.siblings = append(s.siblings, other.name+"/"+other.id)
			}
		}
		slices.Sort(s.siblings)
	}
	return found, nil
}

// serviceBehind returns nil for an APIService that kube-apiservers serve themselves.
func serviceBehind(a *apiserver.APIService) *service {
	if a.Spec.Service == nil {
		return nil
	}
	s := &service{
		group: a.Spec.Group, name: a.Metadata.Name, id: fmt.Sprintf("%s/%d", a.Metadata.UID, a.Metadata.Generation),
		namespace: a.Spec.Service.Namespace, service: a.Spec.Service.Name, ca: a.Spec.CABundle,
	}
	switch {
	case a.Spec.InsecureSkipTLSVerify:
		s.unreachable = "the APIService skips the verification of certificates"
	case len(s.ca) == 0:
		s.unreachable = "the APIService names no certificate authority"
	}
	return s
}

// findProcesses reads the EndpointSlices of the service.
func findProcesses(ctx context.Context, c *client, s *service) error {
	if err := apipath.Segment("namespace", s.namespace); err != nil {
		return fmt.Errorf("%w: APIService %s: %w", migrate.ErrUntrustedAnswer, s.name, err)
	}
	body, _, err := c.get(bounded.WithLimit(ctx, identityBytes),
		fmt.Sprintf(slicesPath, url.PathEscape(s.namespace), url.QueryEscape(s.service)))
	if statusOf(err) == http.StatusForbidden {
		s.unreachable = "reading the EndpointSlices of the service behind the APIService is forbidden"
		return nil
	}
	if err != nil {
		return fmt.Errorf("list EndpointSlices of %s/%s: %w", s.namespace, s.service, err)
	}
	var list struct {
		Items bounded.List[endpointSlice] `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return fmt.Errorf("decode EndpointSlices of %s/%s: %w", s.namespace, s.service, err)
	}
	pods := map[string]bool{}
	for i := range list.Items {
		port, meta := portOf(&list.Items[i]), &list.Items[i].Metadata
		s.slices = append(s.slices, fmt.Sprintf("endpointslice %s/%s %s generation %d", s.namespace, meta.Name,
			meta.UID, meta.Generation))
		for _, e := range list.Items[i].Endpoints {
			// Further addresses, and those of another family, belong to the same process.
			if len(e.Addresses) == 0 || pods[e.TargetRef.UID] {
				continue
			}
			pods[e.TargetRef.UID] = e.TargetRef.UID != ""
			s.processes = append(s.processes, process{address: net.JoinHostPort(e.Addresses[0],
				port), pod: e.TargetRef.UID})
		}
	}
	slices.Sort(s.slices)
	slices.SortFunc(s.processes, func(a, b process) int { return strings.Compare(a.address, b.address) })
	s.processes = slices.Compact(s.processes)
	if len(s.processes) == 0 && s.unreachable == "" {
		s.unreachable = "the service behind the APIService has no endpoints"
	}
	return nil
}

// String returns the identity of the process.
func (p process) String() string { return strings.TrimSuffix(p.address+"/"+p.pod, "/") }
