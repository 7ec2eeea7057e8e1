// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/test/chaos/judge"
)

// productGroup is the group ID of controllers and workers, by which the packet filter knows their connections.
const productGroup = 4242

// line is the machine of one process of kube-migrator: its clock, and its way to the API servers, a proxy that injects
// faults, sends each request to one of the servers, and notes what a worker does.
type line struct {
	lab   *lab
	proxy *testbed.Proxy // nil where a load balancer is in its place
	clock *clock
	taken atomic.Bool
	// worker is the name of the worker that uses the line; empty: none, or a controller.
	worker atomic.Pointer[string]
}

// newLine returns a line that no process uses.
func (l *lab) newLine() *line {
	l.storm.Lock()
	defer l.storm.Unlock()
	for _, free := range l.lines {
		if free.taken.CompareAndSwap(false, true) {
			return free
		}
	}
	free := &line{lab: l}
	var err error
	if l.balancer == nil {
		if free.proxy, err = l.cluster.StartProxy(l.plan.Seed + uint64(len(l.lines))); err != nil {
			l.t.Errorf("start proxy: %v", err)
			return nil
		}
	}
	if free.clock, err = l.newClock(); err != nil {
		l.t.Errorf("make clock: %v", err)
		return nil
	}
	free.taken.Store(true)
	l.lines = append(l.lines, free)
	l.setRules()
	return free
}

// balance puts a load balancer in the place of the lines' proxies. It sends clients where they are sent otherwise.
func (l *lab) balance() {
	var err error
	if l.balancer, err = l.cluster.Balance(); err != nil {
		l.t.Fatal(err)
	}
	l.balancer.Sends = func(s *testbed.Server) bool {
		return slices.ContainsFunc(l.servers, func(one *server) bool {
			return one.Server == s && one.ready.Load() && !one.away.Load()
		})
	}
}

// kubeconfig returns the path of the kubeconfig of the process that uses the line.
func (n *line) kubeconfig() (string, error) {
	if n.proxy == nil {
		return n.lab.balancer.Kubeconfig()
	}
	return n.proxy.Kubeconfig()
}

// leave hands the line to the next actor that needs one.
func (n *line) leave() {
	n.worker.Store(nil)
	n.taken.Store(false)
}

// observe notes what a worker sends, in the order of its coming, and injects nothing.
func (n *line) observe(r *http.Request) bool {
	name := n.worker.Load()
	if name == nil || r.Method == http.MethodGet {
		return false
	}
	l := n.lab
	l.judging.Lock()
	defer l.judging.Unlock()
	if strings.HasSuffix(strings.TrimSuffix(r.URL.Path, "/"), "-roster") {
		process, ended := rosterIn(r)
		l.turns.Roster(*name, process, ended)
		return false
	}
	for _, k := range kinds {
		if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/"+k.Plural+"/") {
			if v := l.turns.Patch(*name, k.Plural); v != "" {
				l.violate(v)
			}
		}
	}
	return false
}

// rosterIn returns what a worker writes into its roster: its process, and for each resource the newest task that has
// ended.
func rosterIn(r *http.Request) (process string, ended map[string]int64) {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var sheet struct{ Data map[string]string }
	var tasks []struct {
		Number   int64
		Resource string
	}
	var state struct {
		Process string
		Ended   []int64
	}
	if err != nil || json.Unmarshal(body, &sheet) != nil || json.Unmarshal([]byte(sheet.Data["tasks"]), &tasks) != nil ||
		json.Unmarshal([]byte(sheet.Data["worker"]), &state) != nil {
		return "", nil
	}
	ended = map[string]int64{}
	for _, t := range tasks {
		if slices.Contains(state.Ended, t.Number) {
			ended[t.Resource] = max(ended[t.Resource], t.Number)
		}
	}
	return state.Process, ended
}

// route leads every line to a server that is ready, another one each second, and counts the faults that requests met.
func (l *lab) route(ctx context.Context) {
	for wait(ctx, time.Second) {
		for _, s := range l.servers {
			l.probe(ctx, s)
		}
		l.storm.Lock()
		lines := l.lines
		l.storm.Unlock()
		for _, n := range lines {
			if n.proxy == nil {
				continue
			}
			if s := l.any(); s != nil {
				n.proxy.Target(s.Server)
			}
			injected := 0
			for _, record := range n.proxy.Records() {
				injected += len(record.Faults)
			}
			n.proxy.Forget()
			l.counting.Lock()
			l.requests += injected
			l.counting.Unlock()
		}
	}
}

// probe asks a server whether it is ready, as a load balancer does.
func (l *lab) probe(ctx context.Context, s *server) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	status, _, err := s.Do(ctx, http.MethodGet, "/readyz", nil)
	s.away.Store(err != nil || status != http.StatusOK)
}

// controller is one of the controllers, and its replacements.
type controller struct {
	lab     *lab
	line    *line
	mu      sync.Mutex
	program *testbed.Program
}

