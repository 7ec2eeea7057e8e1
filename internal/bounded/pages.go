// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package bounded

import (
	"errors"
	"fmt"
	"hash/maphash"
)

// ErrEndless says that the pages of a list do not end; test with errors.Is.
var ErrEndless = errors.New("the list has no end")

const (
	// maxEmptyPages bounds the pages without an object in a row. A kube-apiserver sends none; an aggregated API server
	// may filter the objects of a page.
	maxEmptyPages = 100
	// maxObjects bounds the objects of one list: several times as many as an etcd of 8 GiB can store.
	maxObjects = 10_000_000
)

// MaxToken bounds the bytes of a continue token, which is a part of the next request's URL: API servers refuse a request
// whose URL and headers have more than 1 MiB. The token of a kube-apiserver contains a key, and the name of a Role may
// have half a MiB.
const MaxToken = 768 << 10

// Pages follows one list from page to page, and notices if it does not end: if a continue token or a page repeats, if a
// hundred pages in a row have no object, or if there are more objects than etcd can store. It remembers only one token
// and one page: after 1, 2, 4, 8, … pages it remembers the current ones, so it notices a cycle of any length after at
// most three times that length (R. Brent, An improved Monte Carlo factorization algorithm, 1980). The zero value is
// ready to use.
type Pages struct {
	seed         maphash.Seed
	count, until int64
	token        string
	page         uint64
	empty, total int64
}

// Next adds a page: the identities of its objects, and its continue token. It returns an ErrEndless if the caller must
// not request another page.
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
	case len(token) > MaxToken:
		return fmt.Errorf("%w: a continue token has %d bytes, and at most %d are followed",
			ErrEndless, len(token), MaxToken)
	case p.count > 0 && token == p.token:
		return fmt.Errorf("%w: a continue token came for the second time", ErrEndless)
	case p.count > 0 && objects > 0 && page == p.page:
		return fmt.Errorf("%w: a page of %d objects came for the second time", ErrEndless, objects)
	case p.empty >= maxEmptyPages:
		return fmt.Errorf("%w: %d pages in a row had no object", ErrEndless, p.empty)
	case p.total > maxObjects:
		return fmt.Errorf("%w: it has more than %d objects", ErrEndless, maxObjects)
	}
	if p.count++; p.count == p.until {
		p.token, p.page, p.until = token, page, 2*p.until
	}
	return nil
}
