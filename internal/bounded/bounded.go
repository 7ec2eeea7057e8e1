// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package bounded bounds what API servers answer (I6).
//
// An API server, and an aggregated one in particular, is software of other people: it may answer without an end, with
// a list of a million empty elements, or with a list whose pages never end. This package owns the limits: Transport
// counts the bytes of every answer while they are read, List counts the elements while they are decoded, and Pages
// follows the pages.
//
// Invariants:
//   - Bytes are counted after decompression: a small compressed answer cannot become a large one.
//   - Nothing is cut silently: an answer beyond its limit is an error that names the limit, the host and the path. A
//     failure beyond its limit keeps its HTTP status, which callers decide by, and its message says that the rest was
//     not read.
//   - A watch has no end and no limit.
//
// It decides nothing about what an answer means.
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

// The limits, in bytes. Each is several times what clusters in use answer.
const (
	// Discovery bounds a document of /api, /apis or a group-version. An entry has about 350 bytes, so this is 6,000
	// resources.
	Discovery = 2 << 20
	// ObjectMetadata bounds the metadata of one object. etcd takes objects of at most 1.5 MiB by default.
	ObjectMetadata = 2 << 20
	// Failure bounds an answer whose status is 400 or greater.
	Failure = 512 << 10
	// Document bounds everything else: lists, whole objects. The largest that is asked for is a page of
	// CustomResourceDefinitions, which is decoded while it arrives.
	Document = 64 << 20
)

// TooLargeError is an ErrTooLarge about the bytes of one answer.
type TooLargeError struct {
	Host, Method, Path string
	// Status is the answer's HTTP status.
	Status int
	// Limit is what may be read, in bytes.
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

// WithLimit returns a context for requests whose successful answers have at most that many bytes, whatever their kind.
func WithLimit(ctx context.Context, bytes int64) context.Context {
	return context.WithValue(ctx, limitKey{}, bytes)
}

// Transport returns a RoundTripper whose answers cannot be read beyond their limit. It must see decompressed answers,
// as a wrapper of http.Transport does. Wrapping twice is harmless.
func Transport(next http.RoundTripper) http.RoundTripper { return &transport{next: next} }

// Config returns a copy of a configuration all of whose clients are bounded.
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

// boundFailure reads a failure, and puts one of our own in the place of one that is too large: the same status, with
// the reason.
func boundFailure(request *http.Request, response *http.Response) (*http.Response, error) {
	raw, err := io.ReadAll(response.Body)
	response.Body.Close()
	if errors.Is(err, ErrTooLarge) {
		raw, err = json.Marshal(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Code: int32(response.StatusCode), Message: err.Error(), //nolint:gosec // it has three digits
		})
		response.Header.Set("Content-Type", "application/json")
		response.Header.Del("Content-Encoding") // where what decompresses is outside
	}
	if err != nil {
		return nil, fmt.Errorf("read failure of %s: %w", request.URL.Host, err)
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	return response, nil
}

// Read sends a request and returns the answer. An error has what the API server said, or is a TooLargeError.
func Read(ctx context.Context, request *rest.Request) ([]byte, error) {
	body, err := request.Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

// WrappedRoundTripper lets client-go find what is below.
func (b *transport) WrappedRoundTripper() http.RoundTripper { return b.next }

// limitOf is the limit of an answer; limited is false for one that may go on indefinitely.
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

// isDiscovery reports whether the path is that of a document of groups, versions or resources. A kubeconfig's address
// may have a path of its own before it.
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

// Read implements io.Reader. One byte beyond the limit tells an answer that is too large from one that just fits.
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

// cut bounds what a server's own words add to a message.
func cut(text string) string {
	const most = 256
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}
