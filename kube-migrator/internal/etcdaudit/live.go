// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// Live is a running etcd.
type Live struct {
	// Endpoints are URLs, or addresses whose scheme depends on whether TLS is configured.
	Endpoints []string
	// CAFile, CertFile and KeyFile are PEM files. CertFile and KeyFile have to be set together. If all are empty,
	// addresses are used without TLS, and https URLs with the system's certificate authorities.
	CAFile, CertFile, KeyFile string
	// Timeout is how long etcd may take to answer the first request. Zero means 5 s. A page may take six times as long.
	Timeout time.Duration
}

const (
	defaultTimeout = 5 * time.Second
	// maxAnswerBytes bounds the answer to one request, and so our memory: the client refuses a larger answer before it
	// reads it.
	maxAnswerBytes = 4 << 20
	// aimPageBytes is the size at which pages stop growing.
	aimPageBytes  = 1 << 20
	firstPageKeys = 64
	maxPageKeys   = 512
)

// Each reads all keys in pages, in ascending order, at the revision of the first page, and visits a page while it reads
// the next one. If etcd compacts that revision in the meantime (an API server requests that every 5 minutes), it continues
// after the last key at the newest revision. It still visits every key that existed all the time exactly once, and
// Provenance records the change.
func (l Live) Each(ctx context.Context, prefix string, visit func(key, value []byte) error) (Provenance, error) {
	if l.Timeout == 0 {
		l.Timeout = defaultTimeout
	}
	config, err := l.config()
	if err != nil {
		return Provenance{}, err
	}
	client, err := clientv3.New(config)
	if err != nil {
		return Provenance{}, fmt.Errorf("connect to etcd: %w", err)
	}
	defer client.Close()
	r := &reader{span: newSpan(prefix), live: l, client: client}
	if err := r.open(ctx, config); err != nil {
		return Provenance{}, err
	}
	if err := r.walk(ctx, visit); err != nil {
		return Provenance{}, err
	}
	return r.provenance, nil
}

// reader walks over the keys of a running etcd.
type reader struct {
	span
	live       Live
	client     *clientv3.Client
	provenance Provenance
}

// batch is the keys of one answer, in ascending order.
type batch []*mvccpb.KeyValue

