// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
)

// node is one of several API servers. It counts the patches that it is sent.
type node struct {
	patches, others atomic.Int64
	// instead answers a patch instead of the cluster, if it returns true.
	instead func(patch int64, w http.ResponseWriter) bool
	cluster http.Handler
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPatch {
		n.others.Add(1)
	} else if patch := n.patches.Add(1); n.instead != nil && n.instead(patch, w) {
		return
	}
	n.cluster.ServeHTTP(w, r)
}

// spreadOver returns a sweep of a cluster over nodes, each at an address of its own.
func spreadOver(t *testing.T, cluster *scripted, o Options, nodes ...*node) *Sweep {
	t.Helper()
	epoch := lasting
	urls := map[string]string{}
	for i, n := range nodes {
		if n.cluster == nil {
			n.cluster = cluster
		}
		server := httptest.NewServer(n)
		t.Cleanup(server.Close)
		address := fmt.Sprintf("192.0.2.%d:6443", 10+i)
		urls[address] = server.URL
		epoch.Addresses = append(epoch.Addresses, address)
	}
	sweep := sweepOf(t, cluster, func() (Epoch, error) { return epoch, nil }, o)
	sweep.connect = func(address string) (rest.Interface, error) {
		return apiserver.NewClient(&rest.Config{Host: urls[address]})
	}
	return sweep
}

// rewritesAll runs a sweep that must rewrite every object.
func rewritesAll(t *testing.T, sweep *Sweep, objects int) Result {
	t.Helper()
	result, err := sweep.Run(t.Context())
	if err != nil || !result.Proven || result.Counts.Rewritten != int64(objects) {
		t.Fatalf("%+v, %v, want %d objects rewritten", result, err, objects)
	}
	return result
}

func TestPatchesAreSpreadAndEverythingElseGoesToOneAddress(t *testing.T) {
	cluster := &scripted{n: 600, resourceVersion: "1000"}
	nodes := []*node{{}, {}, {}}
	sweep := spreadOver(t, cluster, Options{}, nodes...)
	result := rewritesAll(t, sweep, 600)
	if result.SpreadOver != 3 || sweep.Progress().Pace.Servers != 3 {
		t.Errorf("spread over %d servers, %d in progress, want 3", result.SpreadOver, sweep.Progress().Pace.Servers)
	}
	for i, n := range nodes {
		if p := n.patches.Load(); p < 100 || n.others.Load() != 0 {
			t.Errorf("server %d got %d patches and %d other requests, want about 200 and none", i, p, n.others.Load())
		}
	}
}

func TestNothingIsSpreadWhere(t *testing.T) {
	for name, change := range map[string]func(s *Sweep){
		"the user asks for that":           func(s *Sweep) { s.options.SingleAddress = true },
		"another API server is behind all": func(s *Sweep) { s.wire.target.Origin = Aggregated },
		"a server has no client": func(s *Sweep) {
			s.connect = func(string) (rest.Interface, error) { return nil, errors.New("no authority") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &scripted{n: 20, resourceVersion: "1000"}
			nodes := []*node{{}, {}}
			sweep := spreadOver(t, cluster, Options{}, nodes...)
			change(sweep)
			result := rewritesAll(t, sweep, 20)
			if n := nodes[0].patches.Load() + nodes[1].patches.Load(); n != 0 || result.SpreadOver != 0 {
				t.Errorf("%d patches were sent to servers' own addresses, spread over %d", n, result.SpreadOver)
			}
		})
	}
}

func TestASlowServerGetsWhatItAnswersAndTheOthersTheRest(t *testing.T) {
	cluster := &scripted{n: 600, resourceVersion: "1000"}
	slow := &node{instead: func(int64, http.ResponseWriter) bool {
		time.Sleep(100 * time.Millisecond)
		return false
	}}
	quick := &node{}
	rewritesAll(t, spreadOver(t, cluster, Options{PageSize: 600}, slow, quick), 600)
	if s, q := slow.patches.Load(), quick.patches.Load(); s == 0 || s > q/3 {
		t.Errorf("the slow server got %d patches and the quick one %d", s, q)
	}
}

