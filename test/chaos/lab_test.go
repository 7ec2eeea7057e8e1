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

// What is migrated: a custom resource, which is stored as its CustomResourceDefinition says, and a built-in one, which
// kube-apiserver 1.36 stores as v1beta1 and 1.37 as v1.
var (
	widgets = testbed.Kind{
		Group: testbed.WidgetGroup, Version: "v1", Kind: "Widget", Plural: "widgets", Prefix: testbed.WidgetsPrefix,
	}
	bindings = testbed.Kind{
		Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicyBinding",
		Plural: "mutatingadmissionpolicybindings",
		Prefix: "/registry/mutatingadmissionpolicybindings/",
	}
	// secrets are encrypted, with one key after the other. They are not migrated without being asked for.
	secrets = testbed.Kind{Version: "v1", Kind: "Secret", Plural: "secrets", Prefix: "/registry/secrets/"}

	kinds   = []testbed.Kind{widgets, bindings, secrets}
	settled = []testbed.Kind{widgets, bindings} // what everything has to converge for
)

// edition is how an API server is started.
type edition struct {
	release testbed.Release
	flags   []string
	stores  string // the apiVersion in which it writes bindings
}

const shutdownDelay = "--shutdown-delay-duration=3s"

var editions = []edition{
	{release: testbed.V137, stores: "admissionregistration.k8s.io/v1"},
	{release: testbed.V136, stores: "admissionregistration.k8s.io/v1beta1"},
	{release: testbed.V137, stores: "admissionregistration.k8s.io/v1", flags: []string{shutdownDelay}},
	{release: testbed.V136, stores: "admissionregistration.k8s.io/v1beta1", flags: []string{shutdownDelay}},
}

// Requests last no longer than a quarter of a minute, also those of a server that drains. What rests on it has to be
// told: the settle time is twice the request timeout, and a shutdown delay has to be within it.
const (
	requestTimeout = "--request-timeout=5s"
	settleTime     = "--settle-time=10s"
)

// encryption is a configuration that encrypts secrets with one of the keys, and reads all that there ever were: also
// those of a backup, and the next one.
func encryption(key int) string {
	names := []string{judge.KeyName(key), judge.KeyName(key + 1)}
	for older := key - 1; older > 0; older-- {
		names = append(names, judge.KeyName(older))
	}
	return testbed.EncryptionConfig([]string{"secrets"}, names...)
}

// etcdAddress is where a server finds etcd: an address of its own, so that a packet filter can cut it off alone.
func etcdAddress(i int) string { return fmt.Sprintf("127.0.0.%d", 11+i) }

func (e edition) options(i int) testbed.ServerOptions {
	return testbed.ServerOptions{Release: e.release,
		Flags: append([]string{"--etcd-servers=http://" + etcdAddress(i) + ":2379"}, e.flags...)}
}

// lab is a cluster with everything that runs in it.
type lab struct {
	t       *testing.T
	cluster *testbed.Cluster
	plan    plan.Plan
	servers []*server
	// whole is held for reading by those who do something to one API server or etcd, and for writing by those who
	// restore everything.
	whole sync.RWMutex
	// etcd is held by the one who does something to etcd.
	etcd sync.Mutex
	// CRD is held for reading by writers of widgets, and for writing while the CustomResourceDefinition is away.
	crd     sync.RWMutex
	hook    atomic.Bool // the conversion webhook fails
	hookURL string

	controllers []*controller
	keeper      *keeper
	lines       []*line
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
	made     int
	clockDir string
	lives    []*life
	amnesty  time.Time       // nothing that was recorded before is judged
	life     context.Context // until the run or a violation ends it
	found    []string
	again    *watching

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

// life is one process of an API server.
type life struct {
	server *server
	hash   string
	ended  time.Time // zero while it lives
}

func newLab(t *testing.T, p plan.Plan) *lab {
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
	var serverClocks [servers]*clock
	for i := range servers {
		o := editions[0].options(i)
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
		l.lives = append(l.lives, &life{server: server, hash: bindings.Hash(editions[0].stores)})
	}
	var err error
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
	l.life, end = context.WithCancel(ctx)
	context.AfterFunc(l.violated, end)
	for _, s := range l.servers {
		l.await(ctx, s)
	}
	l.populate(ctx, doomed(0), 12)
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
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
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
