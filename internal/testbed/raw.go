// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// ErrNoKey reports that etcd does not hold a key. Test with errors.Is.
var ErrNoKey = errors.New("etcd does not hold the key")

// Raw returns the bytes that etcd holds under a key such as /registry/secrets/default/token.
func (c *Cluster) Raw(ctx context.Context, key string) ([]byte, error) {
	response, err := c.Etcd.client.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	if len(response.Kvs) == 0 {
		return nil, fmt.Errorf("read %s: %w", key, ErrNoKey)
	}
	return response.Kvs[0].Value, nil
}

// PutRaw writes a value past the API servers.
func (c *Cluster) PutRaw(ctx context.Context, key string, value []byte) error {
	if _, err := c.Etcd.client.Put(ctx, key, string(value)); err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	return nil
}

// Bounds of PutRaws: transactions at one time, and keys and bytes of one.
const (
	putWorkers  = 4
	putTxnKeys  = 100
	putTxnBytes = 1 << 20
)

// PutRaws writes count values of a size past the API servers, many in one transaction: those share a resourceVersion.
// It calls each concurrently, for the key and the value of number i.
func (c *Cluster) PutRaws(ctx context.Context, count, bytes int, each func(i int) (key string, value []byte,
	err error)) error {
	perTxn := max(1, min(putTxnKeys, putTxnBytes/max(1, bytes)))
	group, writing := errgroup.WithContext(ctx)
	group.SetLimit(putWorkers)
	for from := 0; from < count && writing.Err() == nil; from += perTxn {
		group.Go(func() error {
			var puts []clientv3.Op
			for i := from; i < min(from+perTxn, count); i++ {
				key, value, err := each(i)
				if err != nil {
					return err
				}
				puts = append(puts, clientv3.OpPut(key, string(value)))
			}
			_, err := c.Etcd.client.Txn(writing).Then(puts...).Commit()
			return err
		})
	}
	return group.Wait()
}

// DeleteRawBelow deletes every key that begins with prefix, past the API servers.
func (c *Cluster) DeleteRawBelow(ctx context.Context, prefix string) error {
	if _, err := c.Etcd.client.Delete(ctx, prefix, clientv3.WithPrefix()); err != nil {
		return fmt.Errorf("delete keys below %s: %w", prefix, err)
	}
	return nil
}

// DeleteRaw deletes a key past the API servers. A missing key is not an error.
func (c *Cluster) DeleteRaw(ctx context.Context, key string) error {
	if _, err := c.Etcd.client.Delete(ctx, key); err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

// EachRaw calls f with every key that begins with prefix, in order and as of one moment. It reads in pages, so memory
// does not grow with the number of keys. The value is f's only until it returns.
func (c *Cluster) EachRaw(ctx context.Context, prefix string, f func(key string, value []byte,
	modRevision int64)) error {
	_, err := c.eachRaw(ctx, prefix, 0, f)
	return err
}

// Bounds of a page of EachRaw: the first is small, for nothing is known about the size of the values yet.
const (
	firstPageKeys = 20
	maxPageKeys   = 2000
	pageBytes     = 8 << 20
)

// eachRaw is EachRaw as of a revision, 0 for the newest; it returns the revision.
func (c *Cluster) eachRaw(ctx context.Context, prefix string, revision int64, f func(string, []byte,
	int64)) (int64, error) {
	end := clientv3.GetPrefixRangeEnd(prefix)
	limit := int64(firstPageKeys)
	for from := prefix; ; {
		options := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(limit), clientv3.WithRev(revision)}
		page, err := c.Etcd.client.Get(ctx, from, options...)
		if err != nil {
			return 0, fmt.Errorf("read keys from %s: %w", from, err)
		}
		if revision == 0 {
			revision = page.Header.Revision
		}
		size := 1
		for _, kv := range page.Kvs {
			size += len(kv.Value)
			f(string(kv.Key), kv.Value, kv.ModRevision)
		}
		if !page.More {
			return revision, nil
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
		limit = min(maxPageKeys, max(1, pageBytes*int64(len(page.Kvs))/int64(size)))
	}
}

// StoredVersions counts the objects below a prefix by how they are stored: their apiVersion, such as
// "demo.example.com/v1"; for encrypted ones the prefix that names provider and key, such as "enc:aescbc:v1:key1"; and
// "unknown" for anything else.
func (c *Cluster) StoredVersions(ctx context.Context, prefix string) (map[string]int, error) {
	versions := map[string]int{}
	err := c.EachRaw(ctx, prefix, func(_ string, value []byte, _ int64) { versions[storedVersion(value)]++ })
	return versions, err
}

const unknownVersion = "unknown"

var (
	protobufMagic   = []byte("k8s\x00")
	cborMagic       = []byte{0xd9, 0xd9, 0xf7}
	encryptedPrefix = []byte("k8s:enc:")
)

// storedVersion returns how a value is stored, in the notation of StoredVersions.
func storedVersion(value []byte) string {
	version := ""
	switch {
	case bytes.HasPrefix(value, encryptedPrefix):
		return encryptionOf(value)
	case bytes.HasPrefix(value, protobufMagic):
		var object runtime.Unknown
		if object.Unmarshal(value[len(protobufMagic):]) == nil {
			version = object.APIVersion
		}
	case bytes.HasPrefix(value, cborMagic):
		var object struct {
			APIVersion string `json:"apiVersion"`
		}
		if cbor.Unmarshal(value, &object) == nil {
			version = object.APIVersion
		}
	default:
		version = jsonVersion(value)
	}
	if version == "" {
		return unknownVersion
	}
	return version
}

// jsonVersion reads an object up to its apiVersion, which is at the beginning of most.
func jsonVersion(value []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(value))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return ""
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return ""
		}
		if name != "apiVersion" {
			var skipped json.RawMessage
			if decoder.Decode(&skipped) != nil {
				return ""
			}
			continue
		}
		var version string
		if decoder.Decode(&version) != nil {
			return ""
		}
		return version
	}
	return ""
}

// encryptionOf turns "k8s:enc:aescbc:v1:key1:…" into "enc:aescbc:v1:key1". KMS v2 puts no key there, but a plug-in's
// name.
func encryptionOf(value []byte) string {
	parts := strings.SplitN(string(value[:min(len(value), 300)]), ":", 6)
	if len(parts) < 6 {
		return unknownVersion
	}
	return strings.Join(parts[1:5], ":")
}