func TestTheShareOfAServerThatDiesGoesToTheOthers(t *testing.T) {
	for name, dies := range map[string]func(w http.ResponseWriter){
		"without an answer": func(w http.ResponseWriter) {
			panic(http.ErrAbortHandler)
		},
		"with an answer that asks for less": func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "1")
			refuse(w, http.StatusServiceUnavailable, "apiserver is shutting down")
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &scripted{n: 400, resourceVersion: "1000"}
			dying, other := &node{}, &node{}
			dying.instead = func(patch int64, w http.ResponseWriter) bool {
				if patch > 20 {
					dies(w)
				}
				return patch > 20
			}
			result := rewritesAll(t, spreadOver(t, cluster, Options{}, dying, other), 400)
			if d, o := dying.patches.Load(), other.patches.Load(); result.Counts.Failed != 0 || o < 300 || d > 50 {
				t.Errorf("%+v, and the dying server got %d patches, the other one %d", result.Counts, d, o)
			}
		})
	}
}

// A server may not know a CRD, a namespace or a permission yet, or refuse credentials that are meant for a proxy.
func TestARefusalCountsOnlyIfTheAddressInTheConfigRefusesToo(t *testing.T) {
	for name, code := range map[string]int{
		"of a path that is not served": http.StatusNotFound, "of the permission": http.StatusForbidden,
		"of the credentials": http.StatusUnauthorized, "by validation": http.StatusUnprocessableEntity,
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &scripted{n: 60, resourceVersion: "1000"}
			behind := &node{instead: func(_ int64, w http.ResponseWriter) bool { return refuse(w, code, "no") }}
			rewritesAll(t, spreadOver(t, cluster, Options{}, behind, &node{}), 60)
		})
	}
	t.Run("of a namespace that neither server knows yet", func(t *testing.T) {
		unaware := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			code, body := notFound(path.Base(r.URL.Path))
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		})
		rewritesAll(t, spreadOver(t, &scripted{n: 60, resourceVersion: "1000"}, Options{}, &node{cluster: unaware},
			&node{cluster: unaware}), 60)
	})
	t.Run("of both: the object is named", func(t *testing.T) {
		cluster := &scripted{n: 60, resourceVersion: "1000"}
		cluster.patch = func(name string, w http.ResponseWriter) bool {
			return name == "o7" && refuse(w, http.StatusUnprocessableEntity, "no")
		}
		result, err := spreadOver(t, cluster, Options{}, &node{}, &node{}).Run(t.Context())
		if !errors.Is(err, ErrObjectsFailed) || len(result.Failures) != 1 || result.Failures[0].Name != "o7" {
			t.Errorf("%+v, %v, want o7 failed", result, err)
		}
	})
}

func TestAServerWithAnEtcdOfItsOwnIsFoundOut(t *testing.T) {
	for name, revision := range map[string]string{"that is ahead": "5000", "that is behind": "1"} {
		t.Run(name, func(t *testing.T) {
			cluster := &scripted{n: 60, resourceVersion: "1000"}
			alone := &scripted{n: 60, resourceVersion: revision}
			alone.patch = func(name string, w http.ResponseWriter) bool {
				fmt.Fprint(w, object1(name, revision))
				return true
			}
			alone.get = alone.patch
			result, err := spreadOver(t, cluster, Options{}, &node{}, &node{cluster: alone}).Run(t.Context())
			if !errors.Is(err, ErrUntrustedAnswer) || !strings.Contains(err.Error(), "do not share one etcd") {
				t.Errorf("%+v, %v, want the server found out", result, err)
			}
		})
	}
}

// The quickest answers are errors: a server that cannot reach its webhooks or its KMS plugin answers at once.
func TestAServerThatFailsAtOnceDoesNotAttractThePatches(t *testing.T) {
	for name, code := range map[string]int{
		"with an error": http.StatusInternalServerError, "with a refusal": http.StatusForbidden,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := &scripted{n: 300, resourceVersion: "1000"}
			broken := &node{instead: func(_ int64, w http.ResponseWriter) bool { return refuse(w, code, "no") }}
			sound := &node{instead: func(int64, http.ResponseWriter) bool {
				time.Sleep(3 * time.Millisecond)
				return false
			}}
			rewritesAll(t, spreadOver(t, cluster, Options{MaxInFlight: 2}, broken, sound), 300)
			if b, s := broken.patches.Load(), sound.patches.Load(); b > 30 || s < 250 {
				t.Errorf("the broken server got %d patches, the other one %d", b, s)
			}
		})
	}
}

// Another process may have the address of a server in the next pass: whether it shares the etcd has to be shown again.
func TestTheProofOfASharedEtcdEndsWithThePass(t *testing.T) {
	s := spreadOver(t, &scripted{n: 1, resourceVersion: "1000"}, Options{}, &node{}, &node{})
	epoch, err := s.agreement.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.spread(epoch)
	s.servers[0].proven.Store(true)
	s.spread(epoch)
	if s.servers[0].proven.Load() {
		t.Error("a server counts as one that shares the etcd because it did in the pass before")
	}
}
