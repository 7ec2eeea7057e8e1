// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node && bench

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// TestHowLongADefaultInstallationTakes measures, and fails only where something is not recorded as current in the end:
// figures are for docs/benchmarks.md, and depend on the machine.
func TestHowLongADefaultInstallationTakes(t *testing.T) {
	const (
		firstCRDs, firstObjects = 12, 50
		laterCRDs, laterObjects = 300, 20
		plenty                  = 40 * time.Minute
	)
	h := newNode(t, testbed.Options{})
	binary := h.binary()
	h.define("first", firstCRDs, firstObjects)
	// A cluster has usually been up for longer than an API server that has just started is waited for: settle time and
	// shutdown delay.
	time.Sleep(migrate.DefaultSettleTime + agreement.DefaultShutdownDelay)

	begin := time.Now()
	h.as(binary, 0, "install", "--image="+image, "--image-pull-policy=Never", "--timeout=2m")
	installed := time.Now()
	t.Logf("install took %s", installed.Sub(begin).Round(time.Second))
	all := h.current(plenty, firstCRDs)
	t.Logf("MEASURED: %d resources are recorded as current %s after install returned", all,
		time.Since(installed).Round(time.Second))
	h.safe(binary, plenty)
	t.Logf("MEASURED: progress exits with 0 %s after install began", time.Since(begin).Round(time.Second))

	begin = time.Now()
	h.define("later", laterCRDs, laterObjects)
	defined := time.Now()
	t.Logf("%d more CRDs, each with %d objects, were created in %s", laterCRDs, laterObjects,
		defined.Sub(begin).Round(time.Second))
	more := h.current(plenty, firstCRDs+laterCRDs)
	t.Logf("MEASURED: %d more resources are recorded as current %s after the last of them was created", more-all,
		time.Since(defined).Round(time.Second))
	t.Logf("runs: %s", h.run("get", "svmig", "-o", `jsonpath={range .items[*]}{.status.run.attempt}{" "}{end}`))
	t.Logf("the controller says:\n%s", h.run("logs", "-n", namespace, "-l",
		"app.kubernetes.io/component=controller", "--tail=30"))
}

// define creates CRDs, ten to a group, and objects of each that are stored in their first version, which is no longer
// their storage version.
func (h *harness) define(name string, crds, objects int) {
	h.Helper()
	const inFlight = 8
	tasks, ctx := errgroup.WithContext(h.Context())
	tasks.SetLimit(inFlight)
	for i := range crds {
		tasks.Go(func() error {
			return h.defineOne(ctx, fmt.Sprintf("%s%02d.example.com", name, i/10),
				fmt.Sprintf("Kind%d%s", i, name), objects)
		})
	}
	if err := tasks.Wait(); err != nil {
		h.Fatal(err)
	}
}

func (h *harness) defineOne(ctx context.Context, group, kind string, objects int) error {
	plural := strings.ToLower(kind) + "s"
	version := func(name string, storage bool) map[string]any {
		return map[string]any{"name": name, "served": true, "storage": storage, "schema": map[string]any{
			"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
		}}
	}
	if err := h.post(ctx, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"plural": plural, "kind": kind},
			"versions": []any{version("v1", true), version("v2", false)},
		},
	}); err != nil {
		return err
	}
	for served := false; !served; time.Sleep(50 * time.Millisecond) {
		status, _, err := h.cluster.Servers[0].Do(ctx, http.MethodGet, "/apis/"+group+"/v1/"+plural+"?limit=1", nil)
		if err != nil {
			return err
		}
		served = status == http.StatusOK
	}
	for o := range objects {
		if err := h.post(ctx, "/apis/"+group+"/v1/namespaces/default/"+plural, map[string]any{
			"apiVersion": group + "/v1", "kind": kind, "metadata": map[string]any{"name": fmt.Sprintf("object-%d", o)},
			"spec": map[string]any{"text": strings.Repeat("x", 500)},
		}); err != nil {
			return err
		}
	}
	return h.cluster.MoveStorage(ctx, plural+"."+group, "v2")
}

func (h *harness) post(ctx context.Context, path string, object map[string]any) error {
	raw, err := json.Marshal(object)
	if err != nil {
		return err
	}
	for {
		status, answer, err := h.cluster.Servers[0].Do(ctx, http.MethodPost, path, raw)
		switch {
		case err != nil:
			return fmt.Errorf("post %s: %w", path, err)
		case status == http.StatusCreated, status == http.StatusConflict: // the answer to an earlier try was an error
			return nil
		case status != http.StatusServiceUnavailable: // the storage of a CRD is replaced for a moment when its status changes
			return fmt.Errorf("post %s: %d %s", path, status, answer)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// current waits until every StorageState records one version, the current one, and returns how many there are. Until
// there are those of as many CRDs of this test, some are missing. What is left to administrators does not count.
func (h *harness) current(patience time.Duration, crds int) int {
	h.Helper()
	begin := time.Now()
	said := begin
	for {
		status, answer, err := h.cluster.Servers[0].Do(h.Context(), http.MethodGet,
			"/apis/migration.k8s.io/v1alpha1/storagestates", nil)
		list := v1alpha1.StorageStateList{}
		if err != nil || status != http.StatusOK || json.Unmarshal(answer, &list) != nil {
			h.Fatalf("read StorageStates: %d (%v)", status, err)
		}
		var left []string
		own := 0
		list.Items = slices.DeleteFunc(list.Items,
			func(s v1alpha1.StorageState) bool { return strings.Contains(s.Name, "admissionpolic") })
		for _, s := range list.Items {
			if strings.HasSuffix(s.Name, ".example.com") {
				own++
			}
			if !slices.Equal(s.Status.PersistedStorageVersionHashes, []string{s.Status.CurrentStorageVersionHash}) {
				left = append(left, s.Name)
			}
		}
		if len(left) == 0 && own == crds {
			return len(list.Items)
		}
		if time.Since(begin) > patience {
			h.Fatalf("after %s %d of %d resources are not recorded as current: %v\n%s", patience, len(left),
				len(list.Items), left, h.run("get", "svmig,jobs,pods", "-A"))
		}
		if time.Since(said) > 30*time.Second {
			said = time.Now()
			h.Logf("after %s %d of %d are left", time.Since(begin).Round(time.Second), len(left), len(list.Items))
		}
		time.Sleep(500 * time.Millisecond)
	}
}
