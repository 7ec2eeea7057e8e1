// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package bounded

import (
	"context"
	"errors"
)

const (
	// pageBytes bounds one page of EachPage. JSON takes several times its size while it is decoded.
	pageBytes = 8 << 20
	// firstPage and mostPage are how many objects are asked for at first, and at most.
	firstPage, mostPage = 50, 500
)

// Page is one page of a list as its reader knows it.
type Page struct {
	// Continue is its continue token; empty: it is the last one.
	Continue string
	// Identities of its objects, for finding out that the list has no end.
	Identities []string
}

// EachPage reads a list of objects of unknown size, page by page, with at most some 8 MiB of answers in memory at a
// time (I6): it asks for fewer objects where a page has more bytes than that, and for more where it has fewer. A single
// object that is larger is ErrTooLarge. read sends one request with the given limit and continue token, under the
// context that it is given, through a client that is bounded (Config). It is called again for the same page after an
// ErrTooLarge.
func EachPage(ctx context.Context, read func(ctx context.Context, limit int64, token string) (Page, error)) error {
	var pages Pages
	token := ""
	for limit := int64(firstPage); ; limit = min(2*limit, mostPage) {
		page, err := read(WithLimit(ctx, pageBytes), limit, token)
		for errors.Is(err, ErrTooLarge) && limit > 1 {
			limit /= 2
			page, err = read(WithLimit(ctx, pageBytes), limit, token)
		}
		if err != nil {
			return err
		}
		if err := pages.Next(page.Continue, func(yield func(string) bool) {
			for _, identity := range page.Identities {
				if !yield(identity) {
					return
				}
			}
		}); err != nil {
			return err
		}
		if token = page.Continue; token == "" {
			return nil
		}
	}
}
