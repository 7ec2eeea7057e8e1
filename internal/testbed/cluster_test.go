// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

func list(t *testing.T, config *rest.Config, resource schema.GroupVersionResource) error {
	t.Helper()
	client, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Resource(resource).List(t.Context(), metav1.ListOptions{Limit: 1})
	return err
}

func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	c, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.Stop()
	c.Stop()
	if c.Etcd.Running() || c.Servers[0].Running() {
		t.Error("a process runs after Stop")
	}
	if _, err := os.Stat(c.Dir()); !os.IsNotExist(err) {
		t.Errorf("the folder is there after Stop: %v", err)
	}
}

func TestMergedFlags(t *testing.T) {
	for name, test := range map[string]struct{ lists, want [][]string }{
		"a later list replaces by name": {[][]string{{"--a=1", "--b=2"}, {"--a=3"}},
			[][]string{{"--b=2", "--a=3"}}},
		"one list may repeat a flag": {[][]string{{"--a=1"}, {"--a=2", "--a=3"}},
			[][]string{{"--a=2", "--a=3"}}},
		"a hyphen takes a flag away":         {[][]string{{"--a=1", "--b"}, {"--b-"}}, [][]string{{"--a=1"}}},
		"a longer name is another flag":      {[][]string{{"--ab=1"}, {"--a=2"}}, [][]string{{"--ab=1", "--a=2"}}},
		"a flag without a value is replaced": {[][]string{{"--a"}, {"--a=false"}}, [][]string{{"--a=false"}}},
	} {
		if diff := cmp.Diff(test.want[0], mergeFlags(test.lists...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
