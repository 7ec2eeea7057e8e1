// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package contestant

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// Names of what reads all keys of an etcd.
const (
	Audit         = "kube-migrator audit"
	AuditSnapshot = "kube-migrator audit --snapshot"
	EtcdctlDecode = "etcdctl get | decode"
	Etcdctl       = "etcdctl get"
)

// registry is the folder of all keys.
const registry = "/registry"

// Auditors read all keys of the cluster's etcd, and say in which versions the objects are stored: kube-migrator, from
// etcd and from a snapshot that has been saved before; and etcdctl, whose output is decoded by the Go types of
// Kubernetes, or by no one, which is a bound for everything that could read it.
func (w *Workshop) Auditors(ctx context.Context) ([]Contestant, error) {
	etcdctl, err := testbed.Binary(ctx, testbed.Newest, "etcdctl", w.progress)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	get := func(r Run) []string {
		return []string{"--endpoints=" + r.Lab.Cluster.Etcd.Endpoint(), "--command-timeout=10m", "get", registry,
			"--prefix", "--write-out=json"}
	}
	return []Contestant{
		{Name: Audit, Migrate: func(ctx context.Context, r Run) error {
			return w.audit(ctx, r, "--etcd-endpoints="+r.Lab.Cluster.Etcd.Endpoint())
		}},
		{Name: AuditSnapshot, Migrate: func(ctx context.Context, r Run) error {
			return w.audit(ctx, r, "--snapshot="+SnapshotPath(r))
		}},
		{Name: EtcdctlDecode, Migrate: func(ctx context.Context, r Run) error {
			from, to, err := os.Pipe()
			if err != nil {
				return err
			}
			decode, err := startWith(ctx, r.Lab, r.Watch, from, nil, self, DecodeCommand)
			_ = from.Close()
			if err != nil {
				_ = to.Close()
				return err
			}
			read, err := startWith(ctx, r.Lab, r.Watch, nil, to, etcdctl, get(r)...)
			_ = to.Close()
			if err != nil {
				decode.Stop()
				return err
			}
			return errors.Join(read.Wait(ctx), decode.Wait(ctx))
		}},
		{Name: Etcdctl, Migrate: func(ctx context.Context, r Run) error {
			return Finish(ctx, r.Lab, r.Watch, etcdctl, get(r)...)
		}},
	}, nil
}

// SaveSnapshot saves the snapshot that one of the Auditors reads.
func (w *Workshop) SaveSnapshot(ctx context.Context, r Run) error {
	etcdctl, err := testbed.Binary(ctx, testbed.Newest, "etcdctl", w.progress)
	if err != nil {
		return err
	}
	return Finish(ctx, r.Lab, r.Watch, etcdctl, "--endpoints="+r.Lab.Cluster.Etcd.Endpoint(), "--command-timeout=10m",
		"snapshot", "save", SnapshotPath(r))
}

// SnapshotPath is where the snapshot of a cluster is.
func SnapshotPath(r Run) string { return filepath.Join(r.Lab.Cluster.Dir(), "snapshot.db") }

// audit is an error unless it counts every object. An exit code of 2 or 3 is an answer.
func (w *Workshop) audit(ctx context.Context, r Run, source string) error {
	path := filepath.Join(r.Lab.Cluster.Dir(), "audit.json")
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	p, err := startWith(ctx, r.Lab, r.Watch, nil, out, w.binary, "audit", source, "--output=json",
		"--kubeconfig="+r.Kubeconfig)
	_ = out.Close() // the process has its own
	if err != nil {
		return err
	}
	if err := p.Wait(ctx); err != nil && ExitCode(err) != 2 && ExitCode(err) != 3 {
		return err
	}
	var counted struct{ Totals struct{ Objects int } }
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &counted); err != nil {
		return fmt.Errorf("decode audit: %w", err)
	}
	if counted.Totals.Objects < r.Count {
		return fmt.Errorf("it counted %d of %d objects", counted.Totals.Objects, r.Count)
	}
	return nil
}

// DecodeCommand is the first argument that makes the benchmark's own binary call Decode.
const DecodeCommand = "decode"

// Decode reads what etcdctl get --write-out=json prints and decodes each value by the Go types of the core group, as
// auger does for all groups, and counts the kinds. Other objects are decoded if they are JSON. It reads one key after
// the other, and holds none.
func Decode(in io.Reader, out io.Writer) error {
	types := runtime.NewScheme()
	if err := corev1.AddToScheme(types); err != nil {
		return err
	}
	values := serializer.NewCodecFactory(types).UniversalDeserializer()
	decoder := json.NewDecoder(in)
	for token := json.Token(nil); token != "kvs"; {
		var err error
		if token, err = decoder.Token(); err != nil {
			return fmt.Errorf("look for keys: %w", err)
		}
	}
	if _, err := decoder.Token(); err != nil {
		return fmt.Errorf("read the list of keys: %w", err)
	}
	kinds := map[string]int{}
	for decoder.More() {
		var kv struct{ Value string }
		if err := decoder.Decode(&kv); err != nil {
			return fmt.Errorf("read key: %w", err)
		}
		value, err := base64.StdEncoding.DecodeString(kv.Value)
		if err != nil {
			return fmt.Errorf("decode value: %w", err)
		}
		kinds[kindOf(values, value).String()]++
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if _, err := fmt.Fprintf(out, "%d of %s\n", kinds[kind], kind); err != nil {
			return err
		}
	}
	return nil
}

// kindOf decodes a value whole.
func kindOf(values runtime.Decoder, value []byte) schema.GroupVersionKind {
	if _, kind, err := values.Decode(value, nil, nil); err == nil {
		return *kind
	}
	var object unstructured.Unstructured
	if object.UnmarshalJSON(value) != nil {
		return schema.GroupVersionKind{}
	}
	return object.GroupVersionKind()
}
