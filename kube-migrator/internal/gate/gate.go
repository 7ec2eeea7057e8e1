// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package gate answers Cluster API before it upgrades a cluster: it serves the lifecycle hook BeforeClusterUpgrade of
// the Runtime SDK, and asks for time until an upgrade is safe.
//
// It owns the documents of the hook, the kubeconfig in the Secret of a Cluster, and what requests may cost. Options.Judge
// decides what is safe. The gate writes nothing and keeps no state: each request is answered from the clusters as they
// are.
//
// Invariants:
//   - An upgrade may start only if Judge said that it is safe. An error, a panic, a lack of time and too many requests
//     all keep it from starting.
//   - A kubeconfig in a Secret makes the gate neither run a program nor read a file.
//   - A message is the same as long as the situation is the same, because Cluster API writes it into a condition, and
//     contains no text of a cluster besides names of resources. Details are in the log.
package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/printable"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/endpoint"
)

const (
	// hookTimeout is how long Cluster API waits for an answer; it accepts at most 30 seconds.
	hookTimeout = 30 * time.Second
	// judgeTimeout is how long a request may take, so that there is an answer before hookTimeout.
	judgeTimeout = 25 * time.Second
	// patience is how long a request waits until fewer clusters are judged.
	patience = 5 * time.Second
	// maxJudging bounds how many clusters are judged at the same time. A judgement holds the cluster's inventory.
	maxJudging = 4
	// maxBody bounds a request, in bytes. It contains a Cluster, which etcd bounds at 1.5 MiB.
	maxBody = 4 << 20
	// maxMessage bounds a message, in bytes: names of resources come from the cluster.
	maxMessage = 1 << 10
	// maxConnections bounds the concurrent connections; Cluster API reconciles ten Clusters at the same time.
	maxConnections = 64
	maxHeader      = 16 << 10
	readTimeout    = 5 * time.Second
)

// Opinion says whether an upgrade is safe.
type Opinion struct {
	Safe bool
	// Message is the reason if it is not. It must be the same as long as the situation is the same.
	Message string
}

// Judge says whether the cluster can be upgraded to a release such as "v1.37.0". It must end when its context does.
type Judge func(ctx context.Context, cluster *rest.Config, release string) (Opinion, error)

// Options say where to serve, and what the gate relies on.
type Options struct {
	// Address is where to listen, such as ":9443".
	Address string
	// CertDir is a folder with tls.crt and tls.key, which are read again when they change.
	CertDir string
	// ClientCA is a file with the authority of the certificate with which Cluster API identifies itself. Empty, the
	// default: every client is answered.
	ClientCA string
	// Management is the cluster with the Secrets of the Clusters.
	Management rest.Interface
	// Judge decides.
	Judge Judge
	// RetryAfter is when Cluster API asks again after an answer that keeps an upgrade from starting. It is rounded up to
	// whole seconds, at least 1.
	RetryAfter time.Duration
	// Logger receives a line per answer; nil discards them.
	Logger *slog.Logger
}

// New listens, and serves nothing before Start of the server.
func New(ctx context.Context, o Options) (*endpoint.Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	server, err := endpoint.New(ctx, endpoint.Options{
		Address: o.Address, CertDir: o.CertDir, ClientCA: o.ClientCA, Handler: newHandler(o), MaxHeader: maxHeader,
		MaxConnections: maxConnections, ReadTimeout: readTimeout, WriteTimeout: hookTimeout + readTimeout,
		Logger: o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("serve the gate: %w", err)
	}
	return server, nil
}

// gate answers requests.
type gate struct {
	Options
	judging chan struct{} // contains one element per judgement in progress
}

func newHandler(o Options) http.Handler {
	g := &gate{Options: o, judging: make(chan struct{}, maxJudging)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+DiscoveryPath, func(w http.ResponseWriter, _ *http.Request) { send(w, discovery()) })
	mux.HandleFunc("POST "+HookPath, g.beforeClusterUpgrade)
	return mux
}

// send writes a document. A client that is gone does not get it.
func send(w http.ResponseWriter, document any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(document)
}

func (g *gate) beforeClusterUpgrade(w http.ResponseWriter, r *http.Request) {
	q, err := read(w, r)
	if err != nil {
		g.Logger.Warn("Refused a request", "error", err)
		send(w, newAnswer(failure, err.Error(), 0))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), judgeTimeout)
	defer cancel()
	opinion, err := g.opinion(ctx, q)
	about := g.Logger.With("namespace", q.Cluster.Metadata.Namespace, "cluster", q.Cluster.Metadata.Name,
		"release", q.ToKubernetesVersion)
	switch {
	case err != nil:
		about.Warn("Holding an upgrade: cannot judge the cluster", "error", err)
		send(w, g.wait("kube-migrator cannot determine whether the upgrade is safe: "+public(err)))
	case !opinion.Safe:
		about.Info("Holding an upgrade", "reason", opinion.Message)
		send(w, g.wait(opinion.Message))
	default:
		about.Info("Letting an upgrade start")
		send(w, newAnswer(success, "", 0))
	}
}

// wait is the answer that keeps an upgrade from starting.
func (g *gate) wait(message string) answer {
	if message = printable.Text(message); len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	seconds := min(max(1, math.Ceil(g.RetryAfter.Seconds())), math.MaxInt32)
	return newAnswer(success, message, int32(seconds))
}

// public is the part of an error that may become a condition of a Cluster.
func public(err error) string {
	if known := (*reason)(nil); errors.As(err, &known) {
		return known.text
	}
	return "the cluster could not be asked"
}

// opinion judges the cluster of a question.
func (g *gate) opinion(ctx context.Context, q question) (opinion Opinion, err error) {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case g.judging <- struct{}{}:
		defer func() { <-g.judging }()
	case <-waiting.Done():
		return Opinion{}, &reason{"too many clusters are judged at the same time", waiting.Err()}
	}
	defer func() {
		if value := recover(); value != nil {
			opinion, err = Opinion{}, &reason{"the judgement failed", fmt.Errorf("panic: %v", value)}
		}
	}()
	config, err := workload(ctx, g.Management, q.Cluster.Metadata.Namespace, q.Cluster.Metadata.Name)
	if err != nil {
		return Opinion{}, err
	}
	opinion, err = g.Judge(ctx, config, q.ToKubernetesVersion)
	if err != nil && ctx.Err() != nil {
		return Opinion{}, &reason{"the cluster did not answer in time", err}
	}
	return opinion, err
}
