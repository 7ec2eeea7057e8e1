// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crdupgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/csaupgrade"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/refusal"
)

const (
	// DefaultFieldManager is that of `kubectl apply --server-side`.
	DefaultFieldManager = "kubectl"
	// ownFieldManager is that of kube-migrator's other writes to CRDs, such as those of retire.
	ownFieldManager = "kube-migrator"
	// clientSide is the field manager of `kubectl apply` without --server-side.
	clientSide = "kubectl-client-side-apply"
)

// Applier applies CRDs on the server's side.
type Applier struct {
	Client rest.Interface
	// FieldManager owns what is applied.
	FieldManager string
	// Force takes fields from other field managers.
	Force bool
	// DryRun lets the API server check everything and write nothing.
	DryRun bool
}

// apply applies an object in place of live, which is nil where the cluster has none. An apierrors conflict says that
// the CRD is not any more what was read, a *refusal.Error that another field manager owns what would change.
func (a Applier) apply(ctx context.Context, object map[string]any, live *CRD, again string) (*crd.CRD, error) {
	if live != nil {
		if err := a.adopt(ctx, live); err != nil {
			return nil, err
		}
	}
	body, err := applicable(object, live)
	if err != nil {
		return nil, err
	}
	name, _ := object["metadata"].(map[string]any)["name"].(string)
	path, err := apipath.Join(crdsPath, name)
	if err != nil {
		return nil, err
	}
	request := a.Client.Patch(types.ApplyYAMLPatchType).AbsPath(path).Param("fieldManager", a.FieldManager).
		Param("fieldValidation", metav1.FieldValidationStrict).SetHeader("Accept", "application/json").Body(body)
	if a.Force {
		request = request.Param("force", "true")
	}
	if a.DryRun {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	result := request.Do(ctx)
	raw, err := result.Raw()
	if err != nil {
		return nil, a.explain(result.Error(), again) // unlike err with what the API server said
	}
	applied := new(crd.CRD)
	if err := json.Unmarshal(raw, applied); err != nil {
		return nil, fmt.Errorf("decode applied CustomResourceDefinition: %w", err)
	}
	return applied, nil
}

// explain turns a conflict of field managers into a refusal. A dry run has not adopted anything, so the conflicts with
// the field managers that are to be adopted are none; nil where there are no others.
func (a Applier) explain(err error, again string) error {
	var status apierrors.APIStatus
	if !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) || !errors.As(err, &status) {
		return err
	}
	var owners []string
	for _, cause := range status.Status().Details.Causes {
		adopted := a.DryRun && slices.ContainsFunc(a.adopted(),
			func(manager string) bool { return strings.Contains(cause.Message, strconv.Quote(manager)) })
		if cause.Type == metav1.CauseTypeFieldManagerConflict && !adopted {
			owners = append(owners, cause.Message+": "+cause.Field)
		}
	}
	if len(owners) == 0 {
		return errAdoptable
	}
	slices.Sort(owners)
	return refusal.New(Conflict, again+" --force-conflicts", "other field managers own fields that would change: %s",
		strings.Join(slices.Compact(owners), "; "))
}

// errAdoptable says that a dry run conflicts only with what would be adopted.
var errAdoptable = errors.New("conflicts with field managers that are to be adopted")

// adopted are the field managers whose fields become ours.
func (a Applier) adopted() []string {
	return slices.DeleteFunc([]string{clientSide, ownFieldManager},
		func(manager string) bool { return manager == a.FieldManager })
}

// adopt gives our field manager what `kubectl apply` on the client's side and kube-migrator's own writes own, as
// `kubectl apply --server-side` does: an apply on the server's side would conflict with the one, and would not remove
// the other.
func (a Applier) adopt(ctx context.Context, live *CRD) error {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: live.Name(), ResourceVersion: live.Metadata.ResourceVersion,
		ManagedFields: slices.Clone(live.Metadata.ManagedFields),
	}}
	managers := sets.New(a.adopted()...)
	owns := func(e metav1.ManagedFieldsEntry) bool {
		return managers.Has(e.Manager) && e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == ""
	}
	if a.DryRun || !slices.ContainsFunc(object.ManagedFields, owns) {
		return nil
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(object, managers, a.FieldManager)
	if err != nil || len(patch) == 0 {
		return err
	}
	path, err := apipath.Join(crdsPath, live.Name())
	if err != nil {
		return err
	}
	request := a.Client.Patch(types.JSONPatchType).AbsPath(path).Param("fieldManager", ownFieldManager).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").Body(patch)
	result := request.Do(ctx)
	raw, err := result.Raw()
	if err != nil {
		return fmt.Errorf("take over the fields of %s: %w", clientSide, result.Error())
	}
	var written metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &written); err != nil {
		return fmt.Errorf("take over the fields of %s: %w", clientSide, err)
	}
	live.Metadata.ResourceVersion, live.Metadata.ManagedFields = written.ResourceVersion, written.ManagedFields
	return nil
}
