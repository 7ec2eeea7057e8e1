// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/discovery"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
)

// outlookPage is how many objects Outlook looks at.
const outlookPage = 100

// MayLose returns the fields that objects of a custom resource may have and that a migration would drop, as the schemas of
// its CRD show, or nil. It reads no object.
func MayLose(ctx context.Context, client rest.Interface, r Resource) ([]string, error) {
	rule, err := ruleOf(ctx, client, r, nil)
	if rule == nil {
		return nil, err
	}
	return rule.Possible(), nil
}

// ruleOf returns the rule that a sweep of the resource follows, or nil if no object can lose a field.
func ruleOf(ctx context.Context, client rest.Interface, r Resource, accepted []string) (*pruning.Rule, error) {
	if r.CRD == nil || r.Problem != nil {
		return nil, nil //nolint:nilnil // no rule and no error
	}
	_, schemas, err := crd.GetWithSchemas(ctx, client, r.CRD.Name)
	if err != nil {
		return nil, fmt.Errorf("read CustomResourceDefinition %s: %w", r.CRD.Name, err)
	}
	if rule := pruning.NewRule(schemas, schemas.Endpoint(r.Endpoint), accepted); !rule.Lossless() {
		return rule, nil
	}
	return nil, nil //nolint:nilnil // no rule and no error
}

// Outlook asks the rule that a sweep of the resource follows which objects would lose fields, other than those that may be
// lost. It reads the CRD and the metadata of the first 100 objects (I9). It returns nil if no object can lose a field.
func Outlook(ctx context.Context, client rest.Interface, r Resource, accepted []string) (*pruning.Outlook, error) {
	ctx, cancel := context.WithTimeout(ctx, discovery.Timeout)
	defer cancel()
	rule, err := ruleOf(ctx, client, r, accepted)
	if rule == nil {
		return nil, err
	}
	path, err := apipath.Collection(r.WithVersion(r.Endpoint), "")
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", r.GroupResource, err)
	}
	var list metav1.PartialObjectMetadataList
	err = apiserver.Send(bounded.WithLimit(ctx, maxCountBytes),
		client.Get().AbsPath(path).Param("limit", strconv.Itoa(outlookPage)).MaxRetries(discovery.Retries).
			SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"), &list)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", r.GroupResource, err)
	}
	found := &pruning.Outlook{Possible: rule.Possible(), Looked: int64(len(list.Items)), All: list.Continue == ""}
	for i := range list.Items {
		found.Add(&list.Items[i].ObjectMeta, rule.Lost(list.Items[i].ManagedFields))
	}
	return found, nil
}
