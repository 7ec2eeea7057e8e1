// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/config"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

const (
	base       = "/apis/migration.k8s.io/v1alpha1/"
	migrations = base + "storageversionmigrations"
	states     = base + "storagestates"

	storageVersions = base + "storageversions"
)

// cluster is a real API server that serves our CRDs.
type cluster struct {
	*testbed.Cluster
	t          *testing.T
	kubeconfig string
	binary     string
}

func newCluster(t *testing.T, options testbed.Options) *cluster {
	t.Helper()
	c := &cluster{Cluster: testbed.New(t, options), t: t}
	if err := c.InstallCRDs(t.Context(), config.CRDs); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.kubeconfig, err = c.Kubeconfig(); err != nil {
		t.Fatal(err)
	}
	if c.binary, err = testbed.Binary(t.Context(), testbed.Newest, "kubectl", os.Stderr); err != nil {
		t.Fatal(err)
	}
	return c
}

// do sends one request; the answer is what the API server says, as text.
func (c *cluster) do(method, path, body string) (status int, answer string) {
	c.t.Helper()
	status, raw, err := c.Servers[0].Do(c.t.Context(), method, path, []byte(body))
	if err != nil {
		c.t.Fatal(err)
	}
	return status, string(raw)
}

// must sends one request that has to be taken.
func (c *cluster) must(method, path, body string) string {
	c.t.Helper()
	status, answer := c.do(method, path, body)
	if status/100 != 2 {
		c.t.Fatalf("%s %s: %d: %s", method, path, status, answer)
	}
	return answer
}

// write creates an object, writes its status, and reads it into other types. meta is the object's own.
func (c *cluster) write(path, name string, object any, meta *metav1.ObjectMeta, into ...any) {
	c.t.Helper()
	var created struct{ Metadata metav1.ObjectMeta }
	if err := json.Unmarshal([]byte(c.must(http.MethodPost, path, c.json(object))), &created); err != nil {
		c.t.Fatal(err)
	}
	meta.ResourceVersion = created.Metadata.ResourceVersion
	c.must(http.MethodPut, path+"/"+name+"/status", c.json(object))
	read := c.must(http.MethodGet, path+"/"+name, "")
	for _, one := range into {
		if err := json.Unmarshal([]byte(read), one); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *cluster) json(object any) string {
	c.t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(raw)
}

// kubectl runs the real kubectl.
func (c *cluster) kubectl(ctx context.Context, args ...string) (output string, err error) {
	c.t.Helper()
	out, err := c.Command(ctx, c.binary, append([]string{"--kubeconfig", c.kubeconfig}, args...)...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}
