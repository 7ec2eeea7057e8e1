// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install"
)

func TestInstallRefusesWhatBelongsToOthers(t *testing.T) {
	t.Parallel()
	i := newInstaller(t, testbed.Options{})
	post(t, i.client, planCRDs, `{"metadata":{"name":"storageversionmigrations.migration.k8s.io",
		"annotations":{"api-approved.kubernetes.io":"https://github.com/kubernetes/community/pull/2524"}},
		"spec":{"group":"migration.k8s.io","scope":"Cluster","names":{"plural":"storageversionmigrations","singular":"storageversionmigration","kind":"StorageVersionMigration","listKind":"StorageVersionMigrationList"},
		"versions":[{"name":"v1alpha1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`)
	post(t, i.client, "/apis/apps/v1/namespaces/kube-system/deployments",
		`{"metadata":{"name":"migrator"},"spec":{"selector":{"matchLabels":{"app":"migrator"}},
		"template":{"metadata":{"labels":{"app":"migrator"}},"spec":{"containers":[{"name":"migrator","image":"registry.example.com/storage-version-migration-migrator:v0.0.5"}]}}}}`)
	const object = `{"apiVersion":"migration.k8s.io/v1alpha1","kind":"StorageVersionMigration","metadata":{"name":"widgets-1"},"spec":{"continueToken":"abc","resource":{"group":"demo.example.com","version":"v1","resource":"widgets"}}}`
	i.eventually("the CRD is served", func() bool {
		return i.client.Post().AbsPath(
			"/apis/migration.k8s.io/v1alpha1/storageversionmigrations",
		).SetHeader("Content-Type", "application/json").Body([]byte(object)).Do(t.Context()).Error() == nil
	})

	_, problem := i.run(exit.Error, "install", "--wait=false", "--replicas=1", "--include=secrets")
	want := "error: CustomResourceDefinition storageversionmigrations.migration.k8s.io exists and belongs to another " +
		"installation; the owner: " +
		"kube-storage-version-migrator (Deployment kube-system/migrator; written by kube-migrator)\n" +
		"Try: kube-migrator install --adopt --include=secrets --kubeconfig=" + i.kubeconfig +
		" --replicas=1 --wait=false\n"
	if problem != want {
		t.Errorf("stderr %q, want %q", problem, want)
	}
	if got := i.installed(); len(got) > 0 {
		t.Errorf("what belongs to others was refused after writing %v", got)
	}

	out, notes := i.run(exit.Done, "install", "--wait=false", "--adopt")
	if !strings.Contains(out, "configured  CustomResourceDefinition storageversionmigrations.migration.k8s.io\n") ||
		!strings.Contains(notes, "Warning: Deployment kube-system/migrator of the other installation still runs.") {
		t.Errorf("--adopt reports\n%s%s", out, notes)
	}
	raw, err := i.client.Get().AbsPath(
		"/apis/migration.k8s.io/v1alpha1/storageversionmigrations/widgets-1",
	).Do(t.Context()).Raw()
	if err != nil || !strings.Contains(string(raw), `"continueToken":"abc"`) {
		t.Errorf("the object of the other installation is %s, %v", raw, err)
	}
	if err := i.client.Get().AbsPath(
		"/apis/apps/v1/namespaces/kube-system/deployments/migrator",
	).Do(t.Context()).Error(); err != nil {
		t.Errorf("the other's Deployment: %v", err)
	}
	if out, _ := i.run(exit.Done, "install", "--wait=false"); outcomes(out)["unchanged"] != objects {
		t.Errorf("what was adopted is ours afterwards, but\n%s", out)
	}

	t.Run("a namespace that exists is not taken", func(t *testing.T) {
		i.t = t
		post(t, i.client, "/api/v1/namespaces", `{"metadata":{"name":"ops"}}`)
		_, problem := i.run(exit.Error, "install", "--wait=false", "--namespace=ops")
		if !strings.HasPrefix(problem, "error: the namespace ops exists and was not made by kube-migrator, which "+
			"needs one of its own") {
			t.Errorf("stderr %q", problem)
		}
	})
}

