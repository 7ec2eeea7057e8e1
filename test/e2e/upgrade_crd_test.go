// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/config"
	"github.com/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/internal/crdupgrade"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

const (
	gatewayModule = "sigs.k8s.io/gateway-api@"
	gatewayGroup  = "gateway.networking.k8s.io"
	// wholeUpgrade are the steps of a CRD that drops a stored version which managedFields name.
	wholeUpgrade = "intermediate migrate prune managedFields apply"
)

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

// All upgrades share one cluster. The releases of Gateway API come one after the other, because they define the same
// resources; the gadgets have a resource for each test.
func TestCRDUpgrades(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{})
	t.Run("Gateway API", func(t *testing.T) {
		t.Parallel()
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
	})
	for _, test := range []struct {
		plural, name string
		run          func(*testing.T, *gadgets)
	}{
		{"upgadas", "wherever it is killed the same command continues", upgradeContinuesWhereverItIsKilled},
		{"upgadbs", "fields of another field manager are not taken without a word", upgradeTakesNoFieldsOfOthers},
		{"upgadcs", "fields are not lost without a word", upgradeLosesNoFieldWithoutAWord},
		{"upgades", "a CRD that is changed under it is planned again", upgradeIsPlannedAgain},
		{"upgadfs", "a migration that the controller is to carry out comes first", upgradeWaitsForTheController},
		{"upgadgs", "a conversion webhook that the file takes away converts the objects before",
			upgradeConvertsBeforeTheWebhookGoes},
		{"upgadds", "a list is read from a pipe with objects of other kinds", upgradeReadsWhatKubectlPrints},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, gadgetsOf(t, cluster, test.plural))
		})
	}
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

// The resources that lose a version.
const (
	routes   = "grpcroutes." + gatewayGroup
	policies = "backendtlspolicies." + gatewayGroup
	grants   = "referencegrants." + gatewayGroup
)

func gatewayExperimental(t *testing.T, user *cli) {
	cluster := user.cluster
	for name, steps := range stepsOf(user.upgradeCRDs(0, gateway(t, "v1.0.0", "experimental"))) {
		if steps != string(crdupgrade.Create) {
			t.Errorf("%s in an empty cluster: %s, want it created", name, steps)
		}
	}
	gatewayRoutesAndPolicies(t, cluster)

	want := map[string]string{policies: wholeUpgrade, "backendlbpolicies." + gatewayGroup: "create"}
	upgraded := user.upgradeCRDs(0, gateway(t, "v1.1.0", "experimental"), "--accept-field-loss")
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
	losses := []string{"spec.targetRef of v1alpha2 (3 objects)", "spec.tls of v1alpha2 (3 objects)"}
	if diff := cmp.Diff(losses, shownLosses(dry[policies])); diff != "" {
		t.Errorf("fields that BackendTLSPolicies would lose (-want +got):\n%s", diff)
	}
	if got := shownLosses(dry[routes]); len(got) > 0 {
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
	upgraded := user.upgradeCRDs(0, gateway(t, "v1.2.0", "experimental"), "--accept-field-loss")
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

func shownLosses(c render.CRDUpgrade) (shown []string) {
	for _, l := range c.Losses {
		shown = append(shown, l.String())
	}
	return shown
}

// upgradeContinuesWhereverItIsKilled kills one run after the other, each before or after the next kind of write.
func upgradeContinuesWhereverItIsKilled(t *testing.T, g *gadgets) {
	const n = 6
	user, proxy := throughProxy(t, g.cluster)
	user.kubectl("apply", "-f", g.file("v1*", "v2")) // on the client's side
	g.ready("v1", "v2")
	g.fill(n)
	user.kubectl("apply", "-f", g.file("v1", "v2*"))
	next := g.file("v2*")
	args := []string{"upgrade-crd", "-f", next, "--settle-time=1s", "--accept-field-loss"}
	crd := func(kind types.PatchType) func(*http.Request) bool {
		return func(r *http.Request) bool {
			return r.URL.Path == g.whole() && r.Header.Get("Content-Type") == string(kind)
		}
	}
	item := func(r *http.Request) bool { return strings.Contains(r.URL.Path, g.item()) }
	for _, moment := range []struct {
		name  string
		match func(*http.Request) bool
	}{
		{"fields are taken over from kubectl", crd(types.JSONPatchType)},
		{"the intermediate CRD is applied", crd(types.ApplyYAMLPatchType)},
		{"an object is rewritten", item},
		{"storedVersions is pruned", func(r *http.Request) bool { return r.URL.Path == g.whole()+"/status" }},
		{"managedFields are moved", func(r *http.Request) bool {
			return item(r) &&
				r.URL.Query().Get("fieldManager") == "kube-migrator"
		}},
		{"the CRD of the file is applied", crd(types.ApplyYAMLPatchType)},
	} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("when %s, after: %v", moment.name, after), func(t *testing.T) {
				user.killed(proxy, after, 0, func(r *http.Request) bool {
					return r.Method == http.MethodPatch &&
						moment.match(r)
				}, args...)
				g.wantNothingStranded(n)
			})
		}
	}
	user.run(0, args...)
	g.wantVersions("v2", "v2 served storage")
	g.wantUnnamed(n)
	before := crdOf(t, g.cluster, g.definition()).ResourceVersion
	user.kubectl("apply", "--server-side", "-f", next)
	if after := crdOf(t, g.cluster, g.definition()).ResourceVersion; after != before {
		t.Error("kubectl apply --server-side changes the CRD")
	}
}

