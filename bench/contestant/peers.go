// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

const (
	inTreePath   = "/apis/storagemigration.k8s.io/v1/storageversionmigrations"
	externalPath = "/apis/migration.k8s.io/v1alpha1/storageversionmigrations"
	// externalModule is where the peer is built from; its go.mod is in the repository's folder externalDir.
	externalModule = "sigs.k8s.io/kube-storage-version-migrator"
	externalDir    = "testbed/kube-storage-version-migrator"
)

// request is what of a StorageVersionMigration, in either group, both peers understand and answer.
type request struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       requestSpec       `json:"spec"`
}

type requestSpec struct {
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

// inTreeMigrator is the StorageVersionMigration of Kubernetes itself: its controller in kube-controller-manager, with
// the garbage collector whose cache it reads, and without its limit on requests.
func inTreeMigrator(ctx context.Context, progress io.Writer) (contestant, error) {
	binary, err := testbed.Binary(ctx, testbed.V137, "kube-controller-manager", progress)
	if err != nil {
		return contestant{}, err
	}
	run := func(ctx context.Context, l *lab, kubeconfig string, _ int, watch func(int)) error {
		c, err := start(ctx, l, watch, binary, "--kubeconfig="+kubeconfig, "--leader-elect=false", "--secure-port=0",
			"--controllers=garbage-collector-controller,storage-version-migrator-controller",
			"--kube-api-qps=100000", "--kube-api-burst=100000")
		if err != nil {
			return err
		}
		defer c.stop()
		poked := false
		return l.migrateBy(ctx, c, inTreePath, request{
			APIVersion: "storagemigration.k8s.io/v1",
			Spec:       requestSpec{map[string]string{"group": testbed.WidgetGroup, "resource": "widgets"}},
		}, func(a answer) error {
			// It waits until its cache is as new as this resourceVersion, which in a quiet cluster takes a minute.
			if poked || a.Status.ResourceVersion == "" {
				return nil
			}
			poked = true
			return l.poke(ctx)
		})
	}
	return contestant{name: inTree, run: run}, nil
}

// poke makes every cache of widgets see a new revision.
func (l *lab) poke(ctx context.Context) error {
	poke := testbed.Bulk{Prefix: "poke-", Count: 1, Version: "v2"}
	if err := l.cluster.BulkCreate(ctx, poke); err != nil {
		return err
	}
	return l.cluster.DeleteRaw(ctx, poke.Key(0))
}

// externalMigrator is kube-storage-version-migrator's migrator without its limit on requests. It is built, and its
// CRD installed, from the module that externalDir pins.
func externalMigrator(ctx context.Context, l *lab, progress io.Writer) (contestant, error) {
	binary := filepath.Join(l.cluster.Dir(), "kube-storage-version-migrator")
	fmt.Fprintln(progress, "building kube-storage-version-migrator: about 1 minute once, seconds afterwards")
	if _, err := goTool(ctx, "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, externalModule+
		"/cmd/migrator"); err != nil {
		return contestant{}, err
	}
	dir, err := goTool(ctx, "list", "-m", "-f", "{{.Dir}}", externalModule)
	if err != nil {
		return contestant{}, err
	}
	if err := l.install(ctx, filepath.Join(strings.TrimSpace(dir), "manifests",
		"storage_migration_crd.yaml")); err != nil {
		return contestant{}, err
	}
	run := func(ctx context.Context, l *lab, kubeconfig string, _ int, watch func(int)) error {
		c, err := start(ctx, l, watch, binary, "--kubeconfig="+kubeconfig, "--kube-api-qps=100000",
			"--kube-api-burst=100000")
		if err != nil {
			return err
		}
		defer c.stop()
		return l.migrateBy(ctx, c, externalPath, request{
			APIVersion: "migration.k8s.io/v1alpha1",
			Spec: requestSpec{map[string]string{"group": testbed.WidgetGroup, "version": "v2",
				"resource": "widgets"}},
		}, func(answer) error { return nil })
	}
	return contestant{name: external, run: run}, nil
}

// goTool runs the go command in the peer's module.
func goTool(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.FromSlash(externalDir)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s in %s: %w\n%s", args[0], externalDir, err, stderr.String())
	}
	return string(out), nil
}

// install creates a CustomResourceDefinition from a file and waits until it is served.
func (l *lab) install(ctx context.Context, path string) error {
	manifest, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read CRD: %w", err)
	}
	body, err := yaml.YAMLToJSON(manifest)
	if err != nil {
		return fmt.Errorf("decode %s: %w", path, err)
	}
	create := l.client.Post().AbsPath(
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
	).Body(body).SetHeader("Content-Type", "application/json")
	if err := create.Do(ctx).Error(); err != nil {
		return fmt.Errorf("create CRD %s: %w", filepath.Base(path), err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return (&child{done: make(chan struct{})}).poll(ctx, func() (bool, error) {
		err := l.client.Get().AbsPath(externalPath).Do(ctx).Error()
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// migrateBy asks a peer's controller, which runs as c, to migrate widgets, and waits until it says that it has. seen is
// shown each answer.
func (l *lab) migrateBy(ctx context.Context, c *child, path string, r request, seen func(answer) error) error {
	r.Kind, r.Metadata = "StorageVersionMigration", map[string]string{"name": "widgets"}
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := l.client.Post().AbsPath(path).Body(body).SetHeader("Content-Type",
		"application/json").Do(ctx).Error(); err != nil {
		return fmt.Errorf("request migration: %w", err)
	}
	err = c.poll(ctx, func() (bool, error) {
		raw, err := l.client.Get().AbsPath(path, "widgets").Do(ctx).Raw()
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
	remove := l.client.Verb(http.MethodDelete).AbsPath(path, "widgets").Do(context.WithoutCancel(ctx)).Error()
	return errors.Join(err, remove)
}
