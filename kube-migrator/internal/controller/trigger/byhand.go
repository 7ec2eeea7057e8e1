// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/ledger"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// ByHand records in a StorageState what a run proved that belongs to no StorageVersionMigration. It is for processes
// other than the controller: the run may take place while the controller runs, or while it is away. It shrinks the
// record under the same rules as the controller (I2); see ledger.FinishedByHand.
type ByHand struct {
	client   rest.Interface
	resource inventory.Resource
	// before is the StorageState before the run. If it is nil, why says why.
	before *v1alpha1.StorageState
	why    string
}

// PrepareByHand reads the StorageState of a resource. Call it before the run does anything; the run must not continue
// from the checkpoint of another run. It returns nil if the API server does not serve StorageStates, so that there is
// nothing to record in.
func PrepareByHand(ctx context.Context, client rest.Interface, r inventory.Resource) *ByHand {
	h := &ByHand{client: client, resource: r}
	before, err := h.read(ctx)
	status := apierrors.APIStatus(nil)
	switch {
	case err == nil:
		h.before = before
	case apierrors.IsNotFound(err) && (!errors.As(err, &status) || status.Status().Details == nil ||
		status.Status().Details.Name == ""):
		return nil // a NotFound about a missing object would carry its name
	case apierrors.IsNotFound(err):
		h.why = "it did not exist when the run started"
	default:
		h.why = "it could not be read when the run started: " + err.Error()
	}
	return h
}

// Before returns the status of the StorageState before the run. It is empty if there was none.
func (h *ByHand) Before() *v1alpha1.StorageStateStatus {
	if h == nil || h.before == nil {
		return new(v1alpha1.StorageStateStatus)
	}
	return &h.before.Status
}

// Record records that a run was proven in an epoch, with its baseline. It returns the versions that the StorageState
// lists now, even if it listed the same ones before; or, for users, why the proof is not recorded.
func (h *ByHand) Record(ctx context.Context, epoch migrate.Epoch, baseline uint64) (versions []string, why string) {
	if h.before == nil {
		return nil, h.why
	}
	proof := ledger.Proof{
		Epoch: ledger.EpochID{Hash: epoch.Hash, Processes: epoch.Servers, UID: epoch.CRDUID,
			Generation: epoch.CRDGeneration},
		Baseline: baseline, Observed: epoch.Evidence >= migrate.Observed,
	}
	const attempts = 5
	var err error
	for range attempts {
		versions, why, err = h.try(ctx, proof, epoch.Evidence)
		if !apierrors.IsConflict(err) || ctx.Err() != nil {
			break // there was no conflicting write
		}
	}
	switch {
	case err != nil:
		return nil, err.Error()
	case why != "":
		return nil, why
	}
	return versions, ""
}

func (h *ByHand) try(ctx context.Context, proof ledger.Proof,
	evidence migrate.Evidence) (versions []string, why string, err error) {
	state, err := h.read(ctx)
	if err != nil {
		return nil, "", err
	}
	if state.UID != h.before.UID {
		return nil, "it was deleted and created again since the run started", nil
	}
	if why := tooWeak(evidence, &state.Status); why != "" {
		return nil, why, nil
	}
	now, err := h.collection(ctx)
	if err != nil {
		return nil, "", err
	}
	before, s := recorded(&h.before.Status), recorded(&state.Status)
	d := ledger.FinishedByHand(before, s, proof, now)
	if d.Refused != "" || slices.Equal(d.State.Persisted, s.Persisted) && d.State.OnlyDecodable == s.OnlyDecodable {
		return state.Status.PersistedVersions, d.Refused, nil
	}
	next := status(&state.Status, d.State, nil, "", time.Now())
	next.State = phase(&next)
	return next.PersistedVersions, "", h.write(ctx, state, &next)
}

// tooWeak returns why the evidence of a run is too weak, or "". A record of an epoch that not every API server was asked
// about shows that the installation accepts a run that has made up for that.
func tooWeak(evidence migrate.Evidence, s *v1alpha1.StorageStateStatus) string {
	accepted := evidence == migrate.Verified && s.Epoch != nil && s.Evidence == migrate.Sampled.String()
	if evidence >= migrate.Observed || accepted {
		return ""
	}
	return fmt.Sprintf("the evidence of the run is %v", evidence)
}

// collection reads the position of the resource's collection.
func (h *ByHand) collection(ctx context.Context) (ledger.Collection, error) {
	name := h.resource.GroupResource.String()
	at := collectionOf(&resource{view: agreement.Verdict{Origin: h.resource.Origin}, entry: &h.resource}, "default")
	c := comparer{rest: h.client, collections: map[string]collection{name: at}}
	main, err := c.mainPosition(ctx)
	if err != nil && at.main {
		return ledger.Collection{}, err
	}
	found, err := c.read(ctx, []string{name}, main)
	return found[name], err
}

func (h *ByHand) path(subresource ...string) (string, error) {
	return apipath.Object(v1alpha1.SchemeGroupVersion.WithResource("storagestates"), "",
		h.resource.GroupResource.String(), subresource...)
}

func (h *ByHand) read(ctx context.Context) (*v1alpha1.StorageState, error) {
	path, err := h.path()
	if err != nil {
		return nil, err
	}
	state := new(v1alpha1.StorageState)
	if err := apiserver.Send(ctx, h.client.Get().AbsPath(path), state); err != nil {
		return nil, err
	}
	return state, nil
}

// write changes only the fields that the decision changed, and keeps the fields that a newer controller may have added.
func (h *ByHand) write(ctx context.Context, state *v1alpha1.StorageState, next *v1alpha1.StorageStateStatus) error {
	path, err := h.path("status")
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": state.UID, "resourceVersion": state.ResourceVersion},
		"status": map[string]any{
			"state": next.State, "persistedStorageVersionHashes": next.PersistedStorageVersionHashes,
			"persistedVersions": next.PersistedVersions, "onlyDecodable": next.OnlyDecodable,
			"resourceVersion": next.ResourceVersion, "witness": next.Witness, "conditions": next.Conditions,
			"proven": next.Proven,
		},
	})
	if err != nil {
		return err
	}
	request := h.client.Patch(types.MergePatchType).AbsPath(path).Param("fieldManager", program).Body(patch)
	return apiserver.Send(ctx, request, nil)
}
