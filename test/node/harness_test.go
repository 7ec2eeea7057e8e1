// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// image is the name of the image that the tests run.
const image = "kube-migrator:node-test"

// buildImage makes the image once for all tests, as users do, and returns the path of its tar.
var buildImage = sync.OnceValues(func() (string, error) {
	path, err := filepath.Abs("../../dist/kube-migrator-node-test.tar")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("make", "-C", "../..", "image", "IMAGE="+image, "IMAGE_TAR=dist/"+filepath.Base(path))
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make image: %w\n%s", err, out)
	}
	return path, nil
})

// harness is a cluster with a node that has the image.
type harness struct {
	*testing.T
	cluster    *testbed.Cluster
	node       *testbed.Node
	kubectl    string
	kubeconfig string
}

// newNode starts a cluster with a node, gives it the image, and ends both with the test.
func newNode(t *testing.T, options testbed.Options) *harness {
	t.Helper()
	tar, err := buildImage()
	if err != nil {
		t.Fatal(err)
	}
	options.Node = true
	begin := time.Now()
	h := &harness{T: t}
	t.Cleanup(func() { // after those of cluster and node
		if h.cluster != nil {
			expectNothingLeft(t, h.cluster.Dir())
		}
	})
	h.cluster = testbed.New(t, options)
	up := time.Now()
	h.node = testbed.NewNode(t, h.cluster)
	t.Logf("the cluster took %s, the node %s more", up.Sub(begin).Round(time.Millisecond),
		time.Since(up).Round(time.Millisecond))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(h.node.Logs())
		}
	})
	if err := h.node.ImportImage(t.Context(), tar); err != nil {
		t.Fatal(err)
	}
	if h.kubectl, err = testbed.Binary(t.Context(), testbed.Newest, "kubectl", os.Stderr); err != nil {
		t.Fatal(err)
	}
	if h.kubeconfig, err = h.cluster.Kubeconfig(); err != nil {
		t.Fatal(err)
	}
	return h
}

// run runs kubectl and returns its output; one that fails ends the test.
func (h *harness) run(args ...string) string {
	h.Helper()
	out, err := h.try(h.Context(), nil, args...)
	if err != nil {
		h.Fatal(err)
	}
	return out
}

// apply creates objects.
func (h *harness) apply(manifests string) {
	h.Helper()
	if _, err := h.try(h.Context(), []byte(manifests), "apply", "-f", "-"); err != nil {
		h.Fatal(err)
	}
}

func (h *harness) try(ctx context.Context, input []byte, args ...string) (string, error) {
	cmd := h.cluster.Command(ctx, h.kubectl, append([]string{"--kubeconfig", h.kubeconfig}, args...)...)
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// complete waits until a Job is complete and returns what its pod printed.
func (h *harness) complete(namespace, job string) string {
	h.Helper()
	if _, err := h.try(h.Context(), nil, "wait", "-n", namespace, "--for=condition=complete", "--timeout=60s",
		"job/"+job); err != nil {
		h.Errorf("%v\n%s", err, h.run("describe", "-n", namespace, "pods"))
		h.FailNow()
	}
	return h.run("logs", "-n", namespace, "job/"+job)
}

// in is the harness for a part of the test.
func (h *harness) in(t *testing.T) *harness {
	part := *h
	part.T = t
	return &part
}

// eventually waits a minute for something; what says what it is.
func (h *harness) eventually(what string, holds func() bool) {
	h.Helper()
	h.within(time.Minute, what, holds)
}

// within waits as long as it is told for something; what says what it is.
func (h *harness) within(patience time.Duration, what string, holds func() bool) {
	h.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			h.Fatalf("after %s it does not hold that %s", patience, what)
		}
		time.Sleep(200 * time.Millisecond)
	}
}
