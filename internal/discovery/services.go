// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
)

// Services are the group-versions that other API servers serve.
type Services map[schema.GroupVersion]Service

// Service is the part of an APIService that identifies the server behind it.
type Service struct {
	APIService  string // the name of the APIService
	Name        string // namespace/name of the Service
	Unavailable string // why it is unavailable; empty if it is available
}

// add adds the group-version of an APIService, unless the API server that answers serves it itself.
func (s Services) add(item *apiserver.APIService) {
	if behind := item.Spec.Service; behind != nil {
		s[item.GroupVersion()] = Service{APIService: item.Metadata.Name,
			Name: behind.Namespace + "/" + behind.Name, Unavailable: item.Unavailable()}
	}
}

// AllServices reads which group-versions other API servers serve. An API server without aggregation has none.
func AllServices(ctx context.Context, client rest.Interface) (Services, error) {
	var list apiserver.APIServices
	if err := Read(ctx, client, &list, apiserver.APIServicesPath); err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	found := Services{}
	for i := range list.Items {
		found.add(&list.Items[i])
	}
	return found, nil
}

// ServicesOf reads which of the groups' versions other API servers serve. The name of an APIService is that of its
// version and group.
func ServicesOf(ctx context.Context, client rest.Interface, groups []metav1.APIGroup) (Services, error) {
	found := Services{}
	for _, group := range groups {
		for _, version := range group.Versions {
			path, err := apipath.Join(apiserver.APIServicesPath, version.Version+"."+group.Name)
			if err != nil {
				return nil, err
			}
			item := new(apiserver.APIService)
			switch err := Read(ctx, client, item, path); {
			case apierrors.IsNotFound(err): // an API server without aggregation, or the version has just come
			case err != nil:
				return nil, err
			default:
				found.add(item)
			}
		}
	}
	return found, nil
}
