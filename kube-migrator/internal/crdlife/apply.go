// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crdlife

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/refusal"
)

const (
	// DefaultFieldManager is the field manager of `kubectl apply --server-side`.
	DefaultFieldManager = "kubectl"
	// clientSide is the field manager of `kubectl apply` without --server-side.
	clientSide = "kubectl-client-side-apply"
)

// Applier applies CRDs by server-side apply.
type Applier struct {
	Client rest.Interface
	// FieldManager owns the fields that are applied.
	FieldManager string
	// Force takes over fields from other field managers.
	Force bool
	// DryRun makes the API server check each write and store nothing.
	DryRun bool
}

// apply applies an object over live, which is nil if the cluster has no such CRD. An apierrors conflict says that the
// CRD has changed since it was read, and a *refusal.Error that another field manager owns fields that would change.
func (a Applier) apply(ctx context.Context, object map[string]any, live *CRD, again string) (*crd.CRD, error) {
	if losesConversion(object, live) {
		if err := a.applyWithWebhook(ctx, object, live, again); err != nil || a.DryRun {
			return nil, err
		}
		if err := a.removeWebhook(ctx, live); err != nil {
			return nil, err
		}
	}
	if live != nil {
		if err := a.adopt(ctx, live); err != nil {
			return nil, err
		}
	}
	return a.send(ctx, object, live, again)
}

// losesConversion reports whether live has a conversion webhook and the object has none. The API server would keep what
// others own of it, such as a caBundle that was injected, and refuse the object.
func losesConversion(object map[string]any, live *CRD) bool {
	spec, _ := object["spec"].(map[string]any)
	conversion, _ := spec["conversion"].(map[string]any)
	return live != nil && live.Webhook() && conversion["strategy"] != "Webhook"
}

// applyWithWebhook applies everything but the loss of the conversion webhook. If the process dies before that is removed,
// objects are still converted, and the next plan does the same again.
func (a Applier) applyWithWebhook(ctx context.Context, object map[string]any, live *CRD, again string) error {
	if owner := a.conversionOwner(live, "f:strategy"); owner != "" && !a.Force {
		return refusal.New(Conflict, again+" --force-conflicts", "another field manager owns the conversion webhook that would "+
			"be removed: %s; --field-manager=NAME applies as that manager", owner)
	}
	if err := a.adopt(ctx, live); err != nil {
		return err
	}
	with, spec := maps.Clone(object), maps.Clone(object["spec"].(map[string]any))
	spec["conversion"] = live.object["spec"].(map[string]any)["conversion"]
	with["spec"] = spec
	switch applied, err := a.send(ctx, with, live, again); {
	case err != nil && (!a.DryRun || !errors.Is(err, errAdoptable)):
		return err
	case err == nil && !a.DryRun:
		live.CRD = *applied
	}
	return nil
}

// conversionOwner returns a field manager that owns a field of spec.conversion, other than those whose fields are taken
// over, or "".
func (a Applier) conversionOwner(live *CRD, field string) string {
	for _, e := range live.Metadata.ManagedFields {
		var fields struct {
			Spec struct {
				Conversion map[string]any `json:"f:conversion"`
			} `json:"f:spec"`
		}
		if e.FieldsV1 == nil || e.Subresource != "" || e.Manager == a.FieldManager || slices.Contains(a.adopted(), e.Manager) ||
			json.Unmarshal([]byte(pruning.FieldsOf(e.FieldsV1)), &fields) != nil {
			continue
		}
		if _, owns := fields.Spec.Conversion[field]; owns {
			return e.Manager
		}
	}
	return ""
}

// send applies an object as it is.
func (a Applier) send(ctx context.Context, object map[string]any, live *CRD, again string) (*crd.CRD, error) {
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
		Param("fieldValidation", metav1.FieldValidationStrict).Body(body)
	if a.Force {
		request = request.Param("force", "true")
	}
	if a.DryRun {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	applied := new(crd.CRD)
	if err := apiserver.Send(ctx, request, applied); err != nil {
		return nil, a.explain(err, again)
	}
	return applied, nil
}

// Try has the API server check a CRD in the place of live, which is nil if the cluster has no such CRD, and store nothing.
// It returns why the API server refuses it.
func Try(ctx context.Context, client rest.Interface, next, live *CRD) error {
	body, err := applicable(next.object, live)
	if err != nil {
		return err
	}
	request := client.Post().AbsPath(crdsPath)
	if live != nil {
		path, err := apipath.Join(crdsPath, live.Name())
		if err != nil {
			return err
		}
		request = client.Put().AbsPath(path)
	}
	request = request.Param("dryRun", metav1.DryRunAll).Param("fieldValidation", metav1.FieldValidationStrict).
		SetHeader("Content-Type", "application/json").Body(body)
	return apiserver.Send(ctx, request, nil)
}

// WebhookKeptBy returns the field manager because of which an API server would keep a part of the conversion webhook of the
// cluster's CRD, and so refuse a CRD without one that is applied, or "".
func WebhookKeptBy(next, live *CRD) string {
	if !losesConversion(next.object, live) {
		return ""
	}
	return Applier{FieldManager: DefaultFieldManager}.conversionOwner(live, "f:webhook")
}

// removeWebhook removes the conversion webhook, with what others own of it: whatever a CRD without one is applied over.
func (a Applier) removeWebhook(ctx context.Context, live *CRD) error {
	path, err := apipath.Join(crdsPath, live.Name())
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": live.Metadata.UID, "resourceVersion": live.Metadata.ResourceVersion},
		"spec":     map[string]any{"conversion": map[string]any{"strategy": "None", "webhook": nil}},
	})
	if err != nil {
		return err
	}
	request := a.Client.Patch(types.MergePatchType).AbsPath(path).Param("fieldManager", crd.Writer).Body(body)
	var written crd.CRD
	if err := apiserver.Send(ctx, request, &written); err != nil {
		return fmt.Errorf("remove the conversion webhook: %w", err)
	}
	live.CRD = written
	return nil
}

// explain turns a conflict of field managers into a refusal. A dry run adopts nothing, so it ignores conflicts with the
// field managers that would be adopted, and returns errAdoptable if there are no others.
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
	return refusal.New(Conflict, again+" --force-conflicts", "other field managers own fields that would change: %s; "+
		"--field-manager=NAME applies them as one of these managers", strings.Join(slices.Compact(owners), "; "))
}

// errAdoptable says that a dry run conflicts only with field managers that would be adopted.
var errAdoptable = errors.New("conflicts with field managers that are to be adopted")

// adopted returns the field managers whose fields FieldManager takes over.
func (a Applier) adopted() []string {
	return slices.DeleteFunc([]string{clientSide, crd.Writer},
		func(manager string) bool { return manager == a.FieldManager })
}

// adopt gives FieldManager the fields that client-side `kubectl apply` and kube-migrator's own writes own, as
// `kubectl apply --server-side` does: a server-side apply would conflict with the former, and would not remove the
// latter.
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
	request := a.Client.Patch(types.JSONPatchType).AbsPath(path).Param("fieldManager", crd.Writer).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").Body(patch)
	var written metav1.PartialObjectMetadata
	if err := apiserver.Send(ctx, request, &written); err != nil {
		return fmt.Errorf("take over the fields of %s: %w", clientSide, err)
	}
	live.Metadata.ResourceVersion, live.Metadata.ManagedFields = written.ResourceVersion, written.ManagedFields
	return nil
}
