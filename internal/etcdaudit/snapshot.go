// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"google.golang.org/protobuf/encoding/protowire"
)

// Snapshot is a snapshot file of etcd, as `etcdctl snapshot save` writes it, with or without the checksum at its
// end. A file is read in place and never written to.
//
// The file is mapped into memory, and what has been read of it stays mapped until the kernel or we let it go. So the mapping is
// renewed every mappedBytes of keys and values, which bounds what the process holds of the file at a time.
type Snapshot struct {
	Path string
	// slots and mappedBytes are tableSlots and defaultMappedBytes unless a test sets them.
	slots       int
	mappedBytes int
}

const defaultMappedBytes = 4 << 20

// Buckets and keys of an etcd database. Source: go.etcd.io/etcd/server/v3/storage/schema.
var (
	keyBucket      = []byte("key")
	metaBucket     = []byte("meta")
	membersBucket  = []byte("members")
	compactedKey   = []byte("finishedCompactRev")
	revisionLength = 17 // 8 bytes main, '_', 8 bytes sub; a deletion has a 't' behind it
)

var errTableFull = errors.New("more keys than revisions")

// Each reads the snapshot. It fails with ErrNoSnapshot, ErrTruncated, ErrDamaged or ErrMemberFile before the first visit if the file
// cannot be trusted, and with ErrDamaged later on if it has no checksum and turns out to contradict itself.
func (s Snapshot) Each(ctx context.Context, prefix string, visit func(key, value []byte) error) (Provenance, error) {
	if s.slots == 0 {
		s.slots = tableSlots
	}
	if s.mappedBytes == 0 {
		s.mappedBytes = defaultMappedBytes
	}
	provenance, err := s.check(ctx)
	if err != nil {
		return Provenance{}, err
	}
	revisions, err := s.survey(ctx, &provenance)
	if err != nil {
		return Provenance{}, err
	}
	walk := func(visit func(record) error) error { return s.descend(ctx, []byte(prefix), visit) }
	if err := newest(revisions, s.slots, walk, visit); err != nil {
		return Provenance{}, err
	}
	return provenance, nil
}

// check says whether the file can be trusted, while holding the lock that a running etcd would hold.
func (s Snapshot) check(ctx context.Context) (Provenance, error) {
	file, err := openRegular(s.Path)
	if err != nil {
		return Provenance{}, err
	}
	defer file.Close()
	layout, err := readLayout(file)
	if err != nil {
		return Provenance{}, fmt.Errorf("%s: %w", s.Path, err)
	}
	// Before anything that takes time: what follows makes no sense for a file that is being written to.
	db, err := s.open()
	if err != nil {
		return Provenance{}, err
	}
	defer db.Close()
	if isMemberFile(s.Path) {
		return Provenance{}, fmt.Errorf("%s is the %w, which lags behind what the member knows", s.Path, ErrMemberFile)
	}
	if err := layout.check(); err != nil {
		return Provenance{}, fmt.Errorf("%s: %w", s.Path, err)
	}
	sum, verified, err := layout.checksum(ctx, file)
	if err != nil {
		return Provenance{}, fmt.Errorf("%s: %w", s.Path, err)
	}
	return Provenance{File: s.Path, FileBytes: layout.fileBytes, SHA256: sum, ChecksumVerified: verified}, nil
}

func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("%s does not exist: %w", path, os.ErrNotExist)
	case err != nil:
		return nil, fmt.Errorf("open snapshot: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file: %w", path, ErrNoSnapshot)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open snapshot: %w", err)
	}
	return file, nil
}

// isMemberFile reports whether the path is where a member keeps its database: <data dir>/member/snap/db.
func isMemberFile(path string) bool {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	absolute, err := filepath.Abs(path)
	return err == nil && filepath.ToSlash(filepath.Dir(absolute)) != "" &&
		filepath.Base(absolute) == "db" &&
		filepath.Base(filepath.Dir(absolute)) == "snap" &&
		filepath.Base(filepath.Dir(filepath.Dir(absolute))) == "member"
}

// open maps the file. It does not wait for a lock: the smallest time-out means one attempt.
func (s Snapshot) open() (*bolt.DB, error) {
	db, err := bolt.Open(s.Path, 0, &bolt.Options{ReadOnly: true, Timeout: time.Nanosecond})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("%s is locked: it is the %w that is running", s.Path, ErrMemberFile)
	case err != nil:
		return nil, fmt.Errorf("%s: %w: %w", s.Path, ErrNoSnapshot, err)
	}
	return db, nil
}

