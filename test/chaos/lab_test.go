// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/config"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/test/chaos/judge"
	"github.com/kube-migrator/kube-migrator/test/chaos/plan"
)

const (
	servers      = 2
	controllers  = 2
	installation = "kube-migrator"
	// static is how many widgets no writer touches.
	static = 150
)

// The lab migrates a custom resource, which is stored as its CustomResourceDefinition says, and a built-in one, which
// is stored as the release of the API server says.
var (
	widgets = testbed.Kind{
		Group: testbed.WidgetGroup, Version: "v1", Kind: "Widget", Plural: "widgets", Prefix: testbed.WidgetsPrefix,
	}
	bindings = testbed.PolicyBindings()
	// secrets are encrypted with one key after the other. The lab migrates them only after a change of the key.
	secrets = testbed.Kind{Version: "v1", Kind: "Secret", Plural: "secrets", Prefix: "/registry/secrets/"}

	kinds   = []testbed.Kind{widgets, gadgets, bindings, secrets}
	settled = []testbed.Kind{widgets, gadgets, bindings} // at the end, all of their objects have to be in one version
)

// answerTimeout bounds a request of the lab's own to one API server, which may be suspended.
const answerTimeout = 3 * time.Second

const shutdownDelay = "--shutdown-delay-duration=3s"

// editions are those in which API servers run, one after the other; Stores is about bindings.
var editions = []testbed.Edition{
	testbed.AfterUpgrade(), testbed.BeforeUpgrade(),
	testbed.AfterUpgrade(shutdownDelay), testbed.BeforeUpgrade(shutdownDelay),
}

// No request lasts longer than a quarter of a minute, even at a server that drains. The flags that depend on it follow:
// the settle time is twice the request timeout, and the shutdown delay is shorter than the settle time.
const (
	requestTimeout = "--request-timeout=5s"
	settleTime     = "--settle-time=10s"
	settling       = 10 * time.Second
)

// encryption returns a configuration that encrypts secrets with one of the keys. It decrypts with all earlier ones,
// which a backup may need, and with the next one.
func encryption(key int) string {
	names := []string{judge.KeyName(key), judge.KeyName(key + 1)}
	for older := key - 1; older > 0; older-- {
		names = append(names, judge.KeyName(older))
	}
	return testbed.EncryptionConfig([]string{"secrets"}, names...)
}

// etcdAddress is the address at which a server reaches etcd. Each server has another, so that a packet filter can cut
// off one server.
func etcdAddress(i int) string { return fmt.Sprintf("127.0.0.%d", 11+i) }

// optionsOf returns the options of the server with an index in an edition.
func optionsOf(e testbed.Edition, i int) testbed.ServerOptions {
	return e.Options("--etcd-servers=http://" + etcdAddress(i) + ":2379")
}

// lab is a cluster, the processes that run in it, and the judges.
type lab struct {
	t       *testing.T
	cluster *testbed.Cluster
	plan    plan.Plan
	servers []*server
	// A fault of one API server or of etcd read-locks whole; a restore of everything locks it.
	whole sync.RWMutex
	// A fault of etcd locks etcd.
	etcd sync.Mutex
	// Writers of widgets read-lock crd. It is locked while the CustomResourceDefinition does not exist.
	crd     sync.RWMutex
	hook    atomic.Bool // the conversion webhook fails
	hookURL string

	controllers []*controller
	keeper      *keeper
	lines       []*line
	balancer    *testbed.LoadBalancer // the one address of all API servers; nil where each has its own
	storm       sync.Mutex
	raging      map[string][]testbed.Rule // rules of the faults that apply to requests now, by fault

	intents   intents
	namespace int // the number of the namespace that is deleted next
	populated int
	key       int // the number of the encryption key that is written with
	log       *os.File
	began     time.Time

	judging sync.Mutex
	judge   *judge.Judge
	turns   judge.Turns
	clocks  judge.Clocks
	// made is how many clocks there are, clockDir the folder of their files.
	made      int
	clockDir  string
	processes []*process
	amnesty   time.Time       // nothing that was recorded before is judged
	reshaped  time.Time       // when the CustomResourceDefinition of the gadgets was changed last
	running   context.Context // until the run or a violation ends it
	found     []string
	again     *watching

	counting sync.Mutex
	counts   map[string]int
	waves    int
	requests int // requests of controllers and workers that met a fault

	violated context.Context
	fail     context.CancelFunc
}

