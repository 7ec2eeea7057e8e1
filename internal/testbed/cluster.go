// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package testbed runs real Kubernetes control planes on this machine: etcd and kube-apiservers that are built from
// pinned Go modules, a proxy between client and server that injects faults, and what else tests need: raw etcd
// values, objects in bulk, snapshots.
//
// It owns every process that it starts, and everything that knows how a Kubernetes binary is built and started. It is
// for tests, the demo and the benchmarks; nothing of kube-migrator itself imports it. It runs on Linux only.
//
// It holds that
//   - no process outlives the one that started it, even when that one is killed;
//   - a binary that is missing is built, and one that cannot be built fails the test: nothing is ever skipped;
//   - all traffic stays on loopback addresses or in a network namespace of the cluster's own;
//   - a test that ends has its cluster checked against the invariants I1, I2 and I3 (Cluster.CheckInvariants).
package testbed

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
)

// Admin is the user that every cluster has: a member of system:masters.
const Admin = "admin"

// keepEnv keeps the folder of a cluster whose test failed, so that its logs and data can be inspected.
const keepEnv = "KUBE_MIGRATOR_TESTBED_KEEP"

// Options describe a cluster. The zero value is one API server of release Newest.
type Options struct {
	// Release is the release of every API server that does not name its own, and determines etcd (Release.Etcd).
	// Default: Newest.
	Release Release
	// Servers are the API servers. Default: one without options of its own.
	Servers []ServerOptions
	// Flags are given to every API server, after the testbed's own: a flag of the same name takes the other's place.
	Flags []string
	// EtcdFlags are flags of etcd in the same sense.
	EtcdFlags []string
	// OwnEtcd are resources ("group/resource", "/configmaps" for the core group) that are stored in a second etcd,
	// Cluster.OwnEtcd. Default: none.
	OwnEtcd []string
	// Fsync makes etcd durable against a crash of the machine. Off, because killing a process loses nothing.
	Fsync bool
	// Isolated puts the cluster into a network namespace of its own, where API server i has the address 192.0.2.10+i
	// and a host name of its own: so each has its own identity Lease, and the EndpointSlice default/kubernetes lists
	// them all. For root only.
	Isolated bool
	// Node makes the cluster fit for a node (NewNode): Isolated, with pods' ServiceAccounts, and API servers that reach
	// a kubelet.
	Node bool
	// Users are users in addition to Admin; they have no rights but those that RBAC gives them.
	Users []User
	// EncryptionConfig is the content of the file for --encryption-provider-config. If it is empty, there is no such
	// flag. See EncryptionConfig.
	EncryptionConfig string
	// ExtraIPs are further addresses that the serving certificates are valid for.
	ExtraIPs []net.IP
	// ReadyTimeout bounds the wait for one process to become ready. Default: 2 minutes.
	ReadyTimeout time.Duration
	// Progress receives a line about each binary that has to be built. Default: standard error.
	Progress io.Writer
}

// ServerOptions are the options of one API server.
type ServerOptions struct {
	// Release of kube-apiserver. Default: that of the cluster.
	Release Release
	// Flags come after those of the cluster and take the place of any of the same name; "--name-" takes one away.
	Flags []string
	// Hostname is the name from which the identity is derived in an isolated cluster. Default: api-0, api-1, …
	Hostname string
	// Clock is the server's clock, for a build of kube-apiserver of its own (MovableAPIServer). Default: the machine's.
	Clock *Clock
}

func (o ServerOptions) command() string {
	if o.Clock != nil {
		return MovableAPIServer
	}
	return "kube-apiserver"
}

// User is a user who authenticates with a token.
type User struct {
	Name   string
	Groups []string
}

// Cluster is a running control plane.
type Cluster struct {
	// Etcd is the store.
	Etcd *Etcd
	// OwnEtcd is the store of Options.OwnEtcd, or nil without that option.
	OwnEtcd *Etcd
	// Servers are the API servers, in the order of Options.Servers.
	Servers []*Server

	options Options
	dir     string
	folder  *folder
	ns      *namespace
	ca      *authority
	tokens  map[string]string
	http    *http.Client
	stop    sync.Once
	// lifetime is the context of everything that ends with Stop, and not with the context of Start.
	lifetime context.Context

	mu     sync.Mutex
	stops  []func()
	losses []loss // that the test has declared
}