// walk visits a page while it reads the next one, so that it needs the memory of two. It returns after both goroutines
// have ended, with the error that came first.
func (r *reader) walk(ctx context.Context, visit func(key, value []byte) error) error {
	group, ctx := errgroup.WithContext(ctx)
	pages := make(chan batch)
	group.Go(func() error {
		defer close(pages)
		return r.read(ctx, pages)
	})
	group.Go(func() error {
		for page := range pages {
			for _, kv := range page {
				if err := visit(kv.Key, kv.Value); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return group.Wait()
}

// read sends all pages.
func (r *reader) read(ctx context.Context, pages chan<- batch) error {
	for more := true; more; {
		var next batch
		var err error
		if next, more, err = r.page(ctx); err != nil {
			return err
		}
		select {
		case pages <- next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// open requests no keys, only to find out the revision and whether etcd answers.
func (r *reader) open(ctx context.Context, config clientv3.Config) error {
	asked, cancel := context.WithTimeout(ctx, r.live.Timeout)
	defer cancel()
	response, err := r.client.Get(asked, r.from, clientv3.WithRange(r.end), clientv3.WithCountOnly())
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil && (asked.Err() != nil || errors.Is(err, context.DeadlineExceeded)):
		return &UnreachableError{Endpoints: config.Endpoints, Timeout: r.live.Timeout, Cause: diagnose(ctx, config)}
	case err != nil:
		return fmt.Errorf("read etcd: %w", err)
	}
	r.provenance = Provenance{
		Endpoints: config.Endpoints,
		ClusterID: strconv.FormatUint(response.Header.ClusterId, 16),
		MemberID:  strconv.FormatUint(response.Header.MemberId, 16),
		Revision:  response.Header.Revision, FirstRevision: response.Header.Revision,
	}
	return nil
}

// page reads one page, or makes the next one smaller and returns none, and reports whether there is more to read.
func (r *reader) page(ctx context.Context) (read batch, more bool, err error) {
	const pagesPerTimeout = 6
	asked, cancel := context.WithTimeout(ctx, pagesPerTimeout*r.live.Timeout)
	defer cancel()
	response, err := r.client.Get(asked, r.from, clientv3.WithRange(r.until), clientv3.WithLimit(r.limit),
		clientv3.WithRev(r.provenance.Revision), clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend))
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, false, ctx.Err()
	case errors.Is(err, rpctypes.ErrCompacted):
		return nil, true, r.moveOn(asked)
	case isTooLarge(err) && r.limit > 1:
		r.limit /= 2
		return nil, true, nil
	case isTooLarge(err):
		return r.withoutValue(asked)
	default:
		return nil, false, fmt.Errorf("read etcd from key %q on: %w", r.from, err)
	}
	if err := r.sameCluster(response.Header); err != nil {
		return nil, false, err
	}
	bytes := 0
	for _, kv := range response.Kvs {
		bytes += len(kv.Key) + len(kv.Value)
	}
	if bytes < aimPageBytes {
		r.limit = min(2*r.limit, maxPageKeys)
	}
	return response.Kvs, r.behind(response), nil
}

// behind moves the span behind what an answer has.
func (r *reader) behind(response *clientv3.GetResponse) (more bool) {
	var first, last string
	if n := len(response.Kvs); n > 0 {
		first, last = string(response.Kvs[0].Key), string(response.Kvs[n-1].Key)
	}
	return r.advance(first, last, response.Count, response.More)
}

// moveOn switches to the newest revision after the pinned one was compacted.
func (r *reader) moveOn(ctx context.Context) error {
	response, err := r.client.Get(ctx, r.from, clientv3.WithRange(r.end), clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("read etcd from key %q on: %w", r.from, err)
	}
	if err := r.sameCluster(response.Header); err != nil {
		return err
	}
	r.provenance.Revision = response.Header.Revision
	return nil
}

// withoutValue reads the next key with no value, which counts as Unknown: the value is larger than a whole page may be.
func (r *reader) withoutValue(ctx context.Context) (read batch, more bool, err error) {
	response, err := r.client.Get(ctx, r.from, clientv3.WithRange(r.until), clientv3.WithLimit(1),
		clientv3.WithKeysOnly(),
		clientv3.WithRev(r.provenance.Revision), clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend))
	if err != nil || len(response.Kvs) == 0 {
		return nil, false, fmt.Errorf("read the key of a large value from %q on: %w", r.from, err)
	}
	return response.Kvs, r.behind(response), nil
}

// sameCluster detects endpoints of different clusters, over which requests would be spread.
func (r *reader) sameCluster(header *etcdserverpb.ResponseHeader) error {
	if id := strconv.FormatUint(header.ClusterId, 16); id != r.provenance.ClusterID {
		return fmt.Errorf("endpoints %v belong to different clusters, %s and %s", r.provenance.Endpoints,
			r.provenance.ClusterID, id)
	}
	return nil
}

// isTooLarge distinguishes the client's own refusal of a large answer, which has no sentinel, from errors of etcd with
// the same code.
func isTooLarge(err error) bool { return strings.Contains(err.Error(), "larger than max") }

func (l Live) config() (clientv3.Config, error) {
	secure := l.CAFile != "" || l.CertFile != "" || l.KeyFile != ""
	config := clientv3.Config{
		DialTimeout:        l.Timeout,
		MaxCallRecvMsgSize: maxAnswerBytes,
		MaxCallSendMsgSize: maxAnswerBytes / 2,
		MaxUnaryRetries:    math.MaxInt32, // until the timeout
		Logger:             zap.NewNop(),
	}
	for _, endpoint := range l.Endpoints {
		scheme, address, ok := strings.Cut(endpoint, "://")
		switch {
		case !ok && secure:
			endpoint = "https://" + endpoint
		case !ok:
			endpoint = "http://" + endpoint
		case scheme != "http" && scheme != "https":
			return config, fmt.Errorf("endpoint %q: want http:// or https://", endpoint)
		case scheme == "http" && secure:
			return config, fmt.Errorf("endpoint %q: certificates are given, and http:// does not use them", endpoint)
		case address == "":
			return config, fmt.Errorf("endpoint %q has no address", endpoint)
		}
		config.Endpoints = append(config.Endpoints, strings.TrimSuffix(endpoint, "/"))
	}
	if len(config.Endpoints) == 0 {
		return config, errors.New("no endpoint is given")
	}
	if !strings.HasPrefix(config.Endpoints[0], "https://") {
		return config, nil
	}
	var err error
	config.TLS, err = l.tls()
	return config, err
}