// server is an API server.
type server struct {
	*testbed.Server
	index   int
	edition int
	holder  string     // the identity of the present process
	clock   *clock     // nil where no fault moves it
	mu      sync.Mutex // held by the one who does something to it
	// ready: clients may be sent there. away: a load balancer has noticed that it does not answer.
	ready, away atomic.Bool
}

// process is one process of an API server.
type process struct {
	server *server
	hash   string
	ended  time.Time // zero while it processes
}

func newLab(t *testing.T, p plan.Plan, balanced bool) *lab {
	t.Helper()
	l := &lab{t: t, plan: p, key: 1, counts: map[string]int{}, raging: map[string][]testbed.Rule{}, began: time.Now(),
		clockDir: t.TempDir()}
	l.violated, l.fail = context.WithCancel(context.Background())
	t.Cleanup(l.fail)
	options := testbed.Options{
		Isolated: true, Flags: []string{requestTimeout},
		EtcdFlags:        []string{"--listen-client-urls=http://0.0.0.0:2379"},
		EncryptionConfig: encryption(1),
	}
	if balanced {
		options.Flags = append(options.Flags, "--endpoint-reconciler-type=none")
	}
	var serverClocks [servers]*clock
	for i := range servers {
		o := optionsOf(editions[0], i)
		if p.Permitted(plan.MoveServerClock) {
			var err error
			if serverClocks[i], err = l.newClock(); err != nil {
				t.Fatal(err)
			}
			o.Clock = &serverClocks[i].Clock
		}
		options.Servers = append(options.Servers, o)
	}
	l.cluster = testbed.New(t, options)
	for i, s := range l.cluster.Servers {
		server := &server{Server: s, index: i, clock: serverClocks[i]}
		server.ready.Store(true)
		l.servers = append(l.servers, server)
		l.processes = append(l.processes, &process{server: server, hash: bindings.Hash(editions[0].Stores)})
	}
	var err error
	if balanced {
		l.balance()
	}
	if l.log, err = os.Create(filepath.Join(l.cluster.Dir(), "faults.log")); err != nil {
		t.Fatal(err)
	}
	l.intents.init()
	l.prepare()
	return l
}

// prepare makes what is in the cluster before anything runs.
func (l *lab) prepare() {
	l.t.Helper()
	ctx := l.t.Context()
	web, err := l.cluster.Serve(http.HandlerFunc(l.convert))
	if err == nil {
		l.hookURL = web.URL
		err = l.cluster.InstallCRDs(ctx, config.CRDs)
	}
	if err == nil {
		err = l.cluster.InstallWidgets(ctx, testbed.Widgets{ConversionURL: l.hookURL})
	}
	if err == nil {
		err = l.cluster.BulkCreate(ctx, testbed.Bulk{Count: static, Bytes: 800})
	}
	if err == nil {
		err = l.installGadgets(ctx)
	}
	if err == nil {
		err = l.filter()
	}
	if err != nil {
		l.t.Fatal(err)
	}
	for _, name := range []string{installation, doomed(0)} {
		l.insist(ctx, http.MethodPost, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": name}})
	}
	// Workers are administrators here, and the controller asks what their account may do.
	l.insist(ctx, http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", map[string]any{
		"metadata": map[string]any{"name": "worker"},
		"roleRef": map[string]string{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
			"name": "cluster-admin"},
		"subjects": []map[string]string{{"kind": "ServiceAccount", "namespace": installation,
			"name": "kube-migrator-worker"}},
	})
}

// start starts everything; it ends with the context.
func (l *lab) start(ctx context.Context, background *sync.WaitGroup) {
	// A violation ends also what waits for a state to converge from.
	var end context.CancelFunc
	l.running, end = context.WithCancel(ctx)
	context.AfterFunc(l.violated, end)
	for _, s := range l.servers {
		l.await(ctx, s)
	}
	l.populate(ctx, doomed(0), 12)
	l.populateGadgets(ctx)
	l.judge = judge.New(l, kinds...)
	l.again = l.watch(ctx)
	background.Go(func() { <-ctx.Done(); l.again.stop() })
	for range controllers {
		c := &controller{lab: l, line: l.newLine()}
		l.controllers = append(l.controllers, c)
		background.Go(func() { c.supervise(ctx) })
	}
	l.keeper = &keeper{lab: l, workers: map[string]*worker{}}
	background.Go(func() { l.keeper.keep(ctx) })
	background.Go(func() { l.route(ctx) })
	for _, s := range l.servers {
		background.Go(func() { (&writer{lab: l, server: s}).write(ctx) })
	}
}

