// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package contestant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/test/bench/lab"
)

const (
	inTreePath   = "/apis/storagemigration.k8s.io/v1/storageversionmigrations"
	externalPath = "/apis/migration.k8s.io/v1alpha1/storageversionmigrations"
	// externalModule is where the peer is built from; its go.mod is in the repository's folder externalDir.
	externalModule = "sigs.k8s.io/kube-storage-version-migrator"
	externalDir    = "internal/testbed/programs/kube-storage-version-migrator"
	// clusterAPIDir has a command that runs Cluster API's reconciler.
	clusterAPIDir = "internal/testbed/programs/cluster-api"
)

// unlimited lifts the limit on requests that the peers' clients have; shipped is the one in the manifests of
// kube-storage-version-migrator.
var (
	unlimited = []string{"--kube-api-qps=100000", "--kube-api-burst=100000"}
	shipped   = []string{"--kube-api-qps=40", "--kube-api-burst=1000"}
)

// Request is what of a StorageVersionMigration, in either group, both peers understand and answer.
type Request struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       RequestSpec       `json:"spec"`
}

// RequestSpec names the resource.
type RequestSpec struct {
	Resource map[string]string `json:"resource"`
}

type answer struct {
	Status struct {
		ResourceVersion string `json:"resourceVersion"`
		Conditions      []struct {
			Type    string                 `json:"type"`
			Status  metav1.ConditionStatus `json:"status"`
			Message string                 `json:"message"`
		} `json:"conditions"`
	} `json:"status"`
}

func (a answer) finished() (bool, error) {
	for _, c := range a.Status.Conditions {
		if c.Status == metav1.ConditionTrue && c.Type == "Failed" {
			return true, errors.New("the migration failed: " + c.Message)
		}
		if c.Status == metav1.ConditionTrue && c.Type == "Succeeded" {
			return true, nil
		}
	}
	return false, nil
}

// InTreeMigrator is the StorageVersionMigration of Kubernetes itself: its controller in kube-controller-manager, with
// the garbage collector whose cache it reads, and without its limit on requests.
func (w *Workshop) InTreeMigrator(ctx context.Context) (Contestant, error) {
	binary, err := testbed.Binary(ctx, testbed.Newest, "kube-controller-manager", w.progress)
	if err != nil {
		return Contestant{}, err
	}
	return Contestant{Name: InTree, Migrate: func(ctx context.Context, r Run) error {
		p, err := Start(ctx, r.Lab, r.Watch, binary, inTreeFlags(r.Kubeconfig)...)
		if err != nil {
			return err
		}
		defer p.Stop()
		touch := touchOnce()
		return migrateBy(ctx, r, p, inTreePath, Request{
			APIVersion: "storagemigration.k8s.io/v1",
			Spec:       RequestSpec{map[string]string{"group": r.Objects.Group, "resource": r.Objects.Plural}},
		}, func(a answer) error { return touch(ctx, r.Objects, a) })
	}}, nil
}

func inTreeFlags(kubeconfig string) []string {
	return append([]string{"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--controllers=garbage-collector-controller,storage-version-migrator-controller"}, unlimited...)
}

// ExternalMigrator is kube-storage-version-migrator's migrator. It is built, and its CRD installed, from the module that
// externalDir pins. limited keeps the limit on requests that it is shipped with.
func (w *Workshop) ExternalMigrator(ctx context.Context, limited bool) (Contestant, error) {
	binary, manifest, err := w.external(ctx)
	if err != nil {
		return Contestant{}, err
	}
	name, flags := External, unlimited
	if limited {
		name, flags = ExternalLimited, shipped
	}
	return Contestant{
		Name:    name,
		Prepare: func(ctx context.Context, l *lab.Lab) error { return install(ctx, l, manifest) },
		Migrate: func(ctx context.Context, r Run) error {
			p, err := Start(ctx, r.Lab, r.Watch, binary, append([]string{"--kubeconfig=" + r.Kubeconfig}, flags...)...)
			if err != nil {
				return err
			}
			defer p.Stop()
			return migrateBy(ctx, r, p, externalPath, Request{
				APIVersion: "migration.k8s.io/v1alpha1",
				Spec: RequestSpec{map[string]string{"group": r.Objects.Group, "version": r.Objects.Version,
					"resource": r.Objects.Plural}},
			}, func(answer) error { return nil })
		},
	}, nil
}

