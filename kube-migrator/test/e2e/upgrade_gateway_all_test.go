// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/crdlife"
)

const (
	gatewayModule = "sigs.k8s.io/gateway-api@"
	gatewayGroup  = "gateway.networking.k8s.io"
)

// The resources that lose a version.
const (
	routes   = "grpcroutes." + gatewayGroup
	policies = "backendtlspolicies." + gatewayGroup
	grants   = "referencegrants." + gatewayGroup
)

// The releases of Gateway API come one after the other, because they define the same resources.
func TestReleasesOfGatewayAPIAreUpgraded(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{})
	for _, test := range []struct {
		name string
		run  func(*testing.T, *cli)
	}{
		{"standard, release by release", gatewayStandard},
		{"experimental, release by release", gatewayExperimental},
		{"experimental, at once", gatewayAtOnce},
	} {
		t.Run(test.name, func(t *testing.T) {
			user := newCLI(t, cluster)
			test.run(t, user)
			user.removeCRDs(gatewayGroup)
		})
	}
}

func gateway(t *testing.T, version, channel string) string {
	t.Helper()
	return release(t, gatewayModule+version, "config/crd/"+channel)
}

func gatewayObjects(plural string) string { return "/registry/" + gatewayGroup + "/" + plural + "/" }

const grpcRoute = `
apiVersion: gateway.networking.k8s.io/VERSION
kind: GRPCRoute
metadata: {name: NAME, namespace: default}
spec:
  parentRefs: [{name: gateway}]
  hostnames: [grpc.example.com]
  rules: [{matches: [{method: {service: echo.Echo, method: Ping}}], backendRefs: [{name: echo, port: 8080}]}]`

const httpRoute = `
apiVersion: gateway.networking.k8s.io/VERSION
kind: HTTPRoute
metadata: {name: NAME, namespace: default}
spec:
  parentRefs: [{name: gateway}]
  rules: [{backendRefs: [{name: web, port: 80}]}]`

const referenceGrant = `
apiVersion: gateway.networking.k8s.io/VERSION
kind: ReferenceGrant
metadata: {name: NAME, namespace: default}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: default}]
  to: [{group: "", kind: Service}]`

const backendTLSPolicy = `
apiVersion: gateway.networking.k8s.io/VERSION
kind: BackendTLSPolicy
metadata: {name: NAME, namespace: default}
spec:
  targetRef: {group: "", kind: Service, name: web}
  tls: {hostname: web.example.com, wellKnownCACerts: System}`

func at(manifest, version, name string) string {
	return strings.NewReplacer("VERSION", version, "NAME", name).Replace(manifest)
}

func gatewayStandard(t *testing.T, user *cli) {
	cluster := user.cluster
	user.kubectl("apply", "-f", gateway(t, "v1.0.0", "standard")) // on the client's side
	for _, name := range []string{"a", "b", "c"} {
		applyObject(t, cluster, "alice", "httproutes", at(httpRoute, "v1beta1", name))
		applyObject(t, cluster, "alice", "referencegrants", at(referenceGrant, "v1alpha2", name))
	}

	if diff := cmp.Diff(map[string]string{"grpcroutes." + gatewayGroup: "create"},
		stepsOf(user.upgradeCRDs(0, gateway(t, "v1.1.0", "standard")))); diff != "" {
		t.Errorf("v1.1.0 (-want +got):\n%s", diff)
	}
	applyObject(t, cluster, "alice", "grpcroutes", at(grpcRoute, "v1", "a"))
	// v1.1.0 does not serve v1alpha2 any more, and nothing is stored in it
	want := map[string]string{grants: "migrate managedFields apply"}
	if diff := cmp.Diff(want, stepsOf(user.upgradeCRDs(0, gateway(t, "v1.2.0", "standard")))); diff != "" {
		t.Errorf("v1.2.0 (-want +got):\n%s", diff)
	}

	user.migrate(0, "httproutes."+gatewayGroup)
	user.migrate(0, "gateways."+gatewayGroup)
	user.migrate(0, "gatewayclasses."+gatewayGroup)
	user.wantReleased(gateway(t, "v1.2.0", "standard"))
	wantStored(t, cluster, gatewayObjects("referencegrants"), map[string]int{gatewayGroup + "/v1beta1": 3})
	wantStored(t, cluster, gatewayObjects("httproutes"), map[string]int{gatewayGroup + "/v1": 3})
	applyObject(t, cluster, "alice", "referencegrants", at(referenceGrant, "v1beta1", "a"))
}