// supervise starts a controller and, as a Deployment would, another whenever one ends.
func (c *controller) supervise(ctx context.Context) {
	l := c.lab
	kubeconfig, err := c.line.kubeconfig()
	if err != nil {
		l.t.Errorf("write kubeconfig: %v", err)
		return
	}
	arguments := []string{
		"controller", "--workers=jobs", "--worker-image=example.com/kube-migrator:chaos", settleTime,
		"--retry-after=2s", "--lease-duration=10s",
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--discovery-period=20s",
		"--include=" + widgets.Name(), "--include=" + gadgets.Name(), "--include=" + bindings.Name(),
	}
	if l.balancer != nil { // what a server writes that no one could ask is a risk that Verified names (ADR 0033)
		arguments = append(arguments, "--min-evidence=observed")
	}
	for ctx.Err() == nil {
		program, err := l.cluster.Launch(testbed.ProgramOptions{
			Name: "controller", Path: binary, Group: productGroup, Args: arguments,
			Env: []string{"KUBECONFIG=" + kubeconfig, c.line.clock.Env()},
		})
		if err != nil {
			l.t.Errorf("start controller: %v", err)
			return
		}
		c.mu.Lock()
		c.program = program
		c.mu.Unlock()
		select {
		case <-program.Done():
			wait(ctx, time.Second)
		case <-ctx.Done():
			program.Kill()
		}
	}
}

// present is the process that runs now; without a program: none did yet.
func (c *controller) present() present {
	c.mu.Lock()
	defer c.mu.Unlock()
	return present{c.program, c.line}
}

// present is a process of kube-migrator, and where it runs.
type present struct {
	program *testbed.Program
	line    *line
}

// writer is a client that creates, changes and deletes objects through one server all the time.
type writer struct {
	lab     *lab
	server  *server
	number  int
	created map[string][]string // names of the objects that it has created, by resource
}

// most is how many objects of a resource a writer has at one time.
const most = 40

func (w *writer) write(ctx context.Context) {
	w.created = map[string][]string{}
	for wait(ctx, time.Duration(50+rand.IntN(150))*time.Millisecond) {
		if !w.server.ready.Load() {
			continue
		}
		k := kinds[rand.IntN(len(kinds))]
		if k == widgets {
			w.lab.crd.RLock()
		}
		w.once(ctx, k)
		if k == widgets {
			w.lab.crd.RUnlock()
		}
	}
}

// once writes once. What comes of it does not matter: the judge knows what may come of it.
func (w *writer) once(ctx context.Context, k testbed.Kind) {
	w.number++
	names := w.created[k.Plural]
	stamp := fmt.Sprintf("%d-%d", w.server.index, w.number)
	switch roll := rand.IntN(10); {
	case len(names) < 3 || roll < 3 && len(names) < most:
		name := "written-" + stamp
		w.created[k.Plural] = append(names, name)
		w.lab.intents.create(keyOf(k, "default", name))
		w.send(ctx, http.MethodPost, collection(k, "default"), object(k, name, stamp))
	case roll < 8:
		at := rand.IntN(len(names))
		status := w.send(ctx, http.MethodPatch, collection(k, "default")+"/"+names[at], map[string]any{
			"metadata": map[string]any{"annotations": map[string]string{judge.Stamp: stamp}},
		})
		if status == http.StatusNotFound { // it was never created, or went with what was restored or deleted
			w.created[k.Plural] = append(names[:at:at], names[at+1:]...)
		}
	default:
		at := rand.IntN(len(names))
		w.lab.intents.remove(keyOf(k, "default", names[at]))
		w.send(ctx, http.MethodDelete, collection(k, "default")+"/"+names[at], nil)
		w.created[k.Plural] = append(names[:at:at], names[at+1:]...)
	}
}

// send returns the status of the answer; 0 where none came.
func (w *writer) send(ctx context.Context, method, path string, body any) int {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	status, _, err := w.lab.askServer(ctx, w.server, method, path, body)
	if err != nil {
		return 0
	}
	return status
}

// object is one that a writer creates.
func object(k testbed.Kind, name, stamp string) map[string]any {
	o := map[string]any{
		"apiVersion": k.Group + "/" + k.Version, "kind": k.Kind,
		"metadata": map[string]any{"name": name, "annotations": map[string]string{judge.Stamp: stamp}},
	}
	switch k {
	case widgets, gadgets:
		o["spec"] = map[string]any{"color": "red", "size": 1}
	case bindings:
		o["spec"] = map[string]any{"policyName": "none.example.com"}
	case secrets:
		o["apiVersion"], o["stringData"] = k.Version, map[string]string{"password": "correct horse battery staple"}
	}
	return o
}

func collection(k testbed.Kind, namespace string) string {
	root := "/apis/" + k.Group + "/" + k.Version
	if k.Group == "" {
		root = "/api/" + k.Version
	}
	if k != bindings {
		root += "/namespaces/" + namespace
	}
	return root + "/" + k.Plural
}

func keyOf(k testbed.Kind, namespace, name string) string {
	if k == bindings {
		return k.Prefix + name
	}
	return k.Prefix + namespace + "/" + name
}

// convert is the conversion webhook of the widgets, and at times of the gadgets: it changes the version alone.
func (l *lab) convert(w http.ResponseWriter, r *http.Request) {
	if l.hook.Load() {
		http.Error(w, "the webhook is down", http.StatusInternalServerError)
		return
	}
	var review struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Request    struct {
			UID               string           `json:"uid"`
			DesiredAPIVersion string           `json:"desiredAPIVersion"`
			Objects           []map[string]any `json:"objects"`
		} `json:"request"`
	}
	raw, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(raw, &review)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, o := range review.Request.Objects {
		o["apiVersion"] = review.Request.DesiredAPIVersion
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{ //nolint:errcheck // the API server is gone if this fails
		"apiVersion": review.APIVersion, "kind": review.Kind, "response": map[string]any{
			"uid": review.Request.UID, "convertedObjects": review.Request.Objects,
			"result": map[string]any{"status": "Success"},
		},
	})
}
