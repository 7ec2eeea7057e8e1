// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"syscall"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/kube-migrator/kube-migrator/internal/testbed/content"
)

// Etcd is a store of a cluster: one member. Its methods may not be called concurrently.
type Etcd struct {
	cluster *Cluster
	name    string
	fixed   [2]int // client and peer port where the cluster is isolated
	binary  string
	flags   []string
	ports   [2]*reservation // client and peer; nil in an isolated cluster
	client  *clientv3.Client
	process *process
	// contents compares what is written; nil in a cluster that is not of New.
	contents *content.Watch
}

// Where the etcds listen in a network namespace of the cluster's own: that of all resources, and that of
// Options.OwnEtcd.
var etcdPorts, ownEtcdPorts = [2]int{2379, 2380}, [2]int{2381, 2382}

// Endpoint returns the URL for clients. In an isolated cluster it is reached from inside only (Cluster.Command,
// Cluster.DialContext).
func (e *Etcd) Endpoint() string { return e.url(0) }

// DataDir returns the folder of the member's data.
func (e *Etcd) DataDir() string { return filepath.Join(e.cluster.dir, e.name) }

// Log returns the path of the log.
func (e *Etcd) Log() string { return filepath.Join(e.cluster.dir, e.name+".log") }

// Running tells whether the process lives.
func (e *Etcd) Running() bool { return e.process.running() }

// Usage returns the resources that the process has used since its last start.
func (e *Etcd) Usage() (Usage, error) { return e.process.usage() }

// Client returns a client that continues to work when etcd is restarted. It belongs to the cluster.
func (e *Etcd) Client() *clientv3.Client { return e.client }

func (e *Etcd) url(i int) string {
	port := e.fixed[i]
	if e.ports[i] != nil {
		port = e.ports[i].port
	}
	return "http://127.0.0.1:" + strconv.Itoa(port)
}

func (e *Etcd) reserve() (err error) {
	for i := range e.ports {
		if e.ports[i], err = reserve(); err != nil {
			return err
		}
	}
	return nil
}

// Start starts etcd again after Kill or Stop, on the same data.
func (e *Etcd) Start(ctx context.Context) error {
	if e.Running() {
		return errors.New("start etcd: it runs already")
	}
	flags := []string{
		"--name=default", "--data-dir=" + e.DataDir(), "--log-level=warn",
		"--listen-client-urls=" + e.url(0), "--advertise-client-urls=" + e.url(0),
		"--listen-peer-urls=" + e.url(1), "--initial-advertise-peer-urls=" + e.url(1),
		"--initial-cluster=default=" + e.url(1),
		"--socket-reuse-port=true", "--quota-backend-bytes=8589934592",
	}
	if !e.cluster.options.Fsync {
		flags = append(flags, "--unsafe-no-fsync=true")
	}
	process, err := launch(e.cluster.ns, "", e.name, e.Log(), e.binary, mergeFlags(flags, e.flags)...)
	if err != nil {
		return err
	}
	e.process = process
	return process.await(ctx, e.cluster.options.ReadyTimeout, e.ready)
}

// Kill ends etcd as a crash would (SIGKILL).
func (e *Etcd) Kill() { e.process.kill() }

// Signal sends a signal and does not wait for its effect: SIGSTOP suspends, SIGCONT resumes.
func (e *Etcd) Signal(signal syscall.Signal) error {
	if !e.Running() {
		return fmt.Errorf("send %v to etcd: it does not run", signal)
	}
	return e.process.cmd.Process.Signal(signal)
}

// Stop ends etcd in an orderly way.
func (e *Etcd) Stop(ctx context.Context) error { return e.process.terminate(ctx) }

// Restart stops etcd in an orderly way and starts it on the same data.
func (e *Etcd) Restart(ctx context.Context) error {
	if err := e.Stop(ctx); err != nil {
		return err
	}
	return e.Start(ctx)
}

func (e *Etcd) ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url(0)+"/health", nil)
	if err != nil {
		return err
	}
	response, err := e.cluster.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/health: %s", response.Status)
	}
	return nil
}

func (e *Etcd) connect() (err error) {
	e.client, err = clientv3.New(clientv3.Config{
		Endpoints:          []string{e.url(0)},
		MaxCallSendMsgSize: 64 << 20,
		MaxCallRecvMsgSize: 64 << 20,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context,
			address string) (net.Conn, error) {
			return e.cluster.DialContext(ctx, "tcp", address)
		})},
	})
	if err != nil {
		return fmt.Errorf("connect to etcd: %w", err)
	}
	return nil
}

func (e *Etcd) close() {
	if e.client != nil {
		_ = e.client.Close()
	}
	e.process.kill()
	for _, port := range e.ports {
		if port != nil {
			port.release()
		}
	}
}
