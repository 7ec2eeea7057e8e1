// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// pages reads the B+ trees of a bbolt file.
//
// The problem: the author of a file controls which page leads to which. bbolt follows them without checks: a page that
// leads to itself consumes memory until none is left, and neither a context nor a limit ends that. This reader reads
// every page at most once per walk, with a bound on the depth and on the memory, and checks the context between any two
// pages. So a walk takes time in proportion to the size of the file, whatever its contents, and memory that does not
// depend on it (I6).
//
// Rejected: checking the pages before bbolt reads them. If two programs read the same damaged file differently, the
// check is worthless.
//
// Invariants:
//   - A walk visits the keys of a tree in descending order; any other order is ErrDamaged. The search for the newest
//     revision of a key relies on it.
//   - It reads nothing beyond the pages that the header counts.
//
// Source of the format: go.etcd.io/bbolt/internal/common.
type pages struct {
	file      io.ReaderAt
	pageBytes int64
	count     uint64 // the number of pages according to the header
	// buffers are reused from page to page. value contains one element's key and value.
	elements, value []byte
}

const (
	branchFlag, leafFlag       = 0x01, 0x02
	branchElement, leafElement = 16, 16
	bucketElementFlag          = 0x01
	bucketHeaderBytes          = 16
	maxDepth                   = 32
	maxKeyBytes                = 1 << 15 // bbolt's own limit
	// etcd refuses requests of more than 1.5 MiB by default, and warns about limits above 10 MiB
	maxValueBytes         = 32 << 20
	maxBucketBytes        = 1 << 16 // an inline bucket has at most a quarter of a page
	noPage         uint64 = 0
)

// page is the header of a page.
type page struct {
	flags uint16
	count int
	bytes int64
}

// entry is one element of a leaf. Its slices are valid during the call that receives it.
type entry struct {
	key, value []byte
	bucket     bool
}

// walk is one walk over one tree.
type walk struct {
	*pages
	ctx   context.Context
	seen  []uint64 // one bit per page
	last  []byte   // the key that was visited last
	any   bool
	visit func(entry) error
}

// errStop ends a walk early.
var errStop = errors.New("stop")

// descend visits the entries of the tree below a root page, beginning with the greatest key.
func (p *pages) descend(ctx context.Context, root uint64, visit func(entry) error) error {
	w := &walk{pages: p, ctx: ctx, seen: make([]uint64, p.count/64+1), visit: visit}
	if err := w.page(root, 0); !errors.Is(err, errStop) {
		return err
	}
	return nil
}

// bucket visits the entries of the named bucket of the tree below root. found is false if there is no such bucket.
func (p *pages) bucket(ctx context.Context, root uint64, name []byte, visit func(entry) error) (found bool, err error) {
	var header []byte
	err = p.descend(ctx, root, func(e entry) error {
		if !e.bucket || !bytes.Equal(e.key, name) {
			return nil
		}
		if len(e.value) < bucketHeaderBytes || len(e.value) > maxBucketBytes {
			return fmt.Errorf("%w: the bucket %q has %d bytes", ErrDamaged, name, len(e.value))
		}
		header = bytes.Clone(e.value)
		return errStop
	})
	if err != nil || header == nil {
		return false, err
	}
	if at := binary.NativeEndian.Uint64(header); at != noPage {
		return true, p.descend(ctx, at, visit)
	}
	// A small bucket is one page within the value of its entry.
	inline := &pages{file: bytes.NewReader(header[bucketHeaderBytes:]),
		pageBytes: int64(len(header) - bucketHeaderBytes), count: 1}
	return true, inline.descend(ctx, noPage, visit)
}

// page visits everything below one page.
func (w *walk) page(id uint64, depth int) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if depth > maxDepth {
		return fmt.Errorf("%w: its pages are nested more than %d deep", ErrDamaged, maxDepth)
	}
	header, err := w.header(id)
	if err != nil {
		return err
	}
	switch header.flags {
	case branchFlag:
		return w.branch(id, header, depth)
	case leafFlag:
		return w.leaf(id, header)
	}
	return fmt.Errorf("%w: page %d is of no known kind (%#x)", ErrDamaged, id, header.flags)
}

