// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func TestWhatCannotBeDoneIsRefusedInTwoLinesAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{Users: []testbed.User{{Name: "stranger"}, {Name: "reader"}}})
	installStale(t, cluster, testbed.Bulk{Count: 20}, testbed.Widgets{})
	allowReading(t, cluster, "reader")
	installNameless(t, cluster)
	before := revisions(t, cluster, testbed.WidgetsPrefix)
	admin, proxy := throughProxy(t, cluster)
	silent := listener(t)
	closed := listener(t)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	noSnapshot := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(noSnapshot, []byte(strings.Repeat("This is no snapshot.\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	kubeconfig := func(address net.Addr) string {
		return "--kubeconfig=" + kubeconfigFor(t, cluster, "https://"+address.String(), testbed.Admin)
	}
	as := func(user string) string { return "--kubeconfig=" + kubeconfigFor(t, cluster, proxy.URL(), user) }

	for name, test := range map[string]struct {
		args []string
		what []string // parts of the first line
		try  string   // part of the second
	}{
		"a misspelt resource": {
			args: []string{"migrate", "widgts"},
			what: []string{`"widgts"`}, try: "kube-migrator migrate widgets.demo.example.com",
		},
		"a resource that is like no other": {
			args: []string{"migrate", "xylophones.music.example.com"},
			what: []string{`"xylophones.music.example.com"`}, try: "kube-migrator plan",
		},
		"a resource of a version that is not served": {
			args: []string{"migrate", "widgets.v9.demo.example.com"},
			what: []string{`"widgets.v9.demo.example.com"`}, try: "widgets.demo.example.com",
		},
		"a pattern that matches nothing": {
			args: []string{"migrate", "--include=widgts*"},
			what: []string{`"widgts*"`}, try: "kube-migrator",
		},
		"a user without any right": {
			args: []string{"migrate", "widgets", as("stranger")},
			what: []string{"stranger", "cannot get", "namespaces"}, try: "kubectl auth can-i",
		},
		"a user who may read only": {
			args: []string{"migrate", "widgets", as("reader")},
			what: []string{"cannot patch widgets.demo.example.com at the cluster scope"}, try: "kubectl auth can-i",
		},
		"a kubeconfig that does not exist": {
			args: []string{"migrate", "widgets", "--kubeconfig=/nowhere/kubeconfig"},
			what: []string{"/nowhere/kubeconfig", "does not exist"}, try: "kubectl",
		},
		"an address where no one listens": {
			args: []string{"migrate", "widgets", kubeconfig(closed.Addr())},
			what: []string{closed.Addr().String(), "connection refused"}, try: "kubectl version",
		},
		"an API server that does not answer": {
			args: []string{"migrate", "widgets", kubeconfig(silent.Addr())},
			what: []string{silent.Addr().String()}, try: "kubectl version",
		},
		"a negative rate": {
			args: []string{"migrate", "widgets", "--max-rate=-1"},
			what: []string{"--max-rate", "-1"}, try: "kube-migrator migrate --help",
		},
		"a flag that does not exist": {
			args: []string{"migrate", "widgets", "--faster"},
			what: []string{"--faster"}, try: "kube-migrator migrate --help",
		},
		"a command that does not exist": {
			args: []string{"migrat", "widgets"},
			what: []string{"migrat"}, try: "kube-migrator",
		},
		"no resource": {
			args: []string{"migrate"},
			what: []string{"RESOURCE"}, try: "kube-migrator migrate --help",
		},
		"a resource that is not stored": {
			args: []string{"migrate", "componentstatuses"},
			what: []string{"componentstatuses", "cannot be migrated", "nothing is stored"}, try: "kube-migrator",
		},
		"a resource that only answers": {
			args: []string{"migrate", "selfsubjectaccessreviews"},
			what: []string{"selfsubjectaccessreviews.authorization.k8s.io", "cannot be migrated"}, try: "kube-migrator",
		},
		"a CRD that is not established": {
			args: []string{"migrate", "gadgets.demo.example.com"},
			what: []string{"gadgets.demo.example.com", "not established"}, try: "kube-migrator",
		},
		"an etcd that does not answer": {
			args: []string{"audit", "--etcd-endpoints=http://" + silent.Addr().String()},
			what: []string{silent.Addr().String()}, try: "etcdctl endpoint health --endpoints=",
		},
		"an etcd that is not there": {
			args: []string{"audit", "--etcd-endpoints=http://" + closed.Addr().String()},
			what: []string{closed.Addr().String()}, try: "etcdctl endpoint health --endpoints=",
		},
		"a file that is no snapshot": {
			args: []string{"audit", "--snapshot=" + noSnapshot},
			what: []string{noSnapshot}, try: "etcdctl snapshot save",
		},
		"a snapshot that does not exist": {
			args: []string{"audit", "--snapshot=/nowhere/snapshot.db"},
			what: []string{"/nowhere/snapshot.db"}, try: "kube-migrator audit --help",
		},
	} {
		t.Run(name, func(t *testing.T) {
			user := *admin
			user.t = t
			proxy.Forget()
			began := time.Now()

			what, try := user.refused(test.args...)

			// those that do not answer are given 5 s, and this machine has other tests to run
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %v to refuse", took)
			}
			for _, part := range test.what {
				if !strings.Contains(what, part) {
					t.Errorf("the error lacks %q: %s", part, what)
				}
			}
			if !strings.Contains(try, test.try) {
				t.Errorf("it says to try %q, want something with %q", try, test.try)
			}
			wantUnwritten(t, proxy)
		})
	}
	t.Run("kubectl runs it as a plugin, which completes names and writes nothing", func(t *testing.T) {
		wantPlugin(t, newCLI(t, cluster))
	})
	wantUnmoved(t, cluster, testbed.WidgetsPrefix, before)
	wantClaimed(t, cluster, "v1", "v2")
}

// listener takes connections and never answers on them.
func listener(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func kubeconfigFor(t *testing.T, cluster *testbed.Cluster, url, user string) string {
	t.Helper()
	path, err := cluster.KubeconfigFor(url, user)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// installNameless creates a CRD whose kind is taken already, so that it is never established.
func installNameless(t *testing.T, cluster *testbed.Cluster) {
	t.Helper()
	crd := gadgetsOf(t, cluster, "gadgets").crd("v1*")
	names := crd["spec"].(map[string]any)["names"].(map[string]any)
	names["kind"], names["listKind"] = "Widget", "WidgetList"
	do(t, cluster, http.MethodPost, strings.TrimSuffix(crdsPath, "/"), crd)
}
