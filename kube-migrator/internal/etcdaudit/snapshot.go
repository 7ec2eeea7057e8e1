// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Snapshot is a snapshot file of etcd as `etcdctl snapshot save` writes it, with or without the checksum at its end.
// The file is read in place and never written. Its contents are not trusted: see pages.
type Snapshot struct {
	Path string
	// slots is tableSlots unless a test sets it.
	slots int
}

// Buckets and keys of an etcd database. Source: go.etcd.io/etcd/server/v3/storage/schema.
var (
	keyBucket      = []byte("key")
	metaBucket     = []byte("meta")
	membersBucket  = []byte("members")
	compactedKey   = []byte("finishedCompactRev")
	revisionLength = 17 // 8 bytes main, '_', 8 bytes sub; a deletion is followed by a 't'
)

var errTableFull = errors.New("more keys than revisions")

// Each reads the snapshot. If the file cannot be trusted, it fails before the first visit with ErrNoSnapshot,
// ErrTruncated, ErrDamaged or ErrMemberFile. If the file has no checksum and turns out to be inconsistent, it fails
// later with ErrDamaged.
func (s Snapshot) Each(ctx context.Context, prefix string, visit func(key, value []byte) error) (Provenance, error) {
	if s.slots == 0 {
		s.slots = tableSlots
	}
	file, err := openRegular(s.Path)
	if err != nil {
		return Provenance{}, err
	}
	defer file.Close()
	provenance, err := s.read(ctx, file, prefix, visit)
	if err != nil {
		return Provenance{}, err
	}
	return provenance, nil
}

func (s Snapshot) read(ctx context.Context, file *os.File, prefix string, visit func(key,
	value []byte) error) (Provenance, error) {
	layout, provenance, err := s.check(ctx, file)
	if err != nil {
		return provenance, err
	}
	r := &database{
		pages: &pages{file: file, pageBytes: layout.pageBytes, count: uint64(layout.usedBytes / layout.pageBytes)},
		root:  layout.root,
	}
	revisions, err := r.survey(ctx, &provenance)
	if err != nil {
		return provenance, s.about(err)
	}
	// An error of visit is returned unwrapped.
	var visited error
	records := func(visit func(record) error) error { return r.descend(ctx, []byte(prefix), visit) }
	err = newest(revisions, s.slots, records, func(key, value []byte) error {
		visited = visit(key, value)
		return visited
	})
	if visited != nil {
		return provenance, visited
	}
	return provenance, s.about(err)
}

// about names the file that an error is about.
func (s Snapshot) about(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%s: %w", s.Path, err)
}

// check decides whether the file can be trusted, and takes the lock that a running etcd would hold.
func (s Snapshot) check(ctx context.Context, file *os.File) (layout, Provenance, error) {
	layout, err := readLayout(file)
	if err != nil {
		return layout, Provenance{}, fmt.Errorf("%s: %w", s.Path, err)
	}
	// This comes before anything that takes time, because the checks below are meaningless for a file that is being
	// written.
	if err := lockShared(file); err != nil {
		return layout, Provenance{}, fmt.Errorf("%s: %w", s.Path, err)
	}
	if isMemberFile(s.Path) {
		return layout, Provenance{}, fmt.Errorf("%s is the %w, which lags behind what the member knows", s.Path,
			ErrMemberFile)
	}
	if err := layout.check(); err != nil {
		return layout, Provenance{}, fmt.Errorf("%s: %w", s.Path, err)
	}
	sum, verified, err := layout.checksum(ctx, file)
	if err != nil {
		return layout, Provenance{}, fmt.Errorf("%s: %w", s.Path, err)
	}
	return layout, Provenance{File: s.Path, FileBytes: layout.fileBytes, SHA256: sum, ChecksumVerified: verified}, nil
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

// isMemberFile reports whether the path is where an etcd member has its database: <data dir>/member/snap/db.
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

// database reads what etcd has written into its database.
type database struct {
	*pages
	root uint64 // page of the root bucket
}

// survey counts the revisions, and reads at which revision of etcd the snapshot was taken.
func (r *database) survey(ctx context.Context, provenance *Provenance) (revisions int, err error) {
	_, err = r.bucket(ctx, r.root, metaBucket, func(e entry) error {
		if bytes.Equal(e.key, compactedKey) && len(e.value) >= 8 {
			provenance.Revision = max(0, int64(binary.BigEndian.Uint64(e.value)))
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if provenance.Endpoints, err = r.memberAddresses(ctx); err != nil {
		return 0, err
	}
	err = r.revisions(ctx, func(k, _ []byte) error {
		revisions++
		provenance.Revision = max(provenance.Revision, int64(binary.BigEndian.Uint64(k)))
		return nil
	})
	provenance.FirstRevision = provenance.Revision
	return revisions, err
}

// memberAddresses returns the client addresses of the cluster's members that the snapshot contains.
func (r *database) memberAddresses(ctx context.Context) (urls []string, err error) {
	const maxMembers, maxMemberBytes, maxURLBytes = 64, 64 << 10, 2 << 10
	_, err = r.bucket(ctx, r.root, membersBucket, func(e entry) error {
		var member struct {
			ClientURLs []string `json:"clientURLs"`
		}
		if len(e.value) > maxMemberBytes || json.Unmarshal(e.value, &member) != nil {
			return nil //nolint:nilerr // a member that cannot be read has no addresses; it counts for nothing else
		}
		own := slices.DeleteFunc(member.ClientURLs, func(url string) bool { return len(url) > maxURLBytes })
		urls = append(own, urls...) // members in the order of their IDs: the greatest comes first here
		urls = urls[:min(len(urls), maxMembers)]
		return nil
	})
	return urls, err
}

// revisions calls visit with all revisions, newest first.
func (r *database) revisions(ctx context.Context, visit func(k, v []byte) error) error {
	found, err := r.bucket(ctx, r.root, keyBucket, func(e entry) error {
		if len(e.key) != revisionLength && len(e.key) != revisionLength+1 {
			return fmt.Errorf("%w: a revision has %d bytes", ErrDamaged, len(e.key))
		}
		return visit(e.key, e.value)
	})
	if err == nil && !found {
		return fmt.Errorf("%w: it has no bucket of keys", ErrNoSnapshot)
	}
	return err
}

// descend calls visit with the revisions of the keys below prefix, newest first.
func (r *database) descend(ctx context.Context, prefix []byte, visit func(record) error) error {
	return r.revisions(ctx, func(k, v []byte) error {
		key, value, err := keyValue(v)
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(key, prefix) {
			return nil
		}
		return visit(record{key: key, value: value, deleted: len(k) > revisionLength})
	})
}

// keyValue reads a mvccpb.KeyValue without copying anything.
func keyValue(data []byte) (key, value []byte, err error) {
	const fieldKey, fieldValue = 1, 5
	for len(data) > 0 {
		number, wireType, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil, nil, fmt.Errorf("%w: a revision is not a key and a value", ErrDamaged)
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(number, wireType, data); n < 0 {
			return nil, nil, fmt.Errorf("%w: a revision is not a key and a value", ErrDamaged)
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
