// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/internal/printable"
)

// A page contains only metadata, but an annotation may have a quarter of a MiB. So pages are sized by bytes, and a page
// that exceeds the limit is not read to its end, but requested again with fewer objects (I6).
const (
	firstPageObjects = 100
	maxPageObjects   = 500
	pageBytes        = 512 << 10
	maxPageBytes     = 6 << 20 // more than one object, and its name once more in a continue token that escapes it
)

// pageSizer decides how many objects to request.
type pageSizer struct {
	fixed          int64
	bytesPerObject float64
}

func (z *pageSizer) limit() int64 {
	limit := int64(firstPageObjects)
	if z.bytesPerObject > 0 {
		limit = min(max(int64(pageBytes/z.bytesPerObject), 1), maxPageObjects)
	}
	if z.fixed > 0 && (z.bytesPerObject == 0 || float64(z.fixed)*z.bytesPerObject < maxPageBytes) {
		return z.fixed
	}
	return limit
}

func (z *pageSizer) saw(p page) {
	if n := len(p.objects); n > 0 {
		z.bytesPerObject = float64(p.bytes) / float64(n)
	}
}

func (z *pageSizer) sawTooLarge(limit int64) {
	z.bytesPerObject = 2 * max(z.bytesPerObject, float64(maxPageBytes)/float64(limit))
}

// list reads a page, and retries as long as that helps.
func (s *Sweep) list(starting untilStop, version string, limit int64, token string) (page, error) {
	var p page
	err := s.try(starting, func(ctx context.Context) (pace.Kind, error) {
		var err error
		p, err = s.wire.list(ctx, version, limit, token, maxPageBytes)
		return pace.Other, err
	})
	s.sawResourceVersion(p.resourceVersion)
	return p, s.gone(starting, s.explainList(err))
}

// explainList replaces errors by ones that a caller can act on.
func (s *Sweep) explainList(err error) error {
	name := s.wire.target.GroupResource()
	switch {
	case err == nil, errors.Is(err, ErrAnswerTooLarge), errors.Is(err, ErrUntrustedAnswer), classify(err) == expired,
		classify(err) == cancelled, errors.Is(err, ErrStopped):
		return err
	case classify(err) == missing:
		return fmt.Errorf("%w: %s", ErrResourceGone, name)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: cannot list %s at the cluster scope: %w", ErrForbidden, name, err)
	case strings.Contains(err.Error(), conversionWebhook), isPermanent(err):
		return s.notReady(err)
	}
	return fmt.Errorf("list %s: %w", name, err)
}

// sawResourceVersion remembers the newest resourceVersion that was read.
func (s *Sweep) sawResourceVersion(n uint64) {
	for {
		newest := s.newest.Load()
		if n <= newest || s.newest.CompareAndSwap(newest, n) {
			return
		}
	}
}

// maxExpirations is how often the continue token of one list may expire.
const maxExpirations = 6

// pages calls each with every page from the continue token on, and reads one page ahead. If a token has expired, the
// error contains one that continues from the same key; if it does not, the list starts over, and first is true again.
func (s *Sweep) pages(starting untilStop, token string, each func(p page, first bool) error) error {
	type listed struct {
		page
		first bool
		err   error
	}
	ahead := make(chan listed)
	ctx, cancel := context.WithCancel(starting)
	done := make(chan struct{})
	defer func() { cancel(); <-done }()
	go func() {
		defer close(done)
		defer close(ahead)
		var list course
		// more makes a page end with another object if the next one cannot be requested.
		for first, expirations, more := token == "", 0, int64(0); ; {
			limit := s.sizer.limit() + more
			p, err := s.list(untilStop{ctx}, s.wire.target.Resource.Version, limit, token)
			if err == nil {
				err = p.continues()
			}
			switch {
			case errors.Is(err, errNoNext) && more < maxPageItems/2:
				more = 2*more + 1
				continue
			case errors.Is(err, ErrAnswerTooLarge) && limit > 1 && more == 0:
				s.sizer.sawTooLarge(limit)
				continue
			case classify(err) == expired && expirations < maxExpirations:
				expirations++
				if token = continueToken(err); token != "" {
					continue
				}
				if err = list.startOver(); err == nil {
					first = true
					continue
				}
			case err == nil:
				expirations, more = 0, 0
				s.sizer.saw(p)
				err = list.follow(p, s.wire.target.Origin != Aggregated)
			}
			if errors.Is(err, errMisplaced) {
				err = s.notReady(err)
			}
			if errors.Is(err, ErrEndlessList) {
				err = fmt.Errorf("list %s at %s: %w", s.wire.target.GroupResource(), s.wire.host(), err)
			}
			select {
			case ahead <- listed{page: p, first: first, err: err}:
			case <-ctx.Done():
				return
			}
			if token, first = p.next, false; err != nil || token == "" {
				return
			}
		}
	}()
	for next := range ahead {
		if next.err != nil {
			return next.err
		}
		if err := each(next.page, next.first); err != nil {
			return err
		}
	}
	return causeOf(ctx, nil)
}

