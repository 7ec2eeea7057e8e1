// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command decodable asks real API servers of every pinned Kubernetes release what they can decode, and writes the
// answers into a folder: the tables of package upgrade, one file for each release.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// flags make a server serve, and declare, everything that it can.
var flags = []string{"--feature-gates=AllAlpha=true,AllBeta=true", "--runtime-config=api/all=true"}

const (
	declarations = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions"
	patience     = time.Minute
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "error: no folder named\nTry: make decodable")
		os.Exit(1)
	}
	if err := write(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\nTry: make decodable\n", err)
		os.Exit(1)
	}
}

func write(ctx context.Context, dir string) error {
	for _, release := range testbed.Releases() {
		cluster, err := testbed.Start(ctx, testbed.Options{Release: release, Flags: flags})
		if err != nil {
			return fmt.Errorf("start Kubernetes %s: %w", release, err)
		}
		table, err := read(ctx, cluster)
		cluster.Stop()
		if err != nil {
			return fmt.Errorf("ask Kubernetes %s: %w", release, err)
		}
		if err := os.WriteFile(filepath.Join(dir, fileOf(release)), table, 0o644); err != nil {
			return fmt.Errorf("write table: %w", err)
		}
	}
	return nil
}

// fileOf is "v1.36.txt" for "v1.36.3".
func fileOf(release testbed.Release) string {
	r := string(release)
	return r[:strings.LastIndex(r, ".")] + ".txt"
}

// read asks a cluster that was started with flags.
func read(ctx context.Context, cluster *testbed.Cluster) ([]byte, error) {
	client, err := apiserver.NewClient(cluster.Config())
	if err != nil {
		return nil, err
	}
	known, err := inventory.Take(ctx, client)
	if err != nil {
		return nil, err
	}
	kinds := map[schema.GroupResource]string{}
	for _, r := range known.Resources {
		kinds[r.GroupResource] = r.Kind
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	release := string(cluster.Servers[0].Release())
	for {
		status, list, err := cluster.Servers[0].Do(ctx, http.MethodGet, declarations, nil)
		if err != nil {
			return nil, err
		}
		if status != http.StatusOK {
			return nil, fmt.Errorf("list StorageVersions: %d: %s", status, list)
		}
		table, err := upgrade.NewTable(release, list, kinds)
		if err != nil {
			return nil, err
		}
		// A server writes its declarations one by one, some seconds after its start.
		if missing := undeclared(known, table); missing == "" {
			return table.Bytes(), nil
		} else if err := pace.Sleep(ctx, 200*time.Millisecond); err != nil {
			return nil, errors.Join(fmt.Errorf("the server does not declare %s", missing), err)
		}
	}
}

// undeclared names a resource that is stored and that the table does not have.
func undeclared(known *inventory.Inventory, table upgrade.Table) string {
	for _, r := range known.Resources {
		if _, ok := table.Decodable[r.GroupResource]; !ok && r.StorageVersionHash != "" {
			return r.GroupResource.String()
		}
	}
	return ""
}
