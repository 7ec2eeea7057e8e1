// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/internal/bounded"
)

// APIServicesPath is the path of the list of APIServices. An API server without aggregation answers 404.
const APIServicesPath = "/apis/apiregistration.k8s.io/v1/apiservices"

// APIServices is the answer to a request for APIServicesPath.
type APIServices struct {
	Items bounded.List[APIService] `json:"items"`
}

// APIService is the part of an APIService that says which server serves a group-version, and how to reach that server.
type APIService struct {
	Metadata struct {
		Name       string    `json:"name"`
		UID        types.UID `json:"uid"`
		Generation int64     `json:"generation"`
	} `json:"metadata"`
	Spec struct {
		Group                 string `json:"group"`
		Version               string `json:"version"`
		InsecureSkipTLSVerify bool   `json:"insecureSkipTLSVerify"`
		CABundle              []byte `json:"caBundle"`
		// Service is nil if the API server that answers serves the group-version itself.
		Service *struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"service"`
	} `json:"spec"`
	Status struct {
		Conditions []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Message string `json:"message"`
		} `json:"conditions"`
	} `json:"status"`
}

// GroupVersion returns what the APIService is about.
func (s *APIService) GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: s.Spec.Group, Version: s.Spec.Version}
}

// Unavailable returns why the server behind the APIService is unavailable, or "".
func (s *APIService) Unavailable() (why string) {
	for _, c := range s.Status.Conditions {
		if c.Type == "Available" && c.Status != "True" {
			why = c.Message
		}
	}
	return why
}