func TestInstallReplacesAnOlderController(t *testing.T) {
	t.Parallel()
	i := newInstaller(t, testbed.Options{})
	i.run(exit.Done, "install", "--wait=false")
	managed := func(by, namespace, name, app string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"labels":{"app.kubernetes.io/name":"kube-migrator","app.kubernetes.io/component":"controller","app.kubernetes.io/managed-by":%q}},
			"spec":{"selector":{"matchLabels":{"app":%q}},"template":{"metadata":{"labels":{"app":%q}},"spec":{"containers":[{"name":"c","image":"old"}]}}}}`, namespace, name, by, app, app)
	}
	deployment := func(namespace, name, app string) string { return managed("kube-migrator", namespace, name, app) }
	const path = "/apis/apps/v1/namespaces/kube-migrator/deployments"
	if err := i.client.Delete().AbsPath(path, "kube-migrator-controller").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	post(t, i.client, path, deployment("kube-migrator", "kube-migrator-controller", "other-selector"))
	post(t, i.client, path, deployment("kube-migrator", "old-name", "old"))
	post(t, i.client, "/apis/apps/v1/namespaces/default/deployments", deployment("default", "elsewhere", "old"))

	out, _ := i.run(exit.Done, "install", "--dry-run=server")
	if got := outcomes(out); got["deleted"] != 3 || got["unchanged"] != objects-1 ||
		!strings.Contains(out, "(dry run; not checked: the older one is still there)") {
		t.Errorf("the dry run reports %v:\n%s", got, out)
	}
	out, _ = i.run(exit.Done, "install", "--wait=false")
	if got := outcomes(out); got["deleted"] != 3 || got["created"] != 1 || got["unchanged"] != objects-1 {
		t.Errorf("reports %v:\n%s", got, out)
	}
	raw, err := i.client.Get().AbsPath("/apis/apps/v1/deployments").Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "old-name") || strings.Contains(string(raw), "elsewhere") ||
		strings.Contains(string(raw), "other-selector") {
		t.Errorf("an older controller is left: %s", raw)
	}

	t.Run("one that something else manages is refused, and never deleted", func(t *testing.T) {
		i.t = t
		post(t, i.client, "/apis/apps/v1/namespaces/default/deployments",
			managed("Helm", "default", "released", "other"))
		out, problem := i.run(exit.Error, "install", "--wait=false")
		want := "error: Deployment default/released is a controller of kube-migrator that something else manages; " +
			"the owner: Helm ("
		if out != "" || !strings.HasPrefix(problem, want) {
			t.Errorf("stdout %q, stderr %q, want %q", out, problem, want)
		}
		_, notes := i.run(exit.Done, "install", "--wait=false", "--adopt")
		if !strings.Contains(notes, "Warning: Deployment default/released is a controller of kube-migrator that "+
			"something else manages. Stop it") {
			t.Errorf("--adopt: stderr %q", notes)
		}
		if err := i.client.Get().AbsPath(
			"/apis/apps/v1/namespaces/default/deployments/released",
		).Do(t.Context()).Error(); err != nil {
			t.Errorf("the Deployment of Helm: %v", err)
		}
	})
}

func TestAnUpgradeKeepsWhatDiscoveryCannotShowAndTheFlags(t *testing.T) {
	t.Parallel()
	i := newInstaller(t, testbed.Options{})
	if err := i.cluster.InstallWidgets(t.Context(), testbed.Widgets{}); err != nil {
		t.Fatal(err)
	}
	proxy := testbed.NewProxy(t, i.cluster)
	kubeconfig, err := proxy.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	i.run(exit.Done, "install", "--wait=false", "--exclude=secrets")
	worker := i.clientAs("kube-migrator-worker")
	i.eventually("the worker may patch widgets",
		func() bool { return i.may(worker, "patch", "demo.example.com", "widgets", "") })

	if err := install.Pause(t.Context(), i.client, time.Now()); err != nil {
		t.Fatal(err)
	}
	proxy.SetRules(testbed.Rule{Fault: testbed.InternalError(), Match: testbed.PathContains("/apis/demo.example.com/")})
	_, notes := i.runAs(kubeconfig, exit.Undetermined, "install", "--wait=false", "--image=kube-migrator:next")
	for _, want := range []string{
		"Skipped: demo.example.com/v", "error: done, but of demo.example.com/v",
		"discovery could not be read\nTry: kube-migrator install --exclude=secrets --image=kube-migrator:next",
		"Kept from the last installation: --exclude=secrets\n", "Upgrade: the controller's --worker-image: ",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("stderr %q, want %q", notes, want)
		}
	}
	if since, err := install.Paused(t.Context(), i.client); err != nil || since == "" {
		t.Errorf("what was paused is so no more after the upgrade (%v)", err)
	}
	if i.may(worker, "patch", "", "secrets", "") {
		t.Error("the worker may patch what was excluded by the last installation")
	}
	if !i.may(worker, "patch", "demo.example.com", "widgets", "") {
		t.Error("the worker may not patch any more what discovery could not show")
	}
	if out, _ := i.runAs(kubeconfig, exit.Undetermined, "install",
		"--export"); !strings.Contains(out, "- demo.example.com\n") {
		t.Error("--export leaves out what discovery could not show")
	}
	i.runAs(kubeconfig, exit.Undetermined, "install", "--wait=false", "--exclude=widgets.*")
	i.eventually("the worker may not patch what is excluded",
		func() bool { return !i.may(worker, "patch", "demo.example.com", "widgets", "") })
}

func TestANamespaceOfOthersIsUsedAndNeverDeleted(t *testing.T) {
	t.Parallel()
	i := newInstaller(t, testbed.Options{})
	const namespace = "/api/v1/namespaces/ops"
	post(t, i.client, "/api/v1/namespaces", `{"metadata":{"name":"ops"}}`)
	post(t, i.client, namespace+"/secrets", `{"metadata":{"name":"theirs"}}`)
	labels := func() map[string]string {
		t.Helper()
		raw, err := i.client.Get().AbsPath(namespace).SetHeader("Accept", "application/json").Do(t.Context()).Raw()
		var o metav1.PartialObjectMetadata
		if err := errors.Join(err, json.Unmarshal(raw, &o)); err != nil {
			t.Fatal(err)
		}
		if o.DeletionTimestamp != nil {
			t.Error("the namespace of others is being deleted")
		}
		delete(o.Labels, "kubernetes.io/metadata.name")
		return o.Labels
	}
	before := labels()
	for arguments, want := range map[string]string{
		"--adopt": "error: the namespace ops belongs to others, and --adopt does not say that you trust them: " +
			"anyone who may create pods or edit workloads there gets the permissions of the worker\n",
		"--trust-namespace": "error: the namespace ops exists and was not made by kube-migrator, which needs one of " +
			"its own: " +
			"anyone who may create pods or edit workloads there gets the permissions of the worker; " +
			"the owner: unknown (written by kube-migrator)\n",
	} {
		_, problem := i.run(exit.Error, "install", "-n=ops", "--wait=false", arguments)
		want += "Try: kube-migrator install --adopt --trust-namespace --kubeconfig=" + i.kubeconfig +
			" --namespace=ops --wait=false\n"
		if problem != want {
			t.Errorf("%s: stderr %q, want %q", arguments, problem, want)
		}
		if diff := cmp.Diff(before, labels()); diff != "" || len(i.installed()) > 0 {
			t.Errorf("%s: refused after writing %v (-before +after):\n%s", arguments, i.installed(), diff)
		}
	}
	out, _ := i.run(exit.Done, "install", "--wait=false", "-n=ops", "--adopt", "--trust-namespace")
	if want := "configured  Namespace ops (only marked: it belongs to others, and uninstall leaves it)\n"; !strings.Contains(out, want) {
		t.Errorf("reports\n%s\nwant %s", out, want)
	}
	if diff := cmp.Diff(map[string]string{"migration.k8s.io/adopted-by": "kube-migrator"}, labels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if out, _ := i.run(exit.Done, "install", "--wait=false", "-n=ops"); outcomes(out)["unchanged"] != objects {
		t.Errorf("what was adopted once needs neither flag again, but\n%s", out)
	}
	i.run(exit.Done, "uninstall", "--purge")
	if got := labels(); len(got) > 0 {
		t.Errorf("after the purge the namespace has the labels %v", got)
	}
	if err := i.client.Get().AbsPath(namespace, "secrets/theirs").Do(t.Context()).Error(); err != nil {
		t.Errorf("the secret of others: %v", err)
	}
	if left := i.installed(); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}
