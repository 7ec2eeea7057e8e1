// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestTheOwnerIsNamedAsWellAsObjectsTell(t *testing.T) {
	crd := func(labels, annotations map[string]string, managers ...string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetLabels(labels)
		o.SetAnnotations(annotations)
		var fields []metav1.ManagedFieldsEntry
		for _, m := range managers {
			fields = append(fields, metav1.ManagedFieldsEntry{Manager: m})
		}
		o.SetManagedFields(append(fields, metav1.ManagedFieldsEntry{Manager: "kube-apiserver", Subresource: "status"}))
		return o
	}
	approved := map[string]string{approvedAnnotation: "https://example.com/approved"}
	for name, test := range map[string]struct {
		object    *unstructured.Unstructured
		workloads []string
		want      string
	}{
		"OpenShift marks what a release includes": {
			crd(nil, map[string]string{"include.release.openshift.io/self-managed-high-availability": "true",
				approvedAnnotation: "x"}, "cluster-version-operator"), nil,
			"OpenShift's kube-storage-version-migrator (written by cluster-version-operator)",
		},
		"Helm names its release": {
			crd(map[string]string{managedByLabel: "Helm"},
				map[string]string{"meta.helm.sh/release-name": "migrator",
					"meta.helm.sh/release-namespace": "ops"}, "helm"), nil,
			"the Helm release ops/migrator (written by helm)",
		},
		"an approved CRD and a Deployment": {
			crd(nil, approved, "kubectl-create"), []string{"kube-system/migrator"},
			"kube-storage-version-migrator (Deployment kube-system/migrator; written by kubectl-create)",
		},
		"a label tells who manages it": {crd(map[string]string{managedByLabel: "argocd"}, nil), nil, "argocd"},
		"nothing tells":                {crd(nil, nil, "kubectl"), nil, "unknown (written by kubectl)"},
	} {
		if got := ownerOf([]*unstructured.Unstructured{test.object}, test.workloads); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestARolloutIsDoneWhenEveryNewReplicaIsAvailableAndNoOldOneIsLeft(t *testing.T) {
	for name, test := range map[string]struct {
		status appsv1.DeploymentStatus
		want   string
	}{
		"no one has looked": {appsv1.DeploymentStatus{ObservedGeneration: 1},
			"nothing has acted on it yet; kube-controller-manager does"},
		"one is updated": {appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 1,
			AvailableReplicas: 2}, "1 of 2 replicas are updated"},
		"an old one is left": {appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 2,
			AvailableReplicas: 3}, "1 old replicas have to go"},
		"one is available": {appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2,
			AvailableReplicas: 1}, "1 of 2 replicas are available"},
		"everything is there": {appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2,
			AvailableReplicas: 2}, ""},
	} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2},
			Spec: appsv1.DeploymentSpec{Replicas: new(int32(2))}, Status: test.status}
		if done, state := rolledOut(d); state != test.want || done != (test.want == "") {
			t.Errorf("%s: %v, %q, want %q", name, done, state, test.want)
		}
	}
}

func TestTroubleOfPodsIsToldInTheirOwnWords(t *testing.T) {
	waiting := func(reason, message string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
				{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason,
					Message: message}}},
			}}}
	}
	failing := &appsv1.Deployment{Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "quota exceeded"},
	}}}
	pending := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available"},
		}}}
	for want, test := range map[string]struct {
		d    *appsv1.Deployment
		pods []corev1.Pod
	}{
		"":                              {&appsv1.Deployment{}, []corev1.Pod{waiting("ContainerCreating", "")}},
		"pod p waits: ErrImagePull: no": {&appsv1.Deployment{}, []corev1.Pod{waiting("ErrImagePull", "no")}},
		"pod p waits: CrashLoopBackOff": {&appsv1.Deployment{}, []corev1.Pod{waiting("CrashLoopBackOff", "")}},
		"pod p is not scheduled: 0/1 nodes are available": {&appsv1.Deployment{}, []corev1.Pod{pending}},
		"quota exceeded": {failing, nil},
	} {
		if got := trouble(test.d, test.pods); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestOtherMigratorsAreRecognizedByNameOrImage(t *testing.T) {
	deployment := func(name, image string) appsv1.Deployment {
		d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Image: image}}
		return d
	}
	got := foreignWorkloads([]appsv1.Deployment{
		deployment("coredns", "coredns"), deployment("migrator", "registry/storage-version-migration-migrator:v1"),
		deployment("kube-storage-version-migrator", "x"),
	})
	if len(got) != 2 || got[0] != "kube-system/migrator" || got[1] != "kube-system/kube-storage-version-migrator" {
		t.Errorf("recognized %q", got)
	}
}

func TestARefusalNamesEverythingThatIsForeign(t *testing.T) {
	err := &ForeignError{CRDs: []string{"storageversionmigrations.migration.k8s.io"},
		Namespaces: []string{"ops"}, Controllers: []string{"ci/c"}, Owner: "argocd"}
	for _, name := range []string{"storageversionmigrations.migration.k8s.io", "the namespace ops",
		"Deployment ci/c", "the owner: argocd"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%q does not name %s", err, name)
		}
	}
}

func TestAnUpgradeSaysHowTheControllerChanges(t *testing.T) {
	controller := func(namespace string, arguments ...string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "controller", Args: arguments}}
		return d
	}
	three := controller("b", "--namespace=b", "--worker-image=new", "--bootstrap=all")
	three.Spec.Replicas = new(int32(3))
	planned := controller("b", "controller", "--namespace=b", "--worker-image=new", "--bootstrap=all")
	for name, test := range map[string]struct {
		live *appsv1.Deployment
		want []string
	}{
		"nothing": {controller("b", "controller", "--namespace=b", "--worker-image=new",
			"--bootstrap=all"), nil},
		"another image": {controller("b", "--worker-image=old", "--bootstrap=all"),
			[]string{"the controller's --worker-image: old becomes new"}},
		"a flag less": {controller("b", "--worker-image=new", "--bootstrap=all", "--exclude=a",
			"--exclude=b"), []string{"the controller's --exclude: a,b becomes none"}},
		"another namespace and a flag": {controller("a", "--namespace=a", "--worker-image=new"),
			[]string{"the controller's namespace: a becomes b", "the controller's --bootstrap: none becomes all"}},
		"fewer replicas":                {three, []string{"the controller's replicas: 3 becomes 1"}},
		"a Deployment that others made": {&appsv1.Deployment{}, nil},
	} {
		if diff := cmp.Diff(test.want, changes(test.live, planned)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