// wait waits, and reports whether the context lasts.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// note tells people, and the log, what is done.
func (l *lab) note(format string, arguments ...any) {
	line := fmt.Sprintf("%s %7.1fs %s", time.Now().Format("15:04:05.000"), time.Since(l.began).Seconds(),
		fmt.Sprintf(format, arguments...))
	fmt.Fprintln(l.log, line)
	fmt.Println(line)
}

// count counts a fault.
func (l *lab) count(k plan.Kind) {
	l.counting.Lock()
	defer l.counting.Unlock()
	l.counts[string(k)]++
}

// violate notes violations, of which the first one ends the run.
func (l *lab) violate(violations ...string) {
	for _, v := range violations {
		l.note("VIOLATION %s", v)
		if len(l.found) < 10 {
			l.found = append(l.found, time.Now().Format("15:04:05.000 ")+v)
		}
		l.fail()
	}
}

func (l *lab) violations() []string {
	l.judging.Lock()
	defer l.judging.Unlock()
	return slices.Clone(l.found)
}

// summarize tells what was done and seen.
func (l *lab) summarize() {
	l.judging.Lock()
	defer l.judging.Unlock()
	l.counting.Lock()
	defer l.counting.Unlock()
	total := 0
	for _, n := range l.counts {
		total += n
	}
	fmt.Printf("chaos: %d faults in %d waves and %v:\n", total, l.waves, time.Since(l.began).Round(time.Second))
	for _, kind := range slices.Sorted(maps.Keys(l.counts)) {
		fmt.Printf("  %6d %s\n", l.counts[kind], kind)
	}
	if l.judge != nil {
		c := l.judge.Counts
		fmt.Printf("chaos: %d objects at the end, %d changes of objects, of which %d re-encoded only\n",
			l.judge.Objects(), c.Changes, c.Rewritten)
		fmt.Printf("chaos: %d runs failed because of objects, and named %d that would lose fields; %d lost fields while a "+
			"new CRD was settling\n", c.Failures, c.Spared, c.Raced)
		fmt.Printf("chaos: %d looks (%d without Unknown, %d migrated, %d with two versions in etcd), %d trims, %d "+
			"successes, %d patches of workers in %d parts\n",
			c.Looks, c.Telling, c.Migrated, c.Mixed, c.Trims, c.Successes, l.turns.Patches, l.turns.Parts)
	}
	fmt.Printf("chaos: %d requests of controllers and workers met a fault\n", l.requests)
	fmt.Printf("chaos: %d violations\n", len(l.found))
}

// any returns a server that clients are sent to; nil if there is none.
func (l *lab) any() *server {
	var some []*server
	for _, s := range l.servers {
		if s.ready.Load() && !s.away.Load() {
			some = append(some, s)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some[rand.IntN(len(some))]
}

// ask sends one request to any server.
func (l *lab) ask(ctx context.Context, method, path string, body any) (status int, answer []byte, err error) {
	s := l.any()
	if s == nil {
		return 0, nil, fmt.Errorf("%s %s: no API server is ready", method, path)
	}
	return l.askServer(ctx, s, method, path, body)
}

func (l *lab) askServer(ctx context.Context, s *server, method, path string,
	body any) (status int, answer []byte, err error) {
	var raw []byte
	if body != nil {
		if raw, err = json.Marshal(body); err != nil {
			return 0, nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return s.Do(ctx, method, path, raw)
}

// insist sends a request until it has had its effect, or the context ends.
func (l *lab) insist(ctx context.Context, method, path string, body any) {
	for {
		status, answer, err := l.ask(ctx, method, path, body)
		switch {
		case err == nil && status/100 == 2,
			// it was there: an earlier try had its effect
			err == nil && method == http.MethodPost && status == http.StatusConflict,
			err == nil && method != http.MethodPost && status == http.StatusNotFound: // a restored etcd may not know it
			return
		case err == nil && status == http.StatusUnprocessableEntity, err == nil && status == http.StatusBadRequest:
			l.note("%s %s: %d %s", method, path, status, answer)
			return
		}
		if !wait(ctx, 200*time.Millisecond) {
			return
		}
	}
}