func upgradeTakesNoFieldsOfOthers(t *testing.T, g *gadgets) {
	user := newCLI(t, g.cluster)
	do(t, g.cluster, http.MethodPost, strings.TrimSuffix(crdsPath, "/")+"?fieldManager=helm", g.crd("v1*"))
	g.ready("v1")
	next := g.file("v1*", "v2")
	for _, args := range [][]string{{"--dry-run"}, nil} {
		out := user.run(2, append([]string{"upgrade-crd", "-f", next}, args...)...)
		for _, want := range []string{`refused        `,
			`conflict with "helm" using apiextensions.k8s.io/v1: .spec.versions`,
			"Try: kube-migrator upgrade-crd --filename=" + next + " --force-conflicts\n"} {
			if !strings.Contains(out.stdout, want) {
				t.Errorf("%v: it does not say %q:\n%s", args, want, out.stdout)
			}
		}
	}
	g.wantVersions("v1", "v1 served storage")
	user.run(0, "upgrade-crd", "-f", next, "--field-manager=helm-next", "--force-conflicts")
	g.wantVersions("v1", "v1 served storage", "v2 served")
	owners := crdOf(t, g.cluster, g.definition()).ManagedFields
	if !slices.ContainsFunc(owners, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == "helm-next" &&
			e.Operation == "Apply"
	}) {
		t.Errorf("helm-next owns nothing: %v", owners)
	}
}

func upgradeLosesNoFieldWithoutAWord(t *testing.T, g *gadgets) {
	user := newCLI(t, g.cluster)
	user.run(0, "upgrade-crd", "-f", g.file("v1*", "v2"))
	g.ready("v1", "v2")
	g.fill(2) // alice's objects have legacy
	user.kubectl("apply", "--server-side", "-f", g.file("v1", "v2*"))
	g.ready("v1", "v2")
	g.mustApply("carol", "v2", "g-100", spec("color", "green"))
	next := g.file("v2*")

	refused := user.upgradeCRDs(2, next)[g.definition()]

	if refused.Reason != crdupgrade.FieldLoss || !strings.HasSuffix(refused.Next, " --accept-field-loss") {
		t.Errorf("refused %q, next %q", refused.Reason, refused.Next)
	}
	if diff := cmp.Diff([]string{"spec.legacy of v1 (2 objects)"}, shownLosses(refused)); diff != "" {
		t.Errorf("losses (-want +got):\n%s", diff)
	}
	g.wantVersions("v1 v2", "v1 served", "v2 served storage")
	before := crdOf(t, g.cluster, g.definition()).ResourceVersion
	if got := user.upgradeCRDs(0, next, "--accept-field-loss",
		"--dry-run"); stepsOf(got)[g.definition()] != wholeUpgrade {
		t.Errorf("a dry run: %v", stepsOf(got))
	}
	if after := crdOf(t, g.cluster, g.definition()).ResourceVersion; after != before {
		t.Error("the dry run has written the CRD")
	}
	if got := user.upgradeCRDs(0, next, "--accept-field-loss"); stepsOf(got)[g.definition()] != wholeUpgrade {
		t.Errorf("accepted: %v", stepsOf(got))
	}
	g.wantVersions("v2", "v2 served storage")
	g.wantUnnamed(3)
	g.mustApply("alice", "v2", "g-000", spec("color", "red", "payload", "q"))
}

