// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/crdlife"
)

// release is the folder with the CRDs of one release of a project, from its Go module.
func release(t *testing.T, module, folder string) string {
	t.Helper()
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	var downloaded struct{ Dir string }
	if jsonErr := json.Unmarshal(out, &downloaded); err != nil || jsonErr != nil {
		t.Fatalf("download %s: %v, %v\n%s", module, err, jsonErr, out)
	}
	return filepath.Join(downloaded.Dir, folder)
}

// upgradeCRDs runs `upgrade-crd -o json` with a short settle time, and returns what became of each CRD.
func (c *cli) upgradeCRDs(code int, path string, args ...string) map[string]render.CRDUpgrade {
	c.t.Helper()
	out := c.run(code, append([]string{"upgrade-crd", "-f", path, "--settle-time=1s", "-o", "json"}, args...)...)
	var report render.CRDUpgrades
	decode(c.t, []byte(out.stdout), &report)
	all := map[string]render.CRDUpgrade{}
	for _, one := range report.CRDs {
		all[one.Name] = one
	}
	return all
}

// stepsOf are the names of the steps of each CRD that has more than one, or an error.
func stepsOf(all map[string]render.CRDUpgrade) map[string]string {
	steps := map[string]string{}
	for name, one := range all {
		var words []string
		for _, s := range one.Steps {
			words = append(words, string(s.Name))
		}
		if one.Reason != "" {
			words = append(words, string(one.Reason))
		}
		if !slices.Equal(words, []string{string(crdlife.Apply)}) {
			steps[name] = strings.Join(words, " ")
		}
	}
	return steps
}

// wantReleased expects that the cluster has every CRD of a folder as it is there, with nothing but its storage version
// stored, and that `kubectl apply --server-side` of the folder conflicts with no one and changes nothing.
func (c *cli) wantReleased(dir string) {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		c.t.Fatalf("no manifests in %s: %v", dir, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			c.t.Fatal(err)
		}
		var d struct {
			Kind     string
			Metadata metav1.ObjectMeta
			Spec     struct {
				Versions []struct {
					Name            string
					Served, Storage bool
				}
			}
		}
		if err := yaml.Unmarshal(raw, &d); err != nil {
			c.t.Fatal(err)
		}
		if d.Kind != "CustomResourceDefinition" {
			continue
		}
		var versions []string
		stored := ""
		for _, v := range d.Spec.Versions {
			words := v.Name
			if v.Served {
				words += " served"
			}
			if v.Storage {
				words, stored = words+" storage", v.Name
			}
			versions = append(versions, words)
		}
		wantVersions(c.t, c.cluster, d.Metadata.Name, stored, versions...)
		before := crdOf(c.t, c.cluster, d.Metadata.Name)
		c.kubectl("apply", "--server-side", "-f", file)
		if after := crdOf(c.t, c.cluster, d.Metadata.Name); after.ResourceVersion != before.ResourceVersion {
			c.t.Errorf("kubectl apply --server-side changes %s (-before +after):\n%s", d.Metadata.Name,
				cmp.Diff(before.ManagedFields, after.ManagedFields))
		}
	}
}

func crdOf(t *testing.T, cluster *testbed.Cluster, name string) metav1.ObjectMeta {
	t.Helper()
	var d metav1.PartialObjectMetadata
	get(t, cluster, crdsPath+name, &d)
	return d.ObjectMeta
}

// removeCRDs deletes the CRDs of a group, with their objects.
func (c *cli) removeCRDs(group string) {
	c.t.Helper()
	left := func() (names []string) {
		var list metav1.PartialObjectMetadataList
		get(c.t, c.cluster, crdsPath, &list)
		for _, d := range list.Items {
			if strings.HasSuffix(d.Name, "."+group) {
				names = append(names, d.Name)
			}
		}
		return names
	}
	c.kubectl(append([]string{"delete", "customresourcedefinitions", "--wait=false"}, left()...)...)
	eventually(c.t, "the CRDs of "+group+" are gone", func() bool { return len(left()) == 0 })
}

// applyObject applies an object of YAML on the server's side as a manager, without force.
func applyObject(t *testing.T, cluster *testbed.Cluster, manager, plural, manifest string) {
	t.Helper()
	if err := tryApply(t, cluster, manager, plural, manifest); err != nil {
		t.Fatalf("%s applies to %s: %v", manager, plural, err)
	}
}

func tryApply(t *testing.T, cluster *testbed.Cluster, manager, plural, manifest string) error {
	t.Helper()
	var object struct {
		APIVersion string `json:"apiVersion"`
		Metadata   struct{ Name, Namespace string }
	}
	if err := yaml.Unmarshal([]byte(manifest), &object); err != nil {
		t.Fatal(err)
	}
	path := []string{"/apis", object.APIVersion}
	if object.Metadata.Namespace != "" {
		path = append(path, "namespaces", object.Metadata.Namespace)
	}
	getWhenReady(t, cluster, "/apis/"+object.APIVersion+"/"+plural+"?limit=1", &struct{}{})
	client, err := apiserver.NewClient(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client.Patch(types.ApplyYAMLPatchType).AbsPath(append(path, plural, object.Metadata.Name)...).
		Param("fieldManager", manager).Body([]byte(manifest)).Do(t.Context()).Error()
}

const (
	crdsPath   = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
	crdsPrefix = "/registry/apiextensions.k8s.io/customresourcedefinitions/"
)

// versionsOf reads spec.versions as "name", "name served", "name served storage", and status.storedVersions.
func versionsOf(t *testing.T, cluster *testbed.Cluster, crd string) (versions, stored []string) {
	t.Helper()
	var d struct {
		Spec struct {
			Versions []struct {
				Name            string
				Served, Storage bool
			}
		}
		Status struct{ StoredVersions []string }
	}
	get(t, cluster, crdsPath+crd, &d)
	for _, v := range d.Spec.Versions {
		words := v.Name
		if v.Served {
			words += " served"
		}
		if v.Storage {
			words += " storage"
		}
		versions = append(versions, words)
	}
	return versions, d.Status.StoredVersions
}

func wantVersions(t *testing.T, cluster *testbed.Cluster, crd, stored string, versions ...string) {
	t.Helper()
	gotVersions, gotStored := versionsOf(t, cluster, crd)
	if diff := cmp.Diff(versions, gotVersions); diff != "" || !slices.Equal(gotStored, strings.Fields(stored)) {
		t.Errorf("storedVersions %v, want [%s]; spec.versions (-want +got):\n%s", gotStored, stored, diff)
	}
}
