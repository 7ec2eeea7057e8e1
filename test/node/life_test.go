// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

const (
	gatewayGroup = "gateway.networking.k8s.io"
	grpcRoutes   = "grpcroutes." + gatewayGroup
)

// gateway is the folder with the CRDs of a release of Gateway API, from its Go module.
func (h *harness) gateway(version string) string {
	h.Helper()
	out, err := exec.Command("go", "mod", "download", "-json", "sigs.k8s.io/gateway-api@"+version).Output()
	var module struct{ Dir string }
	if jsonErr := json.Unmarshal(out, &module); err != nil || jsonErr != nil {
		h.Fatalf("download Gateway API %s: %v, %v\n%s", version, err, jsonErr, out)
	}
	return filepath.Join(module.Dir, "config", "crd", "experimental")
}

func grpcRoute(version, name string) string {
	return fmt.Sprintf(`
apiVersion: %s/%s
kind: GRPCRoute
metadata: {name: %s, namespace: default}
spec:
  parentRefs: [{name: gateway}]
  rules: [{matches: [{method: {service: echo.Echo, method: Ping}}], backendRefs: [{name: echo, port: 8080}]}]
---`, gatewayGroup, version, name)
}

// verdicts runs check or progress with -o json, and returns what it says of all, and of each resource.
func (h *harness) verdicts(binary, command string) (exitCode int, verdict string, each map[string]string) {
	h.Helper()
	exitCode, out, problems := h.call(binary, command, "-o", "json")
	var report struct {
		Verdict   string
		Resources []struct{ Resource, Verdict string }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		h.Fatalf("%s prints no JSON: %v\n%s%s", command, err, out, problems)
	}
	each = map[string]string{}
	for _, r := range report.Resources {
		each[r.Resource] = r.Verdict
	}
	return exitCode, report.Verdict, each
}

// safe waits until progress and check exit with 0, and wants the same verdicts from both.
func (h *harness) safe(binary string, patience time.Duration) (resources int) {
	h.Helper()
	deadline := time.Now().Add(patience)
	for {
		code, verdict, progress := h.verdicts(binary, "progress")
		if code == 0 {
			checked, verdictOfCheck, check := h.verdicts(binary, "check")
			if checked != 0 || verdict != verdictOfCheck {
				h.Fatalf("progress says %q and exits with 0, check says %q and exits with %d", verdict,
					verdictOfCheck, checked)
			}
			if diff := cmp.Diff(check, progress); diff != "" {
				h.Fatalf("the verdicts of check and progress (-check +progress):\n%s", diff)
			}
			return len(check)
		}
		if time.Now().After(deadline) {
			_, table, _ := h.call(binary, "progress")
			h.Fatalf("not safe after %s:\n%s", patience, table)
		}
		time.Sleep(time.Second)
	}
}

// byHand migrates what the guard leaves to administrators, by the command that check names.
func (h *harness) byHand(binary string) {
	h.Helper()
	for _, resource := range []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings",
		"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"} {
		resource += ".admissionregistration.k8s.io"
		h.eventually("the StorageState says that an administrator migrates "+resource, func() bool {
			reason, err := h.try(h.Context(), nil, "get", "storagestate", resource, "-o",
				`jsonpath={.status.conditions[?(@.type=="Permitted")].reason}`)
			return err == nil && reason == "ByHand"
		})
		if code, out, _ := h.call(binary, "check", resource); code != 3 ||
			!strings.Contains(out, "kube-migrator migrate "+resource) {
			h.Errorf("check of %s exits with %d and says\n%s", resource, code, out)
		}
	}
	h.as(binary, 0, "migrate", "--all", "--include=*admissionpolic*", "--settle-time=2s")
}

// recordedAs waits until the StorageState and the CRD name one version, though no one has asked for a migration.
func (h *harness) recordedAs(resource, version string) {
	h.Helper()
	want := fmt.Sprintf(`[%q]`, version)
	h.within(5*time.Minute, fmt.Sprintf("%s is recorded as stored in %s alone", resource, version), func() bool {
		recorded, err := h.try(h.Context(), nil, "get", "storagestate", resource, "-o",
			"jsonpath={.status.persistedVersions}")
		return err == nil && recorded == want &&
			h.run("get", "crd", resource, "-o", "jsonpath={.status.storedVersions}") == want
	})
}

