// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// inTreeVersions are those of Kubernetes' own API for the same job, in storagemigration.k8s.io.
var inTreeVersions = []string{"v1", "v1beta1", "v1alpha1"}

// inTree is the part of a StorageVersionMigration of Kubernetes that says whether it is at work.
type inTree struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Resource struct {
			Resource string `json:"resource"`
		} `json:"resource"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// ended reports whether nothing will be written for it any more.
func (m inTree) ended() bool {
	for _, c := range m.Status.Conditions {
		if (c.Type == "Succeeded" || c.Type == "Failed") && c.Status == metav1.ConditionTrue {
			return true
		}
	}
	return false
}

// readInTree returns what Kubernetes' own migrator is at work on, as names of migrations by plural name of the resource.
// Empty where the API is not served.
func readInTree(ctx context.Context, client rest.Interface) (map[string]string, error) {
	for _, version := range inTreeVersions {
		result := client.Get().AbsPath("/apis/storagemigration.k8s.io", version, "storageversionmigrations").
			SetHeader("Accept", "application/json").Do(ctx)
		raw, err := result.Raw()
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the in-tree migrations: %w", result.Error())
		}
		var list struct {
			Items []inTree `json:"items"`
		}
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, fmt.Errorf("decode the in-tree migrations: %w", err)
		}
		working := map[string]string{}
		for _, m := range list.Items {
			if !m.ended() {
				working[m.Spec.Resource.Resource] = m.Metadata.Name
			}
		}
		return working, nil
	}
	return nil, nil
}