func gatewayExperimental(t *testing.T, user *cli) {
	cluster := user.cluster
	for name, steps := range stepsOf(user.upgradeCRDs(0, gateway(t, "v1.0.0", "experimental"))) {
		if steps != string(crdlife.Create) {
			t.Errorf("%s in an empty cluster: %s, want it created", name, steps)
		}
	}
	gatewayRoutesAndPolicies(t, cluster)

	want := map[string]string{policies: wholeUpgrade, "backendlbpolicies." + gatewayGroup: "create"}
	upgraded := user.upgradeCRDs(0, gateway(t, "v1.1.0", "experimental"), "--accept-other-meaning="+policies,
		"--accept-field-loss="+policies)
	// v1.1.0 still has v1alpha2 of GRPCRoutes: it is applied, and its objects stay as they are.
	if diff := cmp.Diff(want, stepsOf(upgraded)); diff != "" {
		t.Errorf("v1.1.0 (-want +got):\n%s", diff)
	}
	wantStored(t, cluster, gatewayObjects("backendtlspolicies"), map[string]int{gatewayGroup + "/v1alpha3": 3})
	wantStored(t, cluster, gatewayObjects("grpcroutes"), map[string]int{gatewayGroup + "/v1alpha2": 3})

	upgraded = user.upgradeCRDs(0, gateway(t, "v1.2.0", "experimental"))
	if diff := cmp.Diff(map[string]string{routes: wholeUpgrade}, stepsOf(upgraded)); diff != "" {
		t.Errorf("v1.2.0 (-want +got):\n%s", diff)
	}
	for _, plural := range []string{"httproutes", "gateways", "gatewayclasses"} {
		user.migrate(0, plural+"."+gatewayGroup)
	}
	user.wantReleased(gateway(t, "v1.2.0", "experimental"))
	wantStored(t, cluster, gatewayObjects("grpcroutes"), map[string]int{gatewayGroup + "/v1": 3})
	applyObject(t, cluster, "alice", "grpcroutes", at(grpcRoute, "v1", "a"))
	if got := slices.Sorted(maps.Keys(stepsOf(user.upgradeCRDs(0, gateway(t, "v1.2.0",
		"experimental"))))); len(got) > 0 {
		t.Errorf("again: %v are not just applied", got)
	}
}

func gatewayRoutesAndPolicies(t *testing.T, cluster *testbed.Cluster) {
	t.Helper()
	for _, name := range []string{"a", "b", "c"} {
		applyObject(t, cluster, "alice", "grpcroutes", at(grpcRoute, "v1alpha2", name))
		applyObject(t, cluster, "alice", "backendtlspolicies", at(backendTLSPolicy, "v1alpha2", name))
		applyObject(t, cluster, "alice", "referencegrants", at(referenceGrant, "v1beta1", name))
	}
}

func gatewayAtOnce(t *testing.T, user *cli) {
	cluster := user.cluster
	user.upgradeCRDs(0, gateway(t, "v1.0.0", "experimental"))
	gatewayRoutesAndPolicies(t, cluster)

	want := map[string]string{
		routes: "NothingInCommon", policies: "NothingInCommon", "backendlbpolicies." + gatewayGroup: "create",
	}
	dry := user.upgradeCRDs(2, gateway(t, "v1.2.0", "experimental"), "--dry-run")
	if diff := cmp.Diff(want, stepsOf(dry)); diff != "" {
		t.Errorf("a dry run of v1.2.0 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("3 objects: spec.targetRef, spec.tls", shownLosses(dry[policies])); diff != "" {
		t.Errorf("fields that BackendTLSPolicies would lose (-want +got):\n%s", diff)
	}
	if got := shownLosses(dry[routes]); got != "" {
		t.Errorf("fields that GRPCRoutes would lose: %v, want none", got)
	}
	wantVersions(t, cluster, routes, "v1alpha2", "v1alpha2 served storage")

	if got := crdOf(t, cluster, policies).Generation; got != 1 {
		t.Errorf("the dry run has written generation %d", got)
	}

	want["backendlbpolicies."+gatewayGroup] = "create"
	refused := user.upgradeCRDs(2, gateway(t, "v1.2.0", "experimental")) // what can be applied is applied
	if diff := cmp.Diff(want, stepsOf(refused)); diff != "" {
		t.Errorf("v1.2.0 without a word (-want +got):\n%s", diff)
	}
	wantVersions(t, cluster, grants, "v1beta1", "v1beta1 served storage")
	wantVersions(t, cluster, policies, "v1alpha2", "v1alpha2 served storage")

	want = map[string]string{routes: wholeUpgrade, policies: wholeUpgrade}
	for _, field := range []string{"spec.targetRef", "spec.tls"} {
		cluster.Loses(gatewayObjects("backendtlspolicies"), field, "--accept-field-loss")
	}
	unrelated := "--accept-other-meaning=" + routes + "," + policies
	if got := stepsOf(user.upgradeCRDs(2, gateway(t, "v1.2.0", "experimental"), unrelated, "--dry-run")); got[policies] != "FieldLoss" {
		t.Errorf("another meaning is taken for a loss: %v", got)
	}
	upgraded := user.upgradeCRDs(0, gateway(t, "v1.2.0", "experimental"), unrelated, "--accept-field-loss="+policies)
	if diff := cmp.Diff(want, stepsOf(upgraded)); diff != "" {
		t.Errorf("v1.2.0 (-want +got):\n%s", diff)
	}
	for _, plural := range []string{"httproutes", "gateways", "gatewayclasses"} {
		user.migrate(0, plural+"."+gatewayGroup)
	}
	user.wantReleased(gateway(t, "v1.2.0", "experimental"))
	wantStored(t, cluster, gatewayObjects("grpcroutes"), map[string]int{gatewayGroup + "/v1": 3})
	wantStored(t, cluster, gatewayObjects("backendtlspolicies"), map[string]int{gatewayGroup + "/v1alpha3": 3})
	applyObject(t, cluster, "alice", "grpcroutes", at(grpcRoute, "v1", "a"))
}
