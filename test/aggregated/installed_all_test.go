// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package aggregated

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

const (
	installation = "/namespaces/kube-migrator"
	jobs         = "/apis/batch/v1" + installation + "/jobs"
)

// install installs kube-migrator as a user does. No pod runs: runInstalled starts what the pods would.
func (f *fleet) install() {
	f.Helper()
	if code, out, problem := f.command("install", "--wait=false", "--adopt", "--trust-namespace"); code != 0 {
		f.Fatalf("install: %d\n%s%s", code, out, problem)
	}
}

func (f *fleet) get(path string, into any) {
	f.Helper()
	if err := json.Unmarshal(f.do(http.MethodGet, path, nil), into); err != nil {
		f.Fatal(err)
	}
}

// account returns a kubeconfig with the permissions of a ServiceAccount of the installation.
func (f *fleet) account(name string) string {
	f.Helper()
	var token authenticationv1.TokenRequest
	raw := f.do(http.MethodPost, "/api/v1"+installation+"/serviceaccounts/"+name+"/token", map[string]any{})
	if err := json.Unmarshal(raw, &token); err != nil {
		f.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(f.kubeconfig)
	if err != nil {
		f.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Token = token.Status.Token
	}
	path := filepath.Join(f.cluster.Dir(), name+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		f.Fatal(err)
	}
	return path
}

// runInstalled runs the controller of the installation's Deployment with its account, and the worker of each of its
// Jobs with that of workers. Only times differ from the defaults; and only what was migrated before is migrated.
func (f *fleet) runInstalled() {
	f.Helper()
	var deployment appsv1.Deployment
	f.get("/apis/apps/v1"+installation+"/deployments/kube-migrator-controller", &deployment)
	kubeconfigs := map[string]string{}
	for _, account := range []string{"kube-migrator-controller", "kube-migrator-worker"} {
		kubeconfigs[account] = f.account(account)
	}
	f.program("installed-controller", kubeconfigs["kube-migrator-controller"], slices.Concat(
		deployment.Spec.Template.Spec.Containers[0].Args, []string{
			"--namespace=kube-migrator", "--bootstrap=none", "--settle-time=2s", "--shutdown-delay=10s",
			"--retry-after=2s", "--discovery-period=5s", "--lease-duration=10s", "--metrics-bind-address=0",
			"--health-probe-bind-address=0",
		}))
	var kubelet sync.WaitGroup
	kubelet.Go(func() {
		started := map[string]bool{}
		for f.Context().Err() == nil {
			var all batchv1.JobList
			if code, raw, err := f.cluster.Servers[0].Do(f.Context(), http.MethodGet, jobs, nil); err != nil ||
				code != http.StatusOK || json.Unmarshal(raw, &all) != nil {
				continue // the test ends
			}
			for _, job := range all.Items {
				if !started[job.Name] {
					started[job.Name] = true
					pod := job.Spec.Template.Spec
					f.program("installed-worker", kubeconfigs[pod.ServiceAccountName], pod.Containers[0].Args)
				}
			}
			select {
			case <-f.Context().Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	f.Cleanup(kubelet.Wait)
}

// program runs kube-migrator until the subtest ends.
func (f *fleet) program(name, kubeconfig string, arguments []string) {
	p, err := f.cluster.Launch(testbed.ProgramOptions{Name: name, Path: binary, Args: arguments,
		Env: []string{"KUBECONFIG=" + kubeconfig}})
	if err != nil {
		f.Error(err)
		return
	}
	t := f.T
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			raw, _ := os.ReadFile(filepath.Join(f.cluster.Dir(), name+".log")) // as much as there is
			t.Logf("%s:\n%s", name, raw)
		}
	})
}

// granted reports whether a ClusterRole of the worker names gears.
func (f *fleet) granted(name string) bool {
	f.Helper()
	var role rbacv1.ClusterRole
	f.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/"+name, &role)
	return slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.APIGroups, group) && slices.Equal(r.Resources, []string{"gears"}) &&
			slices.Equal(r.Verbs, []string{"get", "list", "patch"})
	})
}

// aDefaultInstallation migrates a resource that came after it.
func aDefaultInstallation(f *fleet, replicas []*replica) {
	if f.granted("kube-migrator-worker-later") {
		f.Error("the worker has permissions for gears before the controller runs")
	}
	var worker rbacv1.ClusterRole
	f.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/kube-migrator-worker", &worker)
	if raw := fmt.Sprint(worker.Rules); strings.Contains(raw, group) || strings.Contains(raw, "[*]") {
		f.Errorf("the worker was installed with the rules %s", raw)
	}
	f.runInstalled()
	for _, r := range replicas {
		f.start("--encoding=v1")
		r.in(f).end()
	}
	f.proven(v1, "Declared")
	if !f.granted("kube-migrator-worker-later") {
		f.Error("gears were migrated, and the controller has not granted that")
	}
	var all batchv1.JobList
	f.get(jobs, &all)
	if len(all.Items) == 0 {
		f.Error("gears were migrated without a Job")
	}
}