// errNoNext reports that no request gets the page after one, which has to end with another object.
var errNoNext = fmt.Errorf("%w: the next page cannot be requested", ErrEndlessList)

// continues returns an errNoNext if the continue token is too long for a request, or names another key than that of the
// last object. A kube-apiserver's token contains the key as JSON, which replaces bytes that are not UTF-8: the next page
// would leave objects out, or never come (I4).
func (p page) continues() error {
	if p.next == "" || len(p.objects) == 0 {
		return nil
	}
	last := p.objects[len(p.objects)-1]
	if utf8.ValidString(last.key()) && len(p.next) <= bounded.MaxToken {
		return nil
	}
	return fmt.Errorf("%w: it follows %s, whose name is too long or not UTF-8", errNoNext,
		printable.Name(last.namespace, last.name))
}

// errMisplaced says that etcd holds an object at the key of another one: two values have one name, and one of them is
// never rewritten (I4). Lists from a watch cache do not show that, only an audit does.
var errMisplaced = errors.New("etcd holds an object at a key that is not its own")

// maxListStarts bounds how often one pass starts its list over because a continue token expired without a replacement.
const maxListStarts = 100

// course follows one list from page to page, to detect that it does not end.
type course struct {
	pages  bounded.Pages
	last   string // the greatest key so far
	starts int
}

// follow adds the next page. etcd lists keys in ascending order, and kube-apiserver continues after the last one.
// Aggregated API servers may use any order.
func (c *course) follow(p page, ascending bool) error {
	last := c.last
	for _, o := range p.objects {
		key := o.key()
		switch {
		case ascending && key <= c.last:
			return fmt.Errorf("%w: %s came after a page that ended with %s", ErrEndlessList, printable.Quote(key), printable.Quote(c.last))
		case ascending && key == last:
			return fmt.Errorf("%w: the list has %s twice; audit names the keys", errMisplaced, printable.Quote(key))
		}
		last = max(last, key)
	}
	c.last = last
	return c.pages.Next(p.next, func(yield func(string) bool) {
		for _, o := range p.objects {
			if !yield(o.key() + "\x00" + string(o.uid)) {
				return
			}
		}
	})
}

// startOver records that the list starts over.
func (c *course) startOver() error {
	if c.starts++; c.starts > maxListStarts {
		return fmt.Errorf("%w: its continue tokens expired %d times, and no other was given", ErrEndlessList, c.starts)
	}
	c.pages, c.last = bounded.Pages{}, ""
	return nil
}

// continueToken returns the token that an API server sends with a 410: it continues from the same key, in the present
// state. Objects that were written since the list began were written in this epoch.
func continueToken(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && len(status.Status().Continue) <= bounded.MaxToken {
		return status.Status().Continue
	}
	return ""
}

// maxPageItems bounds the objects of one page, whatever was asked for. An item of two bytes becomes hundreds in memory,
// so that the bytes of a page bound nothing by themselves (I6).
const maxPageItems = 10_000

// Protobuf in Kubernetes: a magic number, then runtime.Unknown, whose field 2 is the list, whose field 2 is an item.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding
var protobufMagic = []byte("k8s\x00")

const (
	unknownRaw = 2
	listItems  = 2
)

// countItems returns ErrAnswerTooLarge for a page with too many items, before they are decoded. What is no list it
// leaves to the decoder.
func countItems(raw []byte) error {
	body, isProtobuf := bytes.CutPrefix(raw, protobufMagic)
	if !isProtobuf {
		var list struct {
			Items bounded.List[json.RawMessage] `json:"items"`
		}
		if err := json.Unmarshal(raw, &list); err != nil {
			return fmt.Errorf("%w: %w", errMalformed, err)
		}
		return nil
	}
	items := 0
	for list := range fieldsOf(body, unknownRaw) {
		for range fieldsOf(list, listItems) {
			if items++; items > maxPageItems {
				return fmt.Errorf("%w: a page has more than %d items", ErrAnswerTooLarge, maxPageItems)
			}
		}
	}
	return nil
}

// fieldsOf yields the values of one field, which are messages; it ends where the bytes are no protobuf.
func fieldsOf(message []byte, number protowire.Number) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(message) > 0 {
			n, kind, size := protowire.ConsumeField(message)
			if size < 0 {
				return
			}
			if n == number && kind == protowire.BytesType {
				_, _, tag := protowire.ConsumeTag(message)
				value, _ := protowire.ConsumeBytes(message[tag:])
				if !yield(value) {
					return
				}
			}
			message = message[size:]
		}
	}
}
