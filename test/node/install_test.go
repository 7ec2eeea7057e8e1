// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

const (
	namespace = "kube-migrator"
	widgets   = "widgets." + testbed.WidgetGroup
	v1        = testbed.WidgetGroup + "/v1"
	v2        = testbed.WidgetGroup + "/v2"
)

// binary builds the command that users run outside the cluster.
func (h *harness) binary() string {
	h.Helper()
	path := filepath.Join(h.TempDir(), "kube-migrator")
	if out, err := exec.Command("go", "build", "-tags=grpcnotrace", "-o", path,
		"../../kube-migrator").CombinedOutput(); err != nil {
		h.Fatalf("build kube-migrator: %v\n%s", err, out)
	}
	return path
}

// as runs the command as a user does, and wants an exit code.
func (h *harness) as(binary string, code int, args ...string) string {
	h.Helper()
	got, stdout, stderr := h.call(binary, args...)
	if got != code {
		h.Fatalf("kube-migrator %s: exit code %d, want %d\n%s\n%s\n%s", strings.Join(args, " "),
			got, code, stdout, stderr,
			h.run("get", "pods,jobs,events", "-n", namespace))
	}
	return stdout
}

// call runs the command as a user does.
func (h *harness) call(binary string, args ...string) (code int, stdout, stderr string) {
	h.Helper()
	command := h.cluster.Command(h.Context(), binary, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+h.kubeconfig)
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	_ = command.Run() // its exit code is returned
	return command.ProcessState.ExitCode(), out.String(), problems.String()
}

func (h *harness) stale(n int) {
	h.Helper()
	ctx := h.Context()
	for _, err := range []error{
		h.cluster.InstallWidgets(ctx, testbed.Widgets{}),
		h.cluster.BulkCreate(ctx, testbed.Bulk{Count: n}),
		h.cluster.MoveStorage(ctx, testbed.WidgetCRD, "v2"),
	} {
		if err != nil {
			h.Fatal(err)
		}
	}
}

// stored counts the widgets in etcd by the version that they are stored in; storedUnder counts the objects under a
// prefix.
func (h *harness) stored() map[string]int { return h.storedUnder(testbed.WidgetsPrefix) }

func (h *harness) storedUnder(prefix string) map[string]int {
	h.Helper()
	versions, err := h.cluster.StoredVersions(h.Context(), prefix)
	if err != nil {
		h.Fatal(err)
	}
	return versions
}

func (h *harness) wantStored(want map[string]int) {
	h.Helper()
	if diff := cmp.Diff(want, h.stored()); diff != "" {
		h.Errorf("etcd holds (-want +got):\n%s", diff)
	}
}

// install installs what the tests use.
func (h *harness) install(binary string) {
	h.Helper()
	out := h.as(binary, 0, "install", "--image="+image, "--image-pull-policy=Never", "--bootstrap=none",
		"--settle-time=2s", "--timeout=2m")
	if !strings.Contains(out, "created") {
		h.Errorf("install does not say what it did:\n%s", out)
	}
}

func TestTheWholeWayInAClusterWithNodes(t *testing.T) {
	const n = 2000
	h := newNode(t, testbed.Options{})
	binary := h.binary()
	h.stale(n)
	before := h.everything()
	h.install(binary)

	h.as(binary, 0, "request", "widgets", "--reason=the storage version moved")
	h.as(binary, 0, "wait", "widgets", "--timeout=3m")
	h.eventually("the StorageState says what was proven", func() bool {
		return h.run("get", "storagestate", widgets, "-o", "jsonpath={.status.persistedVersions}") == `["v2"]`
	})
	if out := h.as(binary, 0, "progress", "widgets"); !strings.Contains(out, "Succeeded   100   2,000   2,000") ||
		!strings.Contains(out, "safe now") {
		t.Errorf("progress is not at its end:\n%s", out)
	}
	h.wantStored(map[string]int{v2: n})
	if claimed := h.run("get", "crd", widgets, "-o", "jsonpath={.status.storedVersions}"); claimed != `["v2"]` {
		t.Errorf("storedVersions = %s, want [v2]", claimed)
	}
	h.run("wait", "--for=condition=Succeeded", "svmig/"+widgets, "--timeout=10s")
	h.eventually("the Job, its pod and its ConfigMap are collected", func() bool {
		return h.run("get", "jobs,configmaps,pods", "-n", namespace, "-l",
			"app.kubernetes.io/component=worker", "-o", "name") == ""
	})

	t.Run("uninstall keeps what is known, and nothing that runs or may write", func(t *testing.T) {
		h := h.in(t)
		h.as(binary, 0, "uninstall", "--timeout=2m")
		if left := h.run("get", "deployments,jobs,pods,serviceaccounts,roles,rolebindings", "-n", namespace, "-l",
			"app.kubernetes.io/name=kube-migrator", "-o", "name"); left != "" {
			t.Errorf("left in the namespace:\n%s", left)
		}
		if left := h.run("get", "clusterroles,clusterrolebindings,flowschemas,prioritylevelconfigurations", "-l",
			"app.kubernetes.io/name=kube-migrator", "-o", "name"); left != "" {
			t.Errorf("left in the cluster:\n%s", left)
		}
		h.run("get", "svmig", widgets)
	})
	t.Run("and with --purge nothing at all is left", func(t *testing.T) {
		h := h.in(t)
		h.as(binary, 0, "uninstall", "--purge", "--timeout=2m")
		if diff := cmp.Diff(before, h.everything()); diff != "" {
			t.Errorf("the cluster before install and after (-before +after):\n%s", diff)
		}
	})
}