// New starts a cluster for a test and stops it when the test ends, after CheckInvariants. A cluster that does not start
// fails the test at once. Where the test failed and KUBE_MIGRATOR_TESTBED_KEEP is set, its folder is kept and named.
// Under -short, no cluster starts and the test is skipped: `make test-quick` is for tests without servers.
func New(t testing.TB, options Options) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a cluster; make test runs it") //nolint:forbidigo // only where short tests are asked for
	}
	c, err := Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	c.compareContents()
	t.Cleanup(func() {
		// The contents of large objects take a busy machine more than a minute to compare.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
		defer cancel()
		defer c.Stop()
		if err := c.CheckInvariants(ctx); err != nil {
			t.Error(err)
		}
		if t.Failed() && os.Getenv(keepEnv) != "" {
			if kept, err := c.folder.keep(); err == nil {
				t.Logf("logs and data are kept in %s", kept)
			}
		}
	})
	return c
}

// Start starts a cluster. The context bounds the start alone; the cluster runs until Stop, or until this process ends.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	c, err := prepare(context.WithoutCancel(ctx), options)
	if err != nil {
		return nil, fmt.Errorf("prepare cluster: %w", err)
	}
	if err := c.start(ctx); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// prepare creates everything but processes.
func prepare(lifetime context.Context, options Options) (c *Cluster, err error) {
	defaults(&options)
	c = &Cluster{options: options, lifetime: lifetime, tokens: map[string]string{}}
	defer func(made *Cluster) {
		if err != nil {
			made.Stop()
		}
	}(c)
	if c.folder, err = newFolder(); err != nil {
		return nil, err
	}
	c.dir = c.folder.path
	addresses := slices.Clone(options.ExtraIPs)
	for i, server := range options.Servers {
		s := &Server{cluster: c, index: i, options: server, address: "127.0.0.1"}
		if options.Isolated {
			s.address, s.port = fmt.Sprintf("192.0.2.%d", 10+i), securePort
			addresses = append(addresses, net.ParseIP(s.address))
		} else if s.held, err = reserve(); err != nil {
			return nil, err
		} else {
			s.port = s.held.port
		}
		c.Servers = append(c.Servers, s)
	}
	c.Etcd = &Etcd{cluster: c, name: "etcd", fixed: etcdPorts, flags: options.EtcdFlags}
	if len(options.OwnEtcd) > 0 {
		c.OwnEtcd = &Etcd{cluster: c, name: "etcd-own", fixed: ownEtcdPorts, flags: options.EtcdFlags}
	}
	if options.Isolated {
		if err := c.isolate(); err != nil {
			return nil, err
		}
	} else {
		for _, e := range c.etcds() {
			if err := e.reserve(); err != nil {
				return nil, err
			}
		}
	}
	if err := c.writeKeys(addresses); err != nil {
		return nil, err
	}
	if err := c.writeTokens(); err != nil {
		return nil, err
	}
	if options.EncryptionConfig != "" {
		if err := c.SetEncryptionConfig(options.EncryptionConfig); err != nil {
			return nil, err
		}
	}
	roots := x509.NewCertPool()
	roots.AddCert(c.ca.certificate)
	c.http = &http.Client{Transport: &http.Transport{
		DialContext: c.DialContext, TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true,
	}}
	for _, e := range c.etcds() {
		if err := e.connect(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// etcds returns all stores.
func (c *Cluster) etcds() []*Etcd {
	if c.OwnEtcd == nil {
		return []*Etcd{c.Etcd}
	}
	return []*Etcd{c.Etcd, c.OwnEtcd}
}

func defaults(o *Options) {
	if o.Release == "" {
		o.Release = Newest
	}
	if o.ReadyTimeout == 0 {
		o.ReadyTimeout = 2 * time.Minute
	}
	if o.Progress == nil {
		o.Progress = os.Stderr
	}
	if o.Node {
		o.Isolated = true
		o.ExtraIPs = append([]net.IP{net.ParseIP(apiServiceIP)}, o.ExtraIPs...)
	}
	if len(o.Servers) == 0 {
		o.Servers = make([]ServerOptions, 1)
	}
	o.Servers = append([]ServerOptions(nil), o.Servers...)
	for i := range o.Servers {
		s := &o.Servers[i]
		if s.Release == "" {
			s.Release = o.Release
		}
		if s.Hostname == "" {
			s.Hostname = fmt.Sprintf("api-%d", i)
		}
	}
}

func (c *Cluster) isolate() (err error) {
	var addresses []string
	for _, s := range c.Servers {
		addresses = append(addresses, s.address)
	}
	c.ns, err = newNamespace(addresses)
	return err
}

func (c *Cluster) start(ctx context.Context) (err error) {
	for _, e := range c.etcds() {
		if e.binary, err = Binary(ctx, c.options.Release.Etcd(), "etcd", c.options.Progress); err != nil {
			return err
		}
	}
	for _, s := range c.Servers {
		if _, err := Binary(ctx, s.options.Release, s.options.command(), c.options.Progress); err != nil {
			return err
		}
	}
	for _, e := range c.etcds() {
		if err := e.Start(ctx); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for i, s := range c.Servers {
		// Servers of several machines do not start in the same hundredth of a second, which identifies them.
		timer := time.NewTimer(time.Duration(i) * 20 * time.Millisecond)
		group.Go(func() error {
			select {
			case <-timer.C:
				return s.Start(ctx)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}
	return group.Wait()
}

// Stop ends everything that belongs to the cluster and removes its folder. It may be called more than once.
func (c *Cluster) Stop() {
	c.stop.Do(func() {
		c.mu.Lock()
		stops := c.stops
		c.mu.Unlock()
		for _, stop := range slices.Backward(stops) {
			stop()
		}
		for _, s := range c.Servers {
			s.process.kill()
			if s.held != nil {
				s.held.release()
			}
		}
		if c.Etcd != nil {
			for _, e := range c.etcds() {
				e.close()
			}
		}
		c.ns.close()
		c.folder.remove()
	})
}

// Dir returns the folder of the cluster's data, logs and keys.
func (c *Cluster) Dir() string { return c.dir }

// CA returns the certificate, in PEM, that the servers' certificates are verified with.
func (c *Cluster) CA() []byte { return c.ca.pem }

// Config returns a configuration of a client that is an administrator, talks to the first server and has no rate limit.
func (c *Cluster) Config() *rest.Config { return c.Servers[0].Config() }

// ConfigAs is Config for one of Options.Users.
func (c *Cluster) ConfigAs(user string) *rest.Config { return c.Servers[0].ConfigAs(user) }

func (c *Cluster) config(url, user string) *rest.Config {
	config := &rest.Config{Host: url, BearerToken: c.tokens[user], QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.pem}}
	if c.ns != nil {
		config.Dial = c.DialContext
	}
	return config
}

// DialContext opens a connection from where the cluster is: from inside its network namespace if it is isolated.
func (c *Cluster) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return c.ns.dial(ctx, network, address)
}

// Command returns a command that runs where the cluster is: inside its network namespace if it is isolated.
func (c *Cluster) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return c.ns.command(ctx, name, args...)
}

// writeTokens creates a token for every user, and the file in which the servers find them.
func (c *Cluster) writeTokens() error {
	file, err := os.OpenFile(filepath.Join(c.dir, "tokens.csv"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	w := csv.NewWriter(file)
	for _, user := range append([]User{{Name: Admin, Groups: []string{"system:masters"}}}, c.options.Users...) {
		c.tokens[user.Name] = rand.Text()
		if err := w.Write([]string{c.tokens[user.Name], user.Name, user.Name,
			strings.Join(user.Groups, ",")}); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}