// survey counts the revisions and reads which revision of etcd the snapshot is of.
func (s Snapshot) survey(ctx context.Context, provenance *Provenance) (revisions int, err error) {
	err = s.view(new(bool), func(tx *bolt.Tx) error {
		if meta := tx.Bucket(metaBucket); meta != nil {
			if v := meta.Get(compactedKey); len(v) >= 8 {
				provenance.Revision = int64(binary.BigEndian.Uint64(v))
			}
		}
		provenance.Endpoints = memberNames(tx.Bucket(membersBucket))
		return nil
	})
	if err != nil {
		return 0, err
	}
	err = s.stretches(ctx, func(k, _ []byte) error {
		revisions++
		provenance.Revision = max(provenance.Revision, int64(binary.BigEndian.Uint64(k)))
		return nil
	})
	provenance.FirstRevision = provenance.Revision
	return revisions, err
}

// memberNames are the client addresses of the cluster's members, as far as the snapshot knows them.
func memberNames(bucket *bolt.Bucket) (urls []string) {
	const maxMembers = 64
	if bucket == nil {
		return nil
	}
	c := bucket.Cursor()
	for k, v := c.First(); k != nil && len(urls) < maxMembers; k, v = c.Next() {
		var member struct {
			ClientURLs []string `json:"clientURLs"`
		}
		if json.Unmarshal(v, &member) == nil {
			urls = append(urls, member.ClientURLs...)
		}
	}
	return urls
}

// descend hands out the revisions of the keys below prefix, newest first.
func (s Snapshot) descend(ctx context.Context, prefix []byte, visit func(record) error) error {
	return s.stretches(ctx, func(k, v []byte) error {
		key, value, err := keyValue(v)
		if err != nil {
			return err
		}
		if len(key) < len(prefix) || string(key[:len(prefix)]) != string(prefix) {
			return nil
		}
		return visit(record{key: key, value: value, deleted: len(k) > revisionLength})
	})
}

// keyValue reads a mvccpb.KeyValue without copying anything out of it.
func keyValue(data []byte) (key, value []byte, err error) {
	const fieldKey, fieldValue = 1, 5
	for len(data) > 0 {
		number, wireType, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil, nil, fmt.Errorf("%w: a revision is no key and value", ErrDamaged)
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(number, wireType, data); n < 0 {
			return nil, nil, fmt.Errorf("%w: a revision is no key and value", ErrDamaged)
		}
		if wireType == protowire.BytesType {
			field, _ := protowire.ConsumeBytes(data)
			switch number {
			case fieldKey:
				key = field
			case fieldValue:
				value = field
			}
		}
		data = data[n:]
	}
	return key, value, nil
}

// stretches walks over all revisions, newest first, and renews the mapping every mappedBytes.
func (s Snapshot) stretches(ctx context.Context, visit func(k, v []byte) error) error {
	var from []byte
	visiting := false
	for {
		more := false
		err := s.view(&visiting, func(tx *bolt.Tx) error {
			bucket := tx.Bucket(keyBucket)
			if bucket == nil {
				return fmt.Errorf("%w: it has no bucket of keys", ErrNoSnapshot)
			}
			cursor := bucket.Cursor()
			k, v := cursor.Last()
			if from != nil {
				cursor.Seek(from)
				k, v = cursor.Prev()
			}
			for passed := 0; k != nil; k, v = cursor.Prev() {
				if len(k) != revisionLength && len(k) != revisionLength+1 {
					return fmt.Errorf("%w: a revision has %d bytes", ErrDamaged, len(k))
				}
				visiting = true
				err := visit(k, v)
				if visiting = false; err != nil {
					return err
				}
				if passed += len(k) + len(v); passed >= s.mappedBytes {
					from, more = append(from[:0], k...), true
					return ctx.Err()
				}
			}
			return ctx.Err()
		})
		if err != nil || !more {
			return err
		}
	}
}

// view runs f with the file mapped. A damaged file without a checksum makes bbolt panic, and one that shrinks while it is read makes the
// kernel send a signal: both become ErrDamaged. visiting is true while code runs that is neither bbolt's nor ours, whose own
// panics go on.
func (s Snapshot) view(visiting *bool, f func(*bolt.Tx) error) (err error) {
	db, err := s.open()
	if err != nil {
		return err
	}
	defer db.Close()
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		if _, fault := r.(interface{ Addr() uintptr }); *visiting && !fault {
			panic(r)
		}
		err = fmt.Errorf("%s: %w: %v", s.Path, ErrDamaged, r)
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return db.View(f)
}
