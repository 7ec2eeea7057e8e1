// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"slices"
	"strings"
)

// Service is an APIService with another API server behind it.
type Service struct {
	// Name is that of the APIService. ID changes when the APIService is created again, or when its spec changes.
	Name, ID, Group string
	// Namespace and Service name the service.
	Namespace, Service string
	// Siblings identify all APIServices of the group that have the same service behind them, sorted. A resource may be
	// requested in any of their versions, and its processes are the same.
	Siblings []string
	// CA verifies the certificates of the processes; PEM.
	CA []byte
	// Processes are the processes behind the service, by address. Unreachable says why they cannot be asked.
	Processes []Process
	// Departed are no longer listed and can still write.
	Departed    []Process
	Unreachable string
	// Slices identify the EndpointSlices of the service and their generations. Slices is empty if there are none or
	// they could not be read.
	Slices []string
}

// Process is one process of an aggregated API server.
type Process struct {
	Address string
	// Pod is the UID of the pod. Another pod at the same address is another process.
	Pod string
}

// ServerName is the name for which kube-apiservers verify the server's certificate.
func (s *Service) ServerName() string { return s.Service + "." + s.Namespace + ".svc" }

// All returns the processes that can write, by address.
func (s *Service) All() []Process {
	if s == nil {
		return nil
	}
	list := slices.Concat(s.Processes, s.Departed)
	slices.SortFunc(list, func(a, b Process) int { return strings.Compare(a.Address, b.Address) })
	return list
}

// Holders identifies the processes that can write, sorted. They correspond to the holderIdentities of kube-apiservers.
func (s *Service) Holders() []string { return s.identities(s.All()) }

// Listed identifies the processes in the endpoints of the service.
func (s *Service) Listed() []string {
	if s == nil {
		return nil
	}
	return s.identities(s.Processes)
}

func (s *Service) identities(processes []Process) []string {
	if len(processes) == 0 {
		return nil
	}
	list := slices.Clone(s.Siblings)
	for _, p := range processes {
		list = append(list, p.String())
	}
	return list
}

// Traces are what the processes behind the service leave behind, or nil if they leave nothing that can be read. A
// process that was added and removed again has raised the generation of its EndpointSlice; another service in between
// has raised that of the APIService.
func (s *Service) Traces() []string {
	if len(s.Slices) == 0 {
		return nil
	}
	return append([]string{"apiservice " + s.Name + " " + s.ID}, s.Slices...)
}

// String returns the identity of the process.
func (p Process) String() string { return strings.TrimSuffix(p.Address+"/"+p.Pod, "/") }

// Including adds the processes that are no longer listed and can still write.
func (s *Service) Including(a Absent) *Service {
	if len(a.Serving) == 0 {
		return s
	}
	extended := *s
	for _, one := range a.Serving {
		pod := strings.TrimPrefix(strings.TrimPrefix(one.Holder, one.Address), "/")
		extended.Departed = append(extended.Departed, Process{Address: one.Address, Pod: pod})
	}
	return &extended
}