// The life of an installation without other flags than a short settle time: what is there is recorded, a CRD is
// upgraded over a version that it drops, and a CRD that comes later is migrated without anyone's doing.
// TestHowLongADefaultInstallationTakes has the settle time that is the default.
func TestTheDefaultInstallationLooksAfterEverything(t *testing.T) {
	h := newNode(t, testbed.Options{})
	binary := h.binary()
	manifests, err := filepath.Glob(filepath.Join(h.gateway("v1.0.0"), gatewayGroup+"_*.yaml"))
	if err != nil || len(manifests) == 0 {
		t.Fatalf("no CRDs of Gateway API: %v", err)
	}
	h.run("apply", "--server-side", "--filename="+strings.Join(manifests, ","))
	h.run("wait", "--for=condition=Established", "crd/"+grpcRoutes)
	h.apply(grpcRoute("v1alpha2", "a") + grpcRoute("v1alpha2", "b"))
	before := h.everything()

	h.as(binary, 0, "install", "--image="+image, "--image-pull-policy=Never", "--settle-time=2s")
	installed := time.Now()
	resources := h.safe(binary, 5*time.Minute)
	t.Logf("%d resources were recorded as current %s after install returned", resources,
		time.Since(installed).Round(time.Second))

	h.run("apply", "--server-side", "-f", filepath.Join(h.gateway("v1.1.0"), gatewayGroup+"_grpcroutes.yaml"))
	h.recordedAs(grpcRoutes, "v1")
	h.as(binary, 0, "upgrade-crd", "-f", h.gateway("v1.2.0"), "--settle-time=2s")
	h.apply(grpcRoute("v1", "c"))
	if versions := h.run("get", "crd", grpcRoutes, "-o", "jsonpath={.spec.versions[*].name}"); versions != "v1" {
		t.Errorf("after upgrade-crd the versions of GRPCRoutes are %q, want v1", versions)
	}
	want := map[string]int{gatewayGroup + "/v1": 3}
	if diff := cmp.Diff(want, h.storedUnder("/registry/"+gatewayGroup+"/grpcroutes/")); diff != "" {
		t.Errorf("GRPCRoutes in etcd (-want +got):\n%s", diff)
	}

	const n = 2000
	h.stale(n) // a CRD that was not there
	h.recordedAs(widgets, "v2")
	h.wantStored(map[string]int{v2: n})
	h.safe(binary, 5*time.Minute)

	t.Run("pause, resume and cancel", func(t *testing.T) { h.in(t).steer(binary, n) })
	h.as(binary, 0, "uninstall", "--purge", "--timeout=2m")
	created := func(name string) bool { // by this test and its upgrades
		return strings.Contains(name, gatewayGroup) || strings.HasSuffix(name, "/"+widgets)
	}
	after := slices.DeleteFunc(h.everything(), created)
	if diff := cmp.Diff(slices.DeleteFunc(before, created), after); diff != "" {
		t.Errorf("the cluster before install and after (-before +after):\n%s", diff)
	}
}

// steer moves the storage version of the widgets back, and pauses, resumes and cancels the migration that the
// controller requests.
func (h *harness) steer(binary string, n int) {
	h.Helper()
	h.as(binary, 0, "install", "--max-rate=50")
	if err := h.cluster.MoveStorage(h.Context(), testbed.WidgetCRD, "v1"); err != nil {
		h.Fatal(err)
	}
	h.within(2*time.Minute, "the controller migrates back by itself", func() bool { return h.stored()[v1] > 50 })

	h.as(binary, 0, "pause", "widgets")
	h.eventually("the migration is paused, and nothing is in flight", func() bool { return h.stands("Paused") })
	paused := h.still()
	h.as(binary, 0, "resume", "widgets")
	h.within(2*time.Minute, "the migration continues", func() bool { return h.stored()[v1] > paused[v1]+50 })

	h.as(binary, 0, "cancel", "widgets")
	h.eventually("the migration is cancelled, and nothing is in flight", func() bool { return h.stands("Cancelled") })
	if cancelled := h.still(); cancelled[v1] == n {
		h.Fatal("the migration was over before it was cancelled")
	}
	if code, verdict, each := h.verdicts(binary, "progress"); code != 2 || each[widgets] != "Unsafe" {
		h.Errorf("with a cancelled migration progress exits with %d and says %s, %s of widgets; want 2 and Unsafe",
			code, verdict, each[widgets])
	}
	if claimed := h.run("get", "crd", widgets, "-o", "jsonpath={.status.storedVersions}"); claimed != `["v2","v1"]` {
		h.Errorf("storedVersions = %s without a proof, want both versions", claimed)
	}
}

// stands reports whether the migration of the widgets has a state, and nothing is written. The worker may have gone on
// with another resource.
func (h *harness) stands(state string) bool {
	h.Helper()
	return strings.HasPrefix(h.run("get", "svmig", widgets, "-o", "jsonpath={.status.state}: {.status.summary}"),
		state+": Nothing is written")
}

// still wants that for three seconds, many times what a worker takes between two requests, no widget is rewritten.
func (h *harness) still() map[string]int {
	h.Helper()
	stored := h.stored()
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end) &&
		!h.Failed(); time.Sleep(200 * time.Millisecond) {
		h.wantStored(stored)
	}
	return stored
}
