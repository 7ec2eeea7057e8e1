// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"sync/atomic"
)

// meter counts the bytes of the bodies of requests and answers as they are transferred, so it counts a compressed
// answer before it is decompressed. It does not count headers and the overhead of connections (HTTP/2 frames, TLS). It
// is safe for concurrent use.
type meter struct{ bytes atomic.Int64 }

type meterKey struct{}

// Count returns a context. The bytes of its requests through a Metered transport count for the slot until it is
// released.
func (s Slot) Count(ctx context.Context) context.Context {
	return context.WithValue(ctx, meterKey{}, s.meter)
}

// Metered returns a wrapper for transports that counts the bytes of requests whose context comes from Slot.Count. For
// these it asks for compressed answers and decompresses them itself, because http.Transport hides how many bytes it
// received. plain means that no answer may be compressed, like rest.Config.DisableCompression. Other requests pass
// unchanged. Wrapping twice is harmless.
func Metered(plain bool) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper { return &metered{next: next, plain: plain} }
}

type metered struct {
	next  http.RoundTripper
	plain bool
}

// RoundTrip implements http.RoundTripper.
func (t *metered) RoundTrip(request *http.Request) (*http.Response, error) {
	m, counted := request.Context().Value(meterKey{}).(*meter)
	if !counted {
		return t.next.RoundTrip(request)
	}
	request = request.Clone(context.WithValue(request.Context(), meterKey{}, nil)) // so that it is counted once
	decompress := !t.plain && request.Header.Get("Accept-Encoding") == "" && request.Header.Get("Range") == ""
	if decompress {
		request.Header.Set("Accept-Encoding", "gzip")
	}
	m.bytes.Add(max(request.ContentLength, 0))
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return response, err
	}
	response.Body = &meteredBody{ReadCloser: response.Body, meter: m}
	if decompress && response.Header.Get("Content-Encoding") == "gzip" {
		response.Body = &decompressed{body: response.Body}
		response.Header.Del("Content-Encoding")
		response.Header.Del("Content-Length")
		response.ContentLength, response.Uncompressed = -1, true
	}
	return response, nil
}

// WrappedRoundTripper lets client-go find the wrapped RoundTripper.
func (t *metered) WrappedRoundTripper() http.RoundTripper { return t.next }

// meteredBody counts the bytes that are read.
type meteredBody struct {
	io.ReadCloser
	meter *meter
}

// Read implements io.Reader.
func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.meter.bytes.Add(int64(n))
	return n, err
}

// decompressed decompresses a body. It reads nothing before the caller reads.
type decompressed struct {
	body   io.ReadCloser
	reader *gzip.Reader
	err    error
}

// Read implements io.Reader.
func (d *decompressed) Read(p []byte) (int, error) {
	if d.reader == nil && d.err == nil {
		d.reader, d.err = gzip.NewReader(d.body)
	}
	if d.err != nil {
		return 0, d.err
	}
	return d.reader.Read(p)
}

// Close implements io.Closer.
func (d *decompressed) Close() error { return d.body.Close() }
