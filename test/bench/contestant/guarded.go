// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package contestant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-migrator/kube-migrator/test/bench/lab"
)

// Guarded is the ceiling with the token of an installation's worker, whose every request the guard checks. Next to the
// ceiling it shows what the guard costs the API server. The installation is there for these runs alone.
func (w *Workshop) Guarded(form Form, concurrency int) Contestant {
	plain := CeilingOf(form, concurrency)
	return Contestant{Name: GuardedCeiling, Migrate: func(ctx context.Context, r Run) (err error) {
		unwatched, admin := func(int) {}, r.Kubeconfig
		if err := Finish(ctx, r.Lab, unwatched, w.binary, "install", "--kubeconfig="+admin,
			"--image=kube-migrator:bench", "--wait=false"); err != nil {
			return err
		}
		defer func() {
			err = errors.Join(err, Finish(ctx, r.Lab, unwatched, w.binary, "uninstall", "--kubeconfig="+admin))
		}()
		if r.Kubeconfig, err = asWorker(ctx, r.Lab, admin); err != nil {
			return err
		}
		return plain.Migrate(ctx, r)
	}}
}

// asWorker returns the path of a kubeconfig like another, with the token of the worker.
func asWorker(ctx context.Context, l *lab.Lab, kubeconfig string) (string, error) {
	raw, err := l.Send(ctx, http.MethodPost, "/api/v1/namespaces/kube-migrator/serviceaccounts/kube-migrator-worker/token",
		map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{}})
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
	path := filepath.Join(l.Cluster.Dir(), "worker-kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}
