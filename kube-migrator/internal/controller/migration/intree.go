// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
)

// inTreeVersions are the versions of Kubernetes' own API for the same job, in storagemigration.k8s.io.
var inTreeVersions = []string{"v1", "v1beta1", "v1alpha1"}

// inTree is what is known about Kubernetes' own migrator. The zero value means that it is not at work.
type inTree struct {
	// working names its migrations that are at work, by plural name of the resource.
	working map[string]string
	// problem is why this cannot be determined, or "". If it cannot, no run starts (I8).
	problem string
}

// These bound how long an in-tree migration holds back ours (I8). Its controller may be off, so that it never ends, and
// one that is deleted while it runs leaves no trace. Two migrators on one resource do no harm to objects and only cost
// twice as much, so the wait is bounded.
const (
	// inTreeBegins is the time within which a migration of Kubernetes begins if its controller runs.
	inTreeBegins = 10 * time.Minute
	// inTreeEnds is the time within which such a migration ends: at 140 objects per second that is 12 million objects.
	inTreeEnds = 24 * time.Hour
)

// inTreeMigration is the part of a StorageVersionMigration of Kubernetes that shows whether it is at work.
type inTreeMigration struct {
	Metadata struct {
		Name              string      `json:"name"`
		CreationTimestamp metav1.Time `json:"creationTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Resource struct {
			Resource string `json:"resource"`
		} `json:"resource"`
	} `json:"spec"`
	Status struct {
		Conditions bounded.List[metav1.Condition] `json:"conditions"`
	} `json:"status"`
}

// ended reports whether nothing more will be written for it.
func (m inTreeMigration) ended() bool {
	for _, c := range m.Status.Conditions {
		if (c.Type == "Succeeded" || c.Type == "Failed") && c.Status == metav1.ConditionTrue {
			return true
		}
	}
	return false
}

// atWork reports whether objects may still be written for it.
func (m inTreeMigration) atWork(now time.Time) bool {
	if m.ended() {
		return false
	}
	for _, c := range m.Status.Conditions {
		if c.Type == "Running" && c.Status == metav1.ConditionTrue {
			return now.Sub(c.LastTransitionTime.Time) < inTreeEnds
		}
	}
	return now.Sub(m.Metadata.CreationTimestamp.Time) < inTreeBegins
}

// readInTree reads which migrations Kubernetes' own migrator is working on. There are none if its API is not served.
func readInTree(ctx context.Context, client rest.Interface, now time.Time) inTree {
	for _, version := range inTreeVersions {
		path := "/apis/storagemigration.k8s.io/" + version + "/storageversionmigrations" // inTreeVersions are constants
		var list struct {
			Items bounded.List[inTreeMigration] `json:"items"`
		}
		err := apiserver.Send(ctx, client.Get().AbsPath(path), &list)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return inTree{problem: err.Error()}
		}
		working := map[string]string{}
		for _, m := range list.Items {
			if m.atWork(now) {
				working[m.Spec.Resource.Resource] = m.Metadata.Name
			}
		}
		return inTree{working: working}
	}
	return inTree{}
}