// external returns the paths of the migrator and of its CRD.
func (w *Workshop) external(ctx context.Context) (binary, manifest string, err error) {
	binary, err = w.build(ctx, "kube-storage-version-migrator", externalDir, externalModule+"/cmd/migrator")
	if err != nil {
		return "", "", err
	}
	dir, err := goTool(ctx, externalDir, "list", "-m", "-f", "{{.Dir}}", externalModule)
	if err != nil {
		return "", "", err
	}
	return binary, filepath.Join(strings.TrimSpace(dir), "manifests", "storage_migration_crd.yaml"), nil
}

// install creates a CRD from a file and waits until its resource is served. One that is there already is left alone.
func install(ctx context.Context, l *lab.Lab, path string) error {
	manifest, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read CRD: %w", err)
	}
	body, err := yaml.YAMLToJSON(manifest)
	if err != nil {
		return fmt.Errorf("decode %s: %w", path, err)
	}
	status, answer, err := l.Do(ctx, http.MethodPost, lab.CRDs, body)
	if err == nil && status != http.StatusCreated && status != http.StatusConflict {
		err = fmt.Errorf("%d: %s", status, answer)
	}
	if err != nil {
		return fmt.Errorf("create CRD of %s: %w", filepath.Base(path), err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return lab.Await(ctx, func() (bool, error) {
		status, answer, err := l.Do(ctx, http.MethodGet, externalPath, nil)
		switch {
		case err != nil:
			return false, err
		case status == http.StatusOK:
			return true, nil
		case status == http.StatusNotFound || status == http.StatusTooManyRequests: // its storage is not ready yet
			return false, nil
		}
		return false, fmt.Errorf("read migrations: %d: %s", status, answer)
	})
}

// migrateBy asks a peer's controller, which runs as p, to migrate a resource, and waits until it says that it has. seen
// is shown each answer.
func migrateBy(ctx context.Context, r Run, p *Process, path string, request Request, seen func(answer) error) error {
	const name = "bench"
	request.Kind, request.Metadata = "StorageVersionMigration", map[string]string{"name": name}
	if _, err := r.Lab.Send(ctx, http.MethodPost, path, request); err != nil {
		return fmt.Errorf("request migration: %w", err)
	}
	err := p.Await(ctx, func() (bool, error) {
		raw, err := r.Lab.Send(ctx, http.MethodGet, path+"/"+name, nil)
		if err != nil {
			return false, fmt.Errorf("read migration: %w", err)
		}
		var a answer
		if err := json.Unmarshal(raw, &a); err != nil {
			return false, fmt.Errorf("decode migration: %w", err)
		}
		if done, err := a.finished(); done {
			return true, err
		}
		return false, seen(a)
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	_, removed := r.Lab.Send(ctx, http.MethodDelete, path+"/"+name, nil)
	return errors.Join(err, removed)
}

// ClusterAPIMigrator is the reconciler with which Cluster API and its providers migrate their own CRDs, in a program of
// a few lines that hands it one CRD.
func (w *Workshop) ClusterAPIMigrator(ctx context.Context) (Contestant, error) {
	binary, err := w.build(ctx, "cluster-api", clusterAPIDir, ".")
	if err != nil {
		return Contestant{}, err
	}
	return Contestant{Name: ClusterAPI, CustomOnly: true, Migrate: func(ctx context.Context, r Run) error {
		return Finish(ctx, r.Lab, r.Watch, binary, "--kubeconfig="+r.Kubeconfig, "--group="+r.Objects.Group,
			"--version="+r.Objects.Version, "--kind="+r.Objects.Kind.Kind, "--crd="+r.Objects.CRD)
	}}, nil
}
