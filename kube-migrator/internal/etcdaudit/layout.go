// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// layout is what the header of a bbolt file says about its size.
type layout struct {
	fileBytes int64
	pageBytes int64
	// usedBytes is how much of the file is in use. In a snapshot, the checksum follows immediately after that.
	usedBytes int64
	// root is the page of the root bucket.
	root uint64
}

// A bbolt file begins with two meta pages, of which the newer valid one counts. Numbers are in the machine's byte
// order. Source: go.etcd.io/bbolt/internal/common, type Meta.
const (
	boltMagic       = 0xED0CDAED
	boltVersion     = 2
	pageHeaderBytes = 16
	metaBytes       = 64
	minPageBytes    = 1 << 10
	maxPageBytes    = 1 << 16
)

// readLayout reads the header. It fails with ErrNoSnapshot if there is none.
func readLayout(file *os.File) (layout, error) {
	info, err := file.Stat()
	if err != nil {
		return layout{}, fmt.Errorf("read size: %w", err)
	}
	found, newest := layout{fileBytes: info.Size()}, uint64(0)
	offsets := []int64{0}
	for size := int64(minPageBytes); size <= maxPageBytes; size *= 2 {
		offsets = append(offsets, size)
	}
	for _, offset := range offsets {
		raw := make([]byte, metaBytes)
		if _, err := file.ReadAt(raw, offset+pageHeaderBytes); err != nil {
			continue
		}
		m, ok := parseMeta(raw)
		// The first meta page, if it is valid, says how large pages are.
		first := found.pageBytes == 0
		if ok && (offset == 0 || offset == m.pageBytes) && (first || m.pageBytes == found.pageBytes && m.txn > newest) {
			found.pageBytes, found.usedBytes, found.root, newest = m.pageBytes, m.pages*m.pageBytes, m.root, m.txn
		}
	}
	if found.pageBytes == 0 {
		return layout{}, fmt.Errorf("%w: it does not begin like a database of etcd", ErrNoSnapshot)
	}
	return found, nil
}

// meta is the content of a meta page.
type meta struct {
	pageBytes, pages int64
	root, txn        uint64
}

func parseMeta(raw []byte) (meta, bool) {
	sum := fnv.New64a()
	sum.Write(raw[:56])
	order := binary.NativeEndian
	if order.Uint32(raw) != boltMagic || order.Uint32(raw[4:]) != boltVersion || order.Uint64(raw[56:]) != sum.Sum64() {
		return meta{}, false
	}
	pageBytes, pages := int64(order.Uint32(raw[8:])), order.Uint64(raw[40:])
	const plausiblePages = 1 << 40
	if pageBytes < minPageBytes || pageBytes > maxPageBytes || pages > plausiblePages {
		return meta{}, false
	}
	return meta{pageBytes: pageBytes, pages: int64(pages), root: order.Uint64(raw[16:]),
		txn: order.Uint64(raw[48:])}, true
}

// trailerBytes is the length of the checksum at the end of the file, or 0 if there is none: pages are multiples of 512
// bytes.
func (l layout) trailerBytes() int64 {
	if l.fileBytes%512 == sha256.Size {
		return sha256.Size
	}
	return 0
}

// check compares the file's size with its header.
func (l layout) check() error {
	content := l.fileBytes - l.trailerBytes()
	switch {
	case content < l.usedBytes:
		return fmt.Errorf("%w: it has %d of %d bytes", ErrTruncated, content, l.usedBytes)
	case content%l.pageBytes != 0:
		return fmt.Errorf("%w: its last %d bytes are part of a page or of a checksum",
			ErrTruncated, content%l.pageBytes)
	}
	return nil
}

// checksum reads the whole content and compares it with the checksum after it, if there is one.
func (l layout) checksum(ctx context.Context, file *os.File) (sum string, verified bool, err error) {
	content := l.fileBytes - l.trailerBytes()
	hash := sha256.New()
	reader := io.NewSectionReader(file, 0, content)
	for buffer := make([]byte, 1<<20); ; {
		if err := ctx.Err(); err != nil {
			return "", false, err
		}
		n, err := reader.Read(buffer)
		hash.Write(buffer[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", false, fmt.Errorf("read content: %w", err)
		}
	}
	got := hash.Sum(nil)
	if l.trailerBytes() == 0 {
		return hex.EncodeToString(got), false, nil
	}
	want := make([]byte, sha256.Size)
	if _, err := file.ReadAt(want, content); err != nil {
		return "", false, fmt.Errorf("read checksum: %w", err)
	}
	if string(want) != string(got) {
		return "", false, fmt.Errorf("%w: its checksum is %x, its content has %x", ErrDamaged, want[:4], got[:4])
	}
	return hex.EncodeToString(got), true, nil
}
