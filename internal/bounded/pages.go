// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package bounded

import (
	"errors"
	"fmt"
	"hash/maphash"
)

// ErrEndless says that the pages of a list have no end; test with errors.Is.
var ErrEndless = errors.New("the list has no end")

const (
	// maxEmptyPages bounds the pages without an object in a row. Kubernetes' own API servers send none; an aggregated
	// one may filter what it has read.
	maxEmptyPages = 100
	// maxObjects bounds the objects of one list: several times what an etcd of 8 GiB can hold.
	maxObjects = 10_000_000
	// maxToken bounds a continue token, in bytes. It goes into the next request's address; those of kube-apiservers
	// hold a key.
	maxToken = 16 << 10
)

// Pages follows one list from page to page and finds out that it has no end: a continue token or a page that repeats, a
// hundred pages in a row without an object, more objects than there can be. It remembers one token and one page,
// however many there are: after 1, 2, 4, 8… pages it takes the present one, so that a cycle of any length is found
// after at most three times its length (R. Brent, An improved Monte Carlo factorization algorithm, 1980). The zero
// value is ready.
type Pages struct {
	seed         maphash.Seed
	seen, until  int64
	token        string
	page         uint64
	empty, total int64
}

// Next takes in a page: the identities of its objects, and its continue token. It returns an ErrEndless where another
// page must not be asked for.
func (p *Pages) Next(token string, identities func(yield func(string) bool)) error {
	if p.until == 0 {
		p.seed, p.until = maphash.MakeSeed(), 1
	}
	var h maphash.Hash
	h.SetSeed(p.seed)
	objects := int64(0)
	for identity := range identities {
		h.WriteString(identity)
		h.WriteByte(0)
		objects++
	}
	page := h.Sum64()
	p.total += objects
	if p.empty++; objects > 0 {
		p.empty = 0
	}
	switch {
	case token == "":
		return nil
	case len(token) > maxToken:
		return fmt.Errorf("%w: a continue token has %d bytes, and at most %d are followed",
			ErrEndless, len(token), maxToken)
	case p.seen > 0 && token == p.token:
		return fmt.Errorf("%w: a continue token came for the second time", ErrEndless)
	case p.seen > 0 && objects > 0 && page == p.page:
		return fmt.Errorf("%w: a page of %d objects came for the second time", ErrEndless, objects)
	case p.empty >= maxEmptyPages:
		return fmt.Errorf("%w: %d pages in a row had no object", ErrEndless, p.empty)
	case p.total > maxObjects:
		return fmt.Errorf("%w: it has more than %d objects", ErrEndless, maxObjects)
	}
	if p.seen++; p.seen == p.until {
		p.token, p.page, p.until = token, page, 2*p.until
	}
	return nil
}