// everything lists the objects that an installation could leave behind.
func (h *harness) everything() []string {
	h.Helper()
	return strings.Fields(h.run("get", "-A", "-o", "name",
		"crd,namespaces,clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts,flowschemas,prioritylevelconfigurations,"+
			"validatingadmissionpolicies,validatingadmissionpolicybindings,deployments,replicasets,jobs,pods,configmaps,poddisruptionbudgets,networkpolicies,services"))
}

func TestAWorkerKilledThreeTimesAndAControllerTwiceEndComplete(t *testing.T) {
	const n = 4000
	h := newNode(t, testbed.Options{})
	binary := h.binary()
	h.stale(n)
	h.install(binary)
	h.as(binary, 0, "request", "widgets", "--max-rate=100")

	h.rewritten(200)
	for i, kill := range []func(){
		func() { h.killProcess(h.workerWord()) },
		func() { h.killProcess("HOSTNAME=" + h.leader()) },
		func() {
			h.run("delete", "pod", "-n", namespace, "-l", "app.kubernetes.io/component=worker", "--wait=false")
		},
		func() { h.run("delete", "pod", "-n", namespace, h.leader(), "--wait=false") },
		func() { h.killProcess(h.workerWord()) },
	} {
		sofar := h.stored()[v2]
		if sofar == n {
			t.Fatalf("the migration was over before kill %d", i+1)
		}
		kill()
		h.rewritten(min(sofar+200, n))
		if claimed := h.run("get", "crd", widgets, "-o",
			"jsonpath={.status.storedVersions}"); claimed != `["v1","v2"]` {
			t.Fatalf("storedVersions = %s after kill %d, before the proof", claimed, i+1)
		}
	}
	h.as(binary, 0, "wait", "widgets", "--timeout=5m")
	h.wantStored(map[string]int{v2: n})
	var rewritten int
	if _, err := fmt.Sscan(h.run("get", "svmig", widgets, "-o", "jsonpath={.status.progress.rewritten}"),
		&rewritten); err != nil {
		t.Fatal(err)
	}
	// What was repeated was current: the more of it, the fewer are counted as rewritten. A page each, for the three
	// that were killed.
	if rewritten < n-3*500 {
		t.Errorf("%d of %d were rewritten in the pass that counts: it did not go on from the checkpoint (I5)",
			rewritten, n)
	}
	attempts := h.run("get", "svmig", widgets, "-o", "jsonpath={.status.run.attempt} {.status.run.failures}")
	if strings.TrimSpace(attempts) != "1" {
		t.Errorf("attempts and failures are %q, want one attempt: a killed pod is no failure", attempts)
	}
	h.as(binary, 0, "uninstall", "--purge", "--timeout=2m")
}

// rewritten waits until so many widgets are stored again.
func (h *harness) rewritten(least int) {
	h.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for h.stored()[v2] < least {
		if time.Now().After(deadline) {
			h.Fatalf("not within 3 minutes: %d widgets are rewritten; %v are\n%s", least, h.stored(),
				h.run("get", "svmig,jobs,pods", "-A", "-o", "wide"))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// workerWord is an argument that the worker's process alone has.
func (h *harness) workerWord() string {
	h.Helper()
	job := strings.TrimSpace(h.run("get", "jobs", "-n", namespace, "-l", "app.kubernetes.io/component=worker", "-o",
		"jsonpath={.items[*].metadata.name}"))
	if job == "" || strings.Contains(job, " ") {
		h.Fatalf("the workers' Jobs are %q, want one", job)
	}
	return "--roster=" + job + "-roster"
}

// leader is the pod that holds the controllers' Lease.
func (h *harness) leader() string {
	h.Helper()
	var pod string
	h.eventually("a controller leads", func() bool {
		pod, _, _ = strings.Cut(h.run("get", "lease", "-n", namespace, "kube-migrator-controller", "-o",
			"jsonpath={.spec.holderIdentity}"), "_")
		return pod != ""
	})
	return pod
}

// killProcess kills, from outside, the process in a pod that has a word among its arguments or in its environment.
func (h *harness) killProcess(word string) {
	h.Helper()
	h.eventually("there is a process with "+word, func() bool {
		folders, err := filepath.Glob("/proc/[0-9]*")
		if err != nil {
			h.Fatal(err)
		}
		for _, folder := range folders {
			arguments, _ := os.ReadFile(filepath.Join(folder, "cmdline"))   // it may have ended
			environment, _ := os.ReadFile(filepath.Join(folder, "environ")) // it may have ended
			all := strings.Split(string(arguments)+string(environment), "\x00")
			if all[0] != "/kube-migrator" || !slices.Contains(all, word) {
				continue
			}
			pid, err := strconv.Atoi(filepath.Base(folder))
			if err != nil {
				h.Fatal(err)
			}
			return syscall.Kill(pid, syscall.SIGKILL) == nil
		}
		return false
	})
}
