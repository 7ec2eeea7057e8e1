// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

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

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const slicesPath = "/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices?labelSelector=kubernetes.io%%2Fservice-name%%3D%s"

// readServices lists the group-versions that other API servers serve, of one group or, if group is empty, of all
// groups. It finds the processes behind them.
func readServices(ctx context.Context, c *client, group string) (map[schema.GroupVersion]*snapshot.Service, error) {
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
	found := map[schema.GroupVersion]*snapshot.Service{}
	behind := map[string]*snapshot.Service{} // a service may serve several group-versions
	for i := range list.Items {
		s := serviceBehind(&list.Items[i])
		if s == nil || group != "" && s.Group != group {
			continue
		}
		key := s.Namespace + "/" + s.Service
		if known := behind[key]; known != nil {
			s.Processes, s.Slices = known.Processes, known.Slices
			if s.Unreachable == "" {
				s.Unreachable = known.Unreachable
			}
		} else if err := findProcesses(ctx, c, s); err != nil {
			return nil, err
		}
		behind[key] = s
		found[list.Items[i].GroupVersion()] = s
	}
	for _, s := range found {
		for _, other := range found {
			if other.Group == s.Group && other.Namespace == s.Namespace && other.Service == s.Service {
				s.Siblings = append(s.Siblings, other.Name+"/"+other.ID)
			}
		}
		slices.Sort(s.Siblings)
	}
	return found, nil
}

// serviceBehind returns nil for an APIService that kube-apiservers serve themselves.
func serviceBehind(a *apiserver.APIService) *snapshot.Service {
	if a.Spec.Service == nil {
		return nil
	}
	s := &snapshot.Service{
		Group: a.Spec.Group, Name: a.Metadata.Name, ID: fmt.Sprintf("%s/%d", a.Metadata.UID, a.Metadata.Generation),
		Namespace: a.Spec.Service.Namespace, Service: a.Spec.Service.Name, CA: a.Spec.CABundle,
	}
	switch {
	case a.Spec.InsecureSkipTLSVerify:
		s.Unreachable = "the APIService skips the verification of certificates"
	case len(s.CA) == 0:
		s.Unreachable = "the APIService names no certificate authority"
	}
	return s
}

// findProcesses reads the EndpointSlices of the service.
func findProcesses(ctx context.Context, c *client, s *snapshot.Service) error {
	if err := apipath.Segment("namespace", s.Namespace); err != nil {
		return fmt.Errorf("%w: APIService %s: %w", migrate.ErrUntrustedAnswer, s.Name, err)
	}
	body, _, err := c.get(bounded.WithLimit(ctx, identityBytes),
		fmt.Sprintf(slicesPath, url.PathEscape(s.Namespace), url.QueryEscape(s.Service)))
	if statusOf(err) == http.StatusForbidden {
		s.Unreachable = "reading the EndpointSlices of the service behind the APIService is forbidden"
		return nil
	}
	if err != nil {
		return fmt.Errorf("list EndpointSlices of %s/%s: %w", s.Namespace, s.Service, err)
	}
	var list struct {
		Items bounded.List[endpointSlice] `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return fmt.Errorf("decode EndpointSlices of %s/%s: %w", s.Namespace, s.Service, err)
	}
	pods := map[string]bool{}
	for i := range list.Items {
		port, meta := portOf(&list.Items[i]), &list.Items[i].Metadata
		s.Slices = append(s.Slices, fmt.Sprintf("endpointslice %s/%s %s generation %d", s.Namespace, meta.Name,
			meta.UID, meta.Generation))
		for _, e := range list.Items[i].Endpoints {
			// Further addresses, and those of another family, belong to the same process.
			if len(e.Addresses) == 0 || pods[e.TargetRef.UID] {
				continue
			}
			pods[e.TargetRef.UID] = e.TargetRef.UID != ""
			s.Processes = append(s.Processes, snapshot.Process{Address: net.JoinHostPort(e.Addresses[0],
				port), Pod: e.TargetRef.UID})
		}
	}
	slices.Sort(s.Slices)
	slices.SortFunc(s.Processes, func(a, b snapshot.Process) int { return strings.Compare(a.Address, b.Address) })
	s.Processes = slices.Compact(s.Processes)
	if len(s.Processes) == 0 && s.Unreachable == "" {
		s.Unreachable = "the service behind the APIService has no endpoints"
	}
	return nil
}
