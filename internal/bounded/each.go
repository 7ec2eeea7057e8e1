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
	// firstPage is how many objects the first request asks for, and mostPage how many any request asks for at most.
	firstPage, mostPage = 50, 500
)

// Page is what EachPage has to know of a page.
type Page struct {
	// Continue is the continue token; it is empty on the last page.
	Continue string
	// Identities identify the objects on the page. By them, EachPage notices a list that does not end.
	Identities []string
}

// EachPage reads a list of objects of unknown size page by page, with at most about 8 MiB of answers in memory at a
// time (I6): if a page has more bytes, it asks for fewer objects; after each page, it asks for more. A single object
// that is larger is an ErrTooLarge. read sends one request with the given context, limit and continue token through a
// client that is bounded (Config). After an ErrTooLarge, it is called again for the same page.
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
