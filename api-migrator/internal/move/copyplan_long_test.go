// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package move

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// reader runs the commands of a plan, as its reader would, with kubectl and jq.
type reader struct {
	t          *testing.T
	dir        string
	kubeconfig string
}

func (s *reader) try(script string) (string, error) {
	s.t.Helper()
	command := exec.CommandContext(s.t.Context(), "bash", "-euo", "pipefail", "-c", script)
	command.Dir = s.dir
	command.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig)
	out, err := command.CombinedOutput()
	return string(out), err
}

func (s *reader) run(script string) string {
	s.t.Helper()
	out, err := s.try(script)
	if err != nil {
		s.t.Fatalf("%s\n%v\n%s", script, err, out)
	}
	return out
}

// parts are those of an object that a copy has to keep.
type copied struct {
	Metadata struct {
		Name, Namespace     string
		UID                 string
		Labels, Annotations map[string]string
		Finalizers          []string
		OwnerReferences     []struct{ APIVersion, Kind, Name, UID string }
	}
	Spec, Status map[string]any
}

func (s *reader) list(resource string) []copied {
	s.t.Helper()
	var list struct{ Items []copied }
	if err := json.Unmarshal([]byte(s.run("kubectl get "+resource+" -A -o json")), &list); err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

const (
	oldResource = "catalogsourceconfigs.v1.operators.example.com"
	newResource = "catalogsourceconfigurers.v1alpha1.new-group.example.com"
)

// prepare installs the old CRD with objects that own something.
func (s *reader) prepare() {
	s.t.Helper()
	upgraded, err := crd.Upgrade(s.t.Context(), "old.yaml", fixture.Read(s.t, s.dir, guideManifest), crd.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	fixture.Write(s.t, s.dir, map[string]string{"old.yaml": strings.Replace(upgraded.Text,
		"          status:\n            type: object\n",
		"          status:\n            type: object\n            x-kubernetes-preserve-unknown-fields: true\n", 1)})
	s.run("kubectl apply -f old.yaml && kubectl wait --for=condition=Established " +
		"crd/catalogsourceconfigs.operators.example.com && kubectl create namespace a && kubectl create namespace b")
	for i, namespace := range []string{"a", "a", "b"} {
		s.run(fmt.Sprintf(`
kubectl apply -n %[1]s -f - <<'EOF'
apiVersion: operators.example.com/v1
kind: CatalogSourceConfig
metadata:
  name: c%[2]d
  labels: {number: "%[2]d"}
  annotations: {says: 'a "quoted" \ text'}
  finalizers: [finalizer.catalogsourceconfigs.operators.example.com, example.org/of-another]
spec: {targetNamespace: t, size: %[2]d, packages: "a,b"}
EOF
kubectl patch %[3]s c%[2]d -n %[1]s --subresource=status --type=merge -p '{"status": {"currentPhase": {"phase": {"name": "Running", "message": "\\ is %[2]d"}}}}'
kubectl apply -n %[1]s -f - <<EOF
apiVersion: v1
kind: ConfigMap
metadata:
  name: child%[2]d
  labels: {is: child}
  ownerReferences:
  - {apiVersion: operators.example.com/v1, kind: CatalogSourceConfig, name: c%[2]d, uid: $(kubectl get %[3]s c%[2]d -n %[1]s -o jsonpath={.metadata.uid}), controller: true, blockOwnerDeletion: true}
  - {apiVersion: v1, kind: Namespace, name: %[1]s, uid: of-another}
EOF`, namespace, i, oldResource))
	}
}

// checkReadOnly asserts that the API server rejects changes of old objects, except of their metadata.
func (s *reader) checkReadOnly() {
	s.t.Helper()
	deadline, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for {
		out, err := s.try("kubectl patch " + oldResource +
			" c0 -n a --type=merge -p '{\"spec\": {\"size\": 7}}' --dry-run=server")
		if err != nil && strings.Contains(out, "is being replaced by CatalogSourceConfigurer") {
			break
		}
		select {
		case <-deadline.Done():
			s.t.Fatalf("an old object can be changed: %v\n%s", err, out)
		case <-time.After(100 * time.Millisecond):
		}
	}
	if out, err := s.try("kubectl get " + oldResource +
		" c0 -n a -o json | jq '.metadata = {name: \"another\"}' | kubectl create -n a -f -"); err == nil {
		s.t.Errorf("an old object can be created: %s", out)
	}
	s.run("kubectl label " + oldResource + " c0 -n a copied=true")
	s.run("kubectl label " + oldResource + " c0 -n a copied-")
}

// checkGuard asserts that nothing is deleted while an object has no copy.
func (s *reader) checkGuard(command string) {
	s.t.Helper()
	kept := s.run("kubectl get " + newResource +
		" c2 -n b -o json | jq 'del(.metadata.resourceVersion, .metadata.uid, .metadata.managedFields)'")
	s.run("kubectl delete " + newResource + " c2 -n b")
	if out, err := s.try(command); err == nil || !strings.Contains(out, "no copy of b/c2") {
		s.t.Errorf("old objects are deleted without a copy: %v\n%s", err, out)
	}
	if n := len(s.list(oldResource)); n != 3 {
		s.t.Fatalf("%d old objects are left, want 3", n)
	}
	fixture.Write(s.t, s.dir, map[string]string{"kept.json": kept})
	s.run("kubectl create -f kept.json && kubectl patch " + newResource +
		" c2 -n b --subresource=status --type=merge --patch \"$(jq -c '{status}' kept.json)\"")
	s.run("kubectl patch configmap child2 -n b --type=json -p \"[{\\\"op\\\": \\\"replace\\\", \\\"path\\\": " +
		"\\\"/metadata/ownerReferences/0/uid\\\", \\\"value\\\": \\\"$(kubectl get " + newResource +
		" c2 -n b -o jsonpath={.metadata.uid})\\\"}]\"")
}

// collect does the work of the garbage collector for deletions that orphan dependents, until ctx ends.
func (s *reader) collect(ctx context.Context) {
	for ctx.Err() == nil {
		_, _ = s.try(`kubectl get ` + oldResource +
			` -A -o json | jq -r '.items[] | select(any(.metadata.finalizers[]?; . == "orphan")) | .metadata.namespace + " " + .metadata.name' |
			while read -r namespace name; do kubectl patch ` + oldResource + ` "$name" -n "$namespace" --type=merge -p '{"metadata": {"finalizers": null}}'; done`)
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func TestTheStepsOfACopyMoveObjectsWithStatusAndChildrenAndMayBeRepeated(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{})
	kubeconfig, err := cluster.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	dir := fixture.Repository(t, "guide")
	asked := guideRequest
	asked.To, asked.ToKind = "new-group.example.com/v1alpha1", "CatalogSourceConfigurer"
	plan := planned(t, dir, asked)
	if _, err := Apply(t.Context(), dir, plan, false); err != nil {
		t.Fatal(err)
	}
	s := &reader{t: t, dir: dir, kubeconfig: kubeconfig}
	s.prepare()
	// The schema of the guide has no status, so a server would drop it.
	const manifest = "deploy/crds/new-group.example.com_catalogsourceconfigurers_crd.yaml"
	s.run("sed -i 's/^          status:/          status:\\n            x-kubernetes-preserve-unknown-fields: true/' " +
		manifest)
	old := s.list(oldResource)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i, step := range plan.Copy.Steps {
		switch {
		case strings.HasPrefix(step.Do, "Delete"):
			for _, object := range s.list(oldResource) {
				if diff := gocmp.Diff([]string{"example.org/of-another"}, object.Metadata.Finalizers); diff != "" {
					t.Errorf("finalizers of %s (-want +got):\n%s", object.Metadata.Name, diff)
				}
			}
			s.checkGuard(step.Commands[0])
			s.run(`for n in a b; do kubectl get ` + oldResource +
				` -n $n -o name | xargs -I{} kubectl patch {} -n $n --type=merge -p '{"metadata": {"finalizers": null}}'; done`)
			go s.collect(ctx)
		case strings.HasPrefix(step.Do, "Retire"):
			cancel()
		}
		for range 2 {
			for _, command := range step.Commands {
				if out, err := s.try(command); err != nil && i < len(plan.Copy.Steps)-1 {
					t.Fatalf("%s\n%v\n%s", command, err, out)
				}
			}
		}
		if strings.HasPrefix(step.Do, "Make the old objects") {
			s.checkReadOnly()
		}
	}
	s.checkCopies(old)
	if out, err := s.try("kubectl get crd/catalogsourceconfigs.operators.example.com"); err == nil ||
		!strings.Contains(out, "NotFound") {
		t.Errorf("the old CRD is there: %s", out)
	}
}

func (s *reader) checkCopies(old []copied) {
	s.t.Helper()
	uids := map[string]string{}
	for i, object := range s.list(newResource) {
		uids[object.Metadata.Name] = object.Metadata.UID
		delete(old[i].Metadata.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
		if object.Metadata.UID == old[i].Metadata.UID {
			s.t.Errorf("%s is no object of its own", object.Metadata.Name)
		}
		object.Metadata.UID, old[i].Metadata.UID, old[i].Metadata.Finalizers = "", "", nil
		if diff := gocmp.Diff(old[i], object); diff != "" {
			s.t.Errorf("a copy (-old +new):\n%s", diff)
		}
	}
	if len(uids) != 3 {
		s.t.Fatalf("%d copies, want 3", len(uids))
	}
	for i, child := range s.list("configmaps --selector is=child") {
		owners := child.Metadata.OwnerReferences
		name := fmt.Sprintf("c%d", i)
		if len(owners) != 2 || owners[0].UID != uids[name] || owners[0].Kind != "CatalogSourceConfigurer" ||
			owners[0].APIVersion != "new-group.example.com/v1alpha1" || owners[0].Name != name ||
			owners[1].UID != "of-another" {
			s.t.Errorf("%s is owned by %+v, want %s", child.Metadata.Name, owners, uids[name])
		}
	}
}
