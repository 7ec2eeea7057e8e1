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

// layout is what the header of a bbolt file says about its size. It is read without mapping the file, because the pages that a
// truncated file lacks can be mapped but not read.
type layout struct {
	fileBytes int64
	pageBytes int64
	// usedBytes is how much of the file is used: a snapshot has exactly as much in front of its checksum.
	usedBytes int64
}

// A bbolt file begins with two meta pages, the newer valid one of which counts; numbers are in the machine's byte order.
// Source: go.etcd.io/bbolt/internal/common, type Meta.
const (
	boltMagic       = 0xED0CDAED
	pageHeaderBytes = 16
	metaBytes       = 64
	minPageBytes    = 1 << 10
	maxPageBytes    = 1 << 16
)

// readLayout reads the header, and fails with ErrNoSnapshot where there is none.
func readLayout(file *os.File) (layout, error) {
	info, err := file.Stat()
	if err != nil {
		return layout{}, fmt.Errorf("read size: %w", err)
	}
	found, newestTxn := layout{fileBytes: info.Size()}, int64(-1)
	offsets := []int64{0}
	for size := int64(minPageBytes); size <= maxPageBytes; size *= 2 {
		offsets = append(offsets, size)
	}
	for _, offset := range offsets {
		meta := make([]byte, metaBytes)
		if _, err := file.ReadAt(meta, offset+pageHeaderBytes); err != nil {
			continue
		}
		page, used, txn, ok := parseMeta(meta)
		if ok && (offset == 0 || offset == page) && txn > newestTxn {
			found.pageBytes, found.usedBytes, newestTxn = page, used, txn
		}
	}
	if newestTxn < 0 {
		return layout{}, fmt.Errorf("%w: it does not begin like a database of etcd", ErrNoSnapshot)
	}
	return found, nil
}

func parseMeta(meta []byte) (pageBytes, usedBytes, txn int64, ok bool) {
	sum := fnv.New64a()
	sum.Write(meta[:56])
	order := binary.NativeEndian
	if order.Uint32(meta) != boltMagic || order.Uint64(meta[56:]) != sum.Sum64() {
		return 0, 0, 0, false
	}
	pageBytes = int64(order.Uint32(meta[8:]))
	pages := order.Uint64(meta[40:])
	const plausiblePages = 1 << 40
	if pageBytes < minPageBytes || pageBytes > maxPageBytes || pages > plausiblePages {
		return 0, 0, 0, false
	}
	return pageBytes, int64(pages) * pageBytes, int64(order.Uint64(meta[48:])), true
}

// trailerBytes is how long the checksum at the file's end is, 0 where there is none: pages are multiples of 512 bytes.
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
		return fmt.Errorf("%w: its last %d bytes are part of a page or of a checksum", ErrTruncated, content%l.pageBytes)
	}
	return nil
}

// checksum reads the whole content and compares it with the checksum behind it, where there is one.
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
