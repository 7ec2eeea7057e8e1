// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// Tests that share a cluster ask for its kubeconfig at the same time, while the commands of others read it.
func TestAKubeconfigIsNeverSeenHalfWritten(t *testing.T) {
	t.Parallel()
	c := &Cluster{dir: t.TempDir(), tokens: map[string]string{Admin: "token"}, ca: &authority{pem: []byte("certificate")}}
	const url = "https://127.0.0.1:6443"
	path, err := c.KubeconfigFor(url, Admin)
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for range 25 {
				if _, err := c.KubeconfigFor(url, Admin); err != nil {
					t.Error(err)
				}
			}
		})
	}
	written := make(chan struct{})
	go func() {
		writers.Wait()
		close(written)
	}()
	for {
		select {
		case <-written:
			return
		default:
		}
		config, err := clientcmd.LoadFromFile(path)
		if err != nil || config.Clusters["testbed"] == nil || config.Clusters["testbed"].Server != url {
			t.Fatalf("a reader sees %+v, error %v", config, err)
		}
	}
}