// upgradeIsPlannedAgain lets someone make v1 the storage version again, and write an object in it, just before v1 is
// to go.
func upgradeIsPlannedAgain(t *testing.T, g *gadgets) {
	user, proxy := throughProxy(t, g.cluster)
	user.run(0, "upgrade-crd", "-f", g.file("v1*", "v2"))
	g.ready("v1", "v2")
	g.fill(3)
	other := newCLI(t, g.cluster)
	back := testbed.Overtaken(func() {
		other.kubectl("apply", "--server-side", "-f", g.file("v1*", "v2"))
		g.ready("v1")
		g.mustApply("carol", "v1", "g-100", spec("color", "green", "legacy", "late"))
	})
	proxy.SetRules(testbed.Rule{Fault: back, Skip: 1, Times: 1, Match: func(r *http.Request) bool {
		return r.URL.Path == g.whole() && r.Header.Get("Content-Type") == string(types.ApplyYAMLPatchType)
	}})

	upgraded := user.upgradeCRDs(0, g.file("v2*"), "--accept-field-loss")

	want := map[string]string{g.definition(): "intermediate migrate prune managedFields " + wholeUpgrade}
	if diff := cmp.Diff(want, stepsOf(upgraded)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	g.wantVersions("v2", "v2 served storage")
	g.wantUnnamed(4)
}

// upgradeWaitsForTheController plays a controller, which asks for a migration some time after the CRD has changed.
func upgradeWaitsForTheController(t *testing.T, g *gadgets) {
	if err := g.cluster.InstallCRDs(t.Context(), config.CRDs); err != nil {
		t.Fatal(err)
	}
	user, proxy := throughProxy(t, g.cluster)
	user.run(0, "upgrade-crd", "-f", g.file("v1*", "v2"))
	g.ready("v1", "v2")
	g.fill(3)
	resource := map[string]any{"group": testbed.WidgetGroup, "resource": g.plural}
	do(t, g.cluster, http.MethodPost, strings.Replace(migrations, "storageversionmigrations",
		"storagestates", 1), map[string]any{
		"apiVersion": "migration.k8s.io/v1alpha1", "kind": "StorageState",
		"metadata": map[string]any{"name": g.definition()}, "spec": map[string]any{"resource": resource},
	})
	_, wait := user.start("upgrade-crd", "-f", g.file("v2*"), "--settle-time=1s", "--accept-field-loss")
	rewrites := func() (n int) {
		for _, r := range proxy.Records() {
			if r.Method == http.MethodPatch && strings.Contains(r.Path, g.item()) {
				n++
			}
		}
		return n
	}
	looks := func() (n int) {
		for _, r := range proxy.Records() {
			if r.Path == migrations {
				n++
			}
		}
		return n
	}
	eventually(t, "it waits for the controller to notice", func() bool { return looks() >= 2 || rewrites() > 0 })
	do(t, g.cluster, http.MethodPost, migrations, map[string]any{
		"apiVersion": "migration.k8s.io/v1alpha1", "kind": "StorageVersionMigration",
		"metadata": map[string]any{"name": g.definition()}, "spec": map[string]any{"resource": resource},
	})
	before := looks()
	eventually(t, "it waits for the migration", func() bool { return looks() >= before+3 || rewrites() > 0 })
	if n := rewrites(); n > 0 {
		t.Errorf("%d objects were rewritten while the controller was to migrate them", n)
	}
	do(t, g.cluster, http.MethodPatch, migrations+"/"+g.definition()+"/status",
		map[string]any{"status": map[string]any{"completedGeneration": 1}})
	if out := wait(); out.code != 0 || !strings.Contains(out.stderr,
		"Waiting for storageversionmigration.migration.k8s.io/"+g.definition()+"\n") {
		t.Errorf("exit code %d\n%s\n%s", out.code, out.stdout, out.stderr)
	}
	g.wantVersions("v2", "v2 served storage")
}

// upgradeConvertsBeforeTheWebhookGoes has a file without v1, and without the conversion webhook that keeps a field of
// v1 in another of v2.
func upgradeConvertsBeforeTheWebhookGoes(t *testing.T, g *gadgets) {
	converter := newConverter(t, g.cluster)
	converter.move = func(fields map[string]any, apiVersion string) {
		from, to := "legacy", "payload"
		if apiVersion == v1 {
			from, to = to, from
		}
		if value, ok := fields[from]; ok {
			fields[to] = value
			delete(fields, from)
		}
	}
	user := newCLI(t, g.cluster)
	live := g.crd("v1*", "v2")
	live["spec"].(map[string]any)["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"clientConfig":             map[string]any{"url": converter.web.URL, "caBundle": g.cluster.CA()},
		"conversionReviewVersions": []string{"v1"},
	}}
	user.run(0, "upgrade-crd", "-f", g.fileOf(live))
	g.ready("v1", "v2")
	for _, name := range []string{"g-000", "g-001", "g-002"} {
		g.mustApply("alice", "v1", name, spec("legacy", "kept in "+name))
	}
	next := g.file("v2*")

	converter.down.Store(true)
	out := user.run(2, "upgrade-crd", "-f", next, "--settle-time=1s")
	if !strings.Contains(out.stdout+out.stderr, "conversion webhook") {
		t.Errorf("it does not say that the conversion webhook fails:\n%s\n%s", out.stdout, out.stderr)
	}
	converter.down.Store(false)
	g.wantNothingStranded(3)

	steps := stepsOf(user.upgradeCRDs(0, next))[g.definition()]
	if !strings.HasSuffix(steps, "migrate prune managedFields apply") {
		t.Errorf("steps %q, want the objects migrated before the file is applied", steps)
	}
	g.wantVersions("v2", "v2 served storage")
	g.wantUnnamed(3)
	converter.down.Store(true)
	var list struct {
		Items []struct {
			Metadata metav1.ObjectMeta
			Spec     struct{ Payload string }
		}
	}
	getWhenReady(t, g.cluster, g.collection("v2"), &list)
	for _, item := range list.Items {
		if want := "kept in " + item.Metadata.Name; item.Spec.Payload != want {
			t.Errorf("%s has the payload %q, want %q", item.Metadata.Name, item.Spec.Payload, want)
		}
	}
	if len(list.Items) != 3 {
		t.Errorf("%d objects, want 3", len(list.Items))
	}
}

func upgradeReadsWhatKubectlPrints(t *testing.T, g *gadgets) {
	user := newCLI(t, g.cluster)
	path := filepath.Join(t.TempDir(), "list.json")
	namespace := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "other"}}
	list := map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{namespace, g.crd("v1*")}}
	if err := os.WriteFile(path, mustJSON(list), 0o600); err != nil {
		t.Fatal(err)
	}
	out := user.shell(0, binary+" upgrade-crd -f - < "+path)
	if want := g.definition() + "  create         created with v1\n"; out.stdout != want {
		t.Errorf("it says %q, want %q", out.stdout, want)
	}
	if want := "Skipped: 1 objects that are not CustomResourceDefinitions.\n"; out.stderr != want {
		t.Errorf("the other one says %q, want %q", out.stderr, want)
	}
	if out := user.run(1, "upgrade-crd", "-f", path, "-f", path); !strings.Contains(out.stderr, "give one of them") {
		t.Errorf("a CRD that is there twice: %s", out.stderr)
	}
}
