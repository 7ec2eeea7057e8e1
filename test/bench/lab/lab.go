// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package lab owns the cluster that the benchmark measures on: real etcd and API servers, objects that are stored in an
// old form and can be made old again, and the looks at /proc, at etcd's revision and at the API servers' metrics
// from which figures follow. It knows no migrator: a measurement is told what to run. It judges only whether every
// object was stored again.
package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// Lab is a cluster under measurement.
type Lab struct {
	Cluster *testbed.Cluster
	client  *http.Client
	// filled tells for each folder in etcd how many objects MakeOld left there.
	filled map[string]int
	limits *limits // nil: none
}

// Start starts a cluster. It ends with Stop.
func Start(ctx context.Context, options testbed.Options) (*Lab, error) {
	cluster, err := testbed.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(cluster.Config())
	if err != nil {
		cluster.Stop()
		return nil, fmt.Errorf("configure client: %w", err)
	}
	return &Lab{Cluster: cluster, client: client, filled: map[string]int{}}, nil
}

// Stop ends the cluster and removes its folder.
func (l *Lab) Stop() {
	l.client.CloseIdleConnections()
	l.Cluster.Stop()
	l.limits.remove()
}

// Do sends a request with a JSON body (nil for none; a merge patch where the method is PATCH) to the first server as
// administrator. Connections are kept, so that asking often costs the server little.
func (l *Lab) Do(ctx context.Context, method, path string, body []byte) (status int, answer []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, l.Cluster.Servers[0].URL()+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := l.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// Send is Do for a value; an answer other than 2xx is an error. It repeats what is answered with 429, as a server does
// for a CRD whose storage is not ready yet.
func (l *Lab) Send(ctx context.Context, method, path string, value any) (answer []byte, err error) {
	var body []byte
	if value != nil {
		if body, err = json.Marshal(value); err != nil {
			return nil, err
		}
	}
	err = Await(ctx, func() (bool, error) {
		status, received, err := l.Do(ctx, method, path, body)
		switch {
		case err != nil:
			return false, err
		case status == http.StatusTooManyRequests:
			return false, nil
		case status/100 != 2:
			return false, fmt.Errorf("%s %s: %d: %s", method, path, status, received)
		}
		answer = received
		return true, nil
	})
	return answer, err
}

// Await asks every 200 ms until the answer is yes, an error, or the context ends.
func Await(ctx context.Context, ask func() (bool, error)) error {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		if done, err := ask(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// Pause waits, or returns the context's error as soon as it ends.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