// header reads the header of a page and marks the page as visited.
func (w *walk) header(id uint64) (page, error) {
	if id >= w.count {
		return page{}, fmt.Errorf("%w: it leads to page %d of %d", ErrDamaged, id, w.count)
	}
	var raw [pageHeaderBytes]byte
	if err := w.read(raw[:], int64(id)*w.pageBytes); err != nil {
		return page{}, err
	}
	order := binary.NativeEndian
	overflow := uint64(order.Uint32(raw[12:]))
	if order.Uint64(raw[:]) != id || overflow >= w.count-id {
		return page{}, fmt.Errorf("%w: page %d says that it is %d, of %d pages", ErrDamaged, id,
			order.Uint64(raw[:]), overflow+1)
	}
	for i := id; i <= id+overflow; i++ {
		if w.seen[i/64]&(1<<(i%64)) != 0 {
			return page{}, fmt.Errorf("%w: two ways lead to page %d", ErrDamaged, i)
		}
		w.seen[i/64] |= 1 << (i % 64)
	}
	p := page{flags: order.Uint16(raw[8:]), count: int(order.Uint16(raw[10:])), bytes: int64(overflow+1) * w.pageBytes}
	if pageHeaderBytes+int64(p.count)*leafElement > p.bytes {
		return page{}, fmt.Errorf("%w: page %d has no room for its %d elements", ErrDamaged, id, p.count)
	}
	return p, nil
}

// read fills into completely or fails.
func (p *pages) read(into []byte, offset int64) error {
	if _, err := p.file.ReadAt(into, offset); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it became shorter while it was read", ErrDamaged)
	} else if err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	return nil
}

func (w *walk) branch(id uint64, header page, depth int) error {
	if header.count == 0 {
		return fmt.Errorf("%w: page %d leads nowhere", ErrDamaged, id)
	}
	raw := make([]byte, header.count*branchElement)
	if err := w.read(raw, int64(id)*w.pageBytes+pageHeaderBytes); err != nil {
		return err
	}
	children := make([]uint64, header.count)
	for i := range children {
		children[i] = binary.NativeEndian.Uint64(raw[i*branchElement+8:])
	}
	for _, child := range slices.Backward(children) {
		if err := w.page(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// leaf visits the elements of a page, beginning with the last one. It reads a page of the usual size in one piece, and
// a larger one element by element.
func (w *walk) leaf(id uint64, header page) error {
	at, whole := int64(id)*w.pageBytes, header.bytes <= maxPageBytes
	need := int64(pageHeaderBytes + header.count*leafElement)
	if whole {
		need = header.bytes
	}
	w.elements = sized(w.elements, need)
	if err := w.read(w.elements, at); err != nil {
		return err
	}
	order := binary.NativeEndian
	for i := header.count - 1; i >= 0; i-- {
		begin := int64(pageHeaderBytes + i*leafElement)
		raw := w.elements[begin:]
		flags, keyBytes, valueBytes := order.Uint32(raw), int64(order.Uint32(raw[8:])), int64(order.Uint32(raw[12:]))
		from := begin + int64(order.Uint32(raw[4:])) // counted from the element
		if keyBytes > maxKeyBytes || valueBytes > maxValueBytes || from+keyBytes+valueBytes > header.bytes {
			return fmt.Errorf("%w: page %d has an element of %d and %d bytes at %d", ErrDamaged, id,
				keyBytes, valueBytes, from)
		}
		var content []byte
		if whole {
			content = w.elements[from : from+keyBytes+valueBytes]
		} else {
			if err := w.ctx.Err(); err != nil {
				return err
			}
			w.value = sized(w.value, keyBytes+valueBytes)
			if err := w.read(w.value, at+from); err != nil {
				return err
			}
			content = w.value
		}
		if err := w.entry(entry{key: content[:keyBytes], value: content[keyBytes:],
			bucket: flags&bucketElementFlag != 0}); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) entry(e entry) error {
	if w.any && bytes.Compare(e.key, w.last) >= 0 {
		return fmt.Errorf("%w: its keys are not in order", ErrDamaged)
	}
	w.last, w.any = append(w.last[:0], e.key...), true
	return w.visit(e)
}

// sized returns a slice of n bytes. It reuses buffer if that is large enough and not much larger than necessary.
func sized(buffer []byte, n int64) []byte {
	const keep = 4 << 20
	if int64(cap(buffer)) >= n && (cap(buffer) <= keep || n > keep) {
		return buffer[:n]
	}
	return make([]byte, n)
}
