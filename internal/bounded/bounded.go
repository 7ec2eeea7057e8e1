// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package bounded bounds the answers of API servers (I6).
//
// An API server, in particular an aggregated one, may be faulty or hostile: its answer may not end, may contain a list
// of a million empty elements, or may be a list whose pages never end. This package owns the limits: Transport counts
// the bytes of every answer while they are read, List counts the elements while they are decoded, and Pages follows the
// pages. The package does not decide what an answer means.
//
// Invariants:
//   - Bytes are counted after decompression: a small compressed answer cannot become a large one.
//   - No answer is truncated silently: an answer beyond its limit is an error that names the limit, the host and the
//     path. A failure beyond its limit keeps its HTTP status, by which callers decide, and its message says that the
//     rest was not read.
//   - A watch does not end and has no limit.
package bounded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// ErrTooLarge says that an answer has more bytes or more elements than may be read; test with errors.Is.
var ErrTooLarge = errors.New("answer too large")

// The limits, in bytes. Each is several times the largest answer of real clusters.
const (
	// Discovery bounds a document of /api, /apis or a group-version. An entry has about 350 bytes, so the limit is
	// about 6,000 resources.
	Discovery = 2 << 20
	// ObjectMetadata bounds the metadata of one object. etcd accepts objects of at most 1.5 MiB by default.
	ObjectMetadata = 2 << 20
	// Failure bounds an answer whose status is 400 or greater.
	Failure = 512 << 10
	// Document bounds all other answers: lists, complete objects. The largest is a page of CustomResourceDefinitions,
	// which is decoded while it arrives.
	Document = 64 << 20
)

// TooLargeError is the ErrTooLarge of one answer.
type TooLargeError struct {
	Host, Method, Path string
	// Status is the answer's HTTP status.
	Status int
	// Limit is how many bytes may be read.
	Limit int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%v: %s sent more than %s for %s %s (status %d)", ErrTooLarge, e.Host, size(e.Limit),
		e.Method, e.Path, e.Status)
}

func (e *TooLargeError) Unwrap() error { return ErrTooLarge }

func size(bytes int64) string {
	if bytes < 1<<20 {
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}

type limitKey struct{}

// WithLimit returns a context that sets the limit of successful answers to its requests.
func WithLimit(ctx context.Context, bytes int64) context.Context {
	return context.WithValue(ctx, limitKey{}, bytes)
}

// Transport returns a RoundTripper whose answers cannot be read beyond their limit. It must get decompressed answers,
// as a wrapper of http.Transport does. Wrapping twice is harmless.
func Transport(next http.RoundTripper) http.RoundTripper { return &transport{next: next} }

// Config returns a copy of a configuration. The answers to all clients made from it are bounded.
func Config(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.Wrap(Transport)
	return c
}

type transport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(request)
	if err != nil {
		return response, err
	}
	limit, limited := limitOf(request, response)
	if !limited {
		return response, nil
	}
	tooLarge := &TooLargeError{
		Host: request.URL.Host, Method: request.Method, Path: cut(request.URL.Path),
		Status: response.StatusCode, Limit: limit,
	}
	response.Body = &body{ReadCloser: response.Body, left: limit, tooLarge: tooLarge}
	if response.StatusCode >= http.StatusBadRequest {
		return boundFailure(request, response)
	}
	return response, nil
}

// boundFailure reads a failure. It replaces one that is too large by a Status with the same code and the reason.
func boundFailure(request *http.Request, response *http.Response) (*http.Response, error) {
	raw, err := io.ReadAll(response.Body)
	response.Body.Close()
	if errors.Is(err, ErrTooLarge) {
		raw, err = json.Marshal(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Code: int32(response.StatusCode), Message: err.Error(), //nolint:gosec // it has three digits
		})
		response.Header.Set("Content-Type", "application/json")
		response.Header.Del("Content-Encoding") // an outer RoundTripper would decompress it
	}
	if err != nil {
		return nil, fmt.Errorf("read failure of %s: %w", request.URL.Host, err)
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	return response, nil
}

// Read sends a request and returns the answer. The error contains the API server's message, or is a TooLargeError.
func Read(ctx context.Context, request *rest.Request) ([]byte, error) {
	body, err := request.Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

// WrappedRoundTripper lets client-go find the wrapped RoundTripper.
func (b *transport) WrappedRoundTripper() http.RoundTripper { return b.next }

// limitOf returns the limit of an answer. limited is false if the answer may continue indefinitely.
func limitOf(request *http.Request, response *http.Response) (bytes int64, limited bool) {
	if response.StatusCode >= http.StatusBadRequest {
		return Failure, true
	}
	if response.StatusCode == http.StatusSwitchingProtocols || isWatch(request) {
		return 0, false
	}
	if bytes, ok := request.Context().Value(limitKey{}).(int64); ok {
		return bytes, true
	}
	switch {
	case isDiscovery(request.URL.Path):
		return Discovery, true
	case strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadata;"):
		return ObjectMetadata, true
	}
	return Document, true
}

func isWatch(request *http.Request) bool {
	watch := request.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}

// isDiscovery reports whether the path is that of a discovery document. The address in a kubeconfig may add a prefix to
// the path.
func isDiscovery(path string) bool {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	for i, s := range segments {
		switch left := len(segments) - i - 1; {
		case s == "api" && left <= 1, s == "apis" && left <= 2:
			return true
		case s == "api", s == "apis":
			return false
		}
	}
	return false
}

// body is an answer's body that can be read up to its limit.
type body struct {
	io.ReadCloser
	left     int64
	tooLarge *TooLargeError
}

// Read implements io.Reader. It reads one byte more than the limit, to distinguish an answer that is too large from one
// that just fits.
func (b *body) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, b.tooLarge
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n - 1, b.tooLarge
	}
	return n, err
}

// cut shortens text from a server in a message.
func cut(text string) string {
	const most = 256
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}
