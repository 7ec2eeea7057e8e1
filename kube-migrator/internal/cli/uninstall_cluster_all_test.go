// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package cli

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
)

func TestUninstallLeavesStateUnlessPurged(t *testing.T) {
	t.Parallel()
	i := newInstaller(t, testbed.Options{})
	i.run(exit.Done, "install", "--wait=false")
	post(t, i.client, "/apis/migration.k8s.io/v1alpha1/storageversionmigrations",
		`{"apiVersion":"migration.k8s.io/v1alpha1","kind":"StorageVersionMigration","metadata":{"name":"secrets"},"spec":{"resource":{"version":"v1","resource":"secrets"}}}`)
	for path, body := range map[string]string{
		"/apis/batch/v1/namespaces/kube-migrator/jobs": `{"metadata":{"name":"migrate-1","labels":{"app.kubernetes.io/name":"kube-migrator","app.kubernetes.io/component":"worker"}},
			"spec":{"template":{"spec":{"restartPolicy":"Never","serviceAccountName":"kube-migrator-worker",
			"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},
			"containers":[{"name":"c","image":"x","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}}}}`,
		"/api/v1/namespaces/kube-migrator/pods": `{"metadata":{"name":"lingering"},"spec":{"serviceAccountName":"kube-migrator-worker",
			"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},
			"containers":[{"name":"c","image":"x","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}}`,
		"/api/v1/namespaces/kube-migrator/configmaps": `{"metadata":{"name":"migrate-1","labels":{"app.kubernetes.io/name":"kube-migrator",
			"app.kubernetes.io/managed-by":"kube-migrator","app.kubernetes.io/component":"worker"}}}`,
		"/apis/coordination.k8s.io/v1/namespaces/kube-migrator/leases": `{"metadata":{"name":"kube-migrator-controller"},"spec":{}}`,
	} {
		post(t, i.client, path, body)
	}
	worker := i.clientAs("kube-migrator-worker")
	i.eventually("the worker may patch secrets", func() bool { return i.may(worker, "patch", "", "secrets", "") })
	before := i.installed()

	t.Run("a dry run removes nothing", func(t *testing.T) {
		i.t = t
		for _, mode := range []string{"client", "server"} {
			out, _ := i.run(exit.Done, "uninstall", "--purge", "--dry-run="+mode)
			if got := outcomes(out); got["deleted"] != objects+3 {
				t.Errorf("--dry-run=%s reports %v:\n%s", mode, got, out)
			}
			if diff := cmp.Diff(before, i.installed()); diff != "" {
				t.Errorf("--dry-run=%s (-before +after):\n%s", mode, diff)
			}
		}
	})
	t.Run("permissions go first and state stays", func(t *testing.T) {
		i.t = t
		out, notes := i.run(exit.Done, "uninstall")
		lines := strings.Split(out, "\n")
		for n, line := range lines[:7] {
			if !strings.Contains(line, "Binding") {
				t.Errorf("line %d is %q, want a binding: they go first", n, line)
			}
		}
		for _, word := range []string{"Deployment ", "Job kube-migrator/migrate-1",
			"Lease kube-migrator/kube-migrator-controller", "FlowSchema "} {
			if !strings.Contains(out, word) {
				t.Errorf("%q was not removed:\n%s", word, out)
			}
		}
		if !strings.Contains(notes, "The state stays: ") ||
			!strings.Contains(notes, "kube-migrator uninstall --purge") {
			t.Errorf("notes %q", notes)
		}
		left := slices.Sorted(maps.Keys(i.installed()))
		want := []string{
			"/api/v1/namespaces /kube-migrator", planCRDs + " /storagestates.migration.k8s.io",
			planCRDs + " /storageversionmigrations.migration.k8s.io", planCRDs +
				" /storageversions.migration.k8s.io",
		}
		if diff := cmp.Diff(want, left); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
		if err := i.client.Get().AbsPath(
			"/apis/migration.k8s.io/v1alpha1/storageversionmigrations/secrets",
		).Do(t.Context()).Error(); err != nil {
			t.Errorf("the migration: %v", err)
		}
		if err := worker.Get().AbsPath("/api/v1/secrets").Do(t.Context()).Error(); err == nil {
			t.Error("a worker's token still works")
		}
		if err := i.client.Get().AbsPath(
			"/api/v1/namespaces/kube-migrator/pods/lingering",
		).Do(t.Context()).Error(); err == nil {
			t.Error("a pod is left")
		}
	})
	t.Run("a second time there is nothing to remove", func(t *testing.T) {
		i.t = t
		out, notes := i.run(exit.Done, "uninstall")
		if out != "" || !strings.HasPrefix(notes, "There is nothing to remove.\nThe state stays: ") {
			t.Errorf("stdout %q, stderr %q", out, notes)
		}
	})
	t.Run("what the installation goes on from is still there", func(t *testing.T) {
		i.t = t
		if out, _ := i.run(exit.Done, "install", "--wait=false"); outcomes(out)["unchanged"] != 4 ||
			outcomes(out)["created"] != objects-4 {
			t.Errorf("reports\n%s", out)
		}
	})
	t.Run("a namespace that others use is not purged", func(t *testing.T) {
		i.t = t
		const pods = "/api/v1/namespaces/kube-migrator/pods"
		post(t, i.client, pods, `{"metadata":{"name":"stranger"},"spec":{"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},
			"containers":[{"name":"c","image":"x","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}}`)
		out, problem := i.run(exit.Error, "uninstall", "--purge")
		if out != "" || !strings.Contains(problem, "holds the pod stranger") {
			t.Errorf("stdout %q, stderr %q", out, problem)
		}
		if err := i.client.Delete().AbsPath(pods, "stranger").Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a namespace that holds a claim without a pod is not purged", func(t *testing.T) {
		i.t = t
		const claims = "/api/v1/namespaces/kube-migrator/persistentvolumeclaims"
		post(t, i.client, claims, `{"metadata":{"name":"theirs"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`)
		out, problem := i.run(exit.Error, "uninstall", "--purge")
		if out != "" || !strings.Contains(problem, "holds the PersistentVolumeClaim theirs") {
			t.Errorf("stdout %q, stderr %q", out, problem)
		}
		if err := i.client.Patch(types.MergePatchType).AbsPath(claims,
			"theirs").Body([]byte(`{"metadata":{"finalizers":null}}`)).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
		if err := i.client.Delete().AbsPath(claims, "theirs").Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("without kube-controller-manager the wait ends with what is known", func(t *testing.T) {
		i.t = t
		_, problem := i.run(exit.Error, "uninstall", "--purge", "--timeout=3s")
		if !strings.Contains(problem, "error: not within 3s: everything of the kind Namespace is deleted; at last: "+
			"kube-migrator is being deleted") {
			t.Errorf("stderr %q", problem)
		}
	})
	t.Run("nothing is installed into a namespace that is being deleted", func(t *testing.T) {
		i.t = t
		out, problem := i.run(exit.Error, "install", "--wait=false")
		want := "error: the Namespace kube-migrator is being deleted\nTry: kubectl get namespaces kube-migrator\n"
		if out != "" || problem != want {
			t.Errorf("stdout %q, stderr %q, want %q", out, problem, want)
		}
	})
	t.Run("purge leaves nothing", func(t *testing.T) {
		i.t = t
		i.startControllerManager()
		i.run(exit.Done, "uninstall", "--purge", "--timeout=1m")
		if left := i.installed(); len(left) > 0 {
			t.Errorf("left %v", left)
		}
		if _, notes := i.run(exit.Done, "uninstall", "--purge"); notes != "There is nothing to remove.\n" {
			t.Errorf("the second time: %q", notes)
		}
	})
}

// startControllerManager starts the controllers that delete the contents of namespaces and what has lost its owner.
func (i *installer) startControllerManager() {
	t := i.t
	t.Helper()
	binary, err := testbed.Binary(t.Context(), testbed.Newest, "kube-controller-manager", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	manager := i.cluster.Command(t.Context(), binary, "--kubeconfig", i.kubeconfig, "--secure-port=0",
		"--leader-elect=false",
		"--controllers=namespace-controller,garbage-collector-controller")
	if err := manager.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		manager.Process.Kill() //nolint:errcheck // it may have ended
		manager.Wait()         //nolint:errcheck // killed
	})
}
