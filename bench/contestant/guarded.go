// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// guardedCeiling is the ceiling with the token of an installation's worker, whose every request the guard looks at.
// Next to the ceiling it shows what the guard costs the API server. The installation is there for these runs alone.
const guardedCeiling = "guarded ceiling"

// guardedGenerator is generator with the token of a worker; path is the binary that installs the guard.
func guardedGenerator(path string, concurrency int) contestant {
	plain := generator(concurrency)
	return contestant{name: guardedCeiling, run: func(ctx context.Context, l *lab, kubeconfig string, n int, watch func(int)) (err error) {
		if err := l.command(ctx, path, "install", "--kubeconfig="+kubeconfig, "--image=kube-migrator:bench",
			"--wait=false"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, l.command(ctx, path, "uninstall", "--kubeconfig="+kubeconfig)) }()
		worker, err := l.asWorker(ctx, kubeconfig)
		if err != nil {
			return err
		}
		return plain.run(ctx, l, worker, n, watch)
	}}
}

// command runs a command that is not measured.
func (l *lab) command(ctx context.Context, path string, args ...string) error {
	return finish(ctx, l, func(int) {}, path, args...)
}

// asWorker returns the path of a kubeconfig like another, with the token of the worker.
func (l *lab) asWorker(ctx context.Context, kubeconfig string) (string, error) {
	raw, err := l.client.Post().AbsPath(
		"/api/v1/namespaces/kube-migrator/serviceaccounts/kube-migrator-worker/token",
	).SetHeader("Content-Type", "application/json").
		Body([]byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`)).Do(ctx).Raw()
	if err != nil {
		return "", fmt.Errorf("request the worker's token: %w", err)
	}
	var token authenticationv1.TokenRequest
	if err := json.Unmarshal(raw, &token); err != nil {
		return "", fmt.Errorf("decode the worker's token: %w", err)
	}
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return "", fmt.Errorf("read kubeconfig: %w", err)
	}
	for _, user := range config.AuthInfos {
		user.Token = token.Status.Token
	}
	path := filepath.Join(l.cluster.Dir(), "worker-kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

// guardCost prints how much more of the API server's CPU a rewrite takes with the guard, each round compared with
// itself.
func (r *Report) guardCost(out io.Writer) {
	cpu := func(m Measurement) float64 { return m.APIServerCPUMillis }
	var more []float64
	for round := 1; ; round++ {
		with, guarded := valueOf(r.Speed, round, guardedCeiling, cpu)
		without, plain := valueOf(r.Speed, round, ceiling, cpu)
		if !guarded || !plain {
			break
		}
		more = append(more, with-without)
	}
	if len(more) > 0 {
		fmt.Fprintf(out, "\nWith the guard the API server takes %.2f ms more CPU per object (median of %d rounds; "+
			"%.2f–%.2f).\n",
			median(more), len(more), lowest(more...), highest(more...))
	}
}
