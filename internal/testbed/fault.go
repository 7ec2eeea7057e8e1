// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault is a disturbance of a request.
type Fault struct {
	// Name is the name of the fault in records.
	Name string
	// only selects the requests to which the fault can be applied; nil selects all.
	only  func(*http.Request) bool
	apply func(w http.ResponseWriter, r *http.Request, next http.Handler)
}

// Latency delays a request on its way to the server.
func Latency(d time.Duration) Fault {
	return Fault{Name: "latency", apply: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if pause(r.Context(), d) == nil {
			next.ServeHTTP(w, r)
		}
	}}
}

// Overtaken calls the functions before the server sees a request, so that another client gets ahead of it.
func Overtaken(first ...func()) Fault {
	return Fault{Name: "overtaken", apply: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		call(first)
		next.ServeHTTP(w, r)
	}}
}

// ResetBefore resets the connection, with all other requests on it, before the server has seen the request. It calls
// the functions first: a client that is killed there has died before the write.
func ResetBefore(first ...func()) Fault {
	return Fault{Name: "reset before", apply: func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		call(first)
		reset(r)
	}}
}

// ResetAfter resets the connection after the server has answered, so that the client cannot know whether the request
// was carried out. It calls the functions in between: a client that is killed there has died after the write.
func ResetAfter(between ...func()) Fault {
	return Fault{Name: "reset after", apply: func(_ http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(discard{http.Header{}}, r)
		call(between)
		reset(r)
	}}
}

func call(all []func()) {
	for _, f := range all {
		f()
	}
}

// TooManyRequests answers 429 with a Retry-After of whole seconds; 0 omits the header.
func TooManyRequests(retryAfter time.Duration) Fault {
	fault := refuse(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests,
		"too many requests, please try again later")
	return withRetryAfter(fault, retryAfter)
}

// InternalError answers 500.
func InternalError() Fault {
	return refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError, "an error injected by the testbed")
}

// Unavailable answers 503, with a Retry-After of whole seconds; 0 omits the header.
func Unavailable(retryAfter time.Duration) Fault {
	fault := refuse(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable,
		"the server is currently unable to handle the request")
	return withRetryAfter(fault, retryAfter)
}

// Expired answers requests for the next page of a list with 410. withToken adds, as API servers do, a continue token
// that continues after the same key in the present state.
func Expired(withToken bool) Fault {
	return Fault{Name: "410", only: NextPage, apply: func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		status := failure(http.StatusGone, metav1.StatusReasonExpired, "The provided continue parameter is too old")
		if withToken {
			status.Continue = renewed(r.URL.Query().Get("continue"))
		}
		answer(w, status)
	}}
}

// CutWatch breaks off a watch after a while, in the middle of the stream.
func CutWatch(after time.Duration) Fault {
	return Fault{Name: "cut watch", only: Watch, apply: func(w http.ResponseWriter,
		r *http.Request, next http.Handler) {
		ctx, cancel := context.WithTimeout(r.Context(), after)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
		if ctx.Err() != nil {
			panic(http.ErrAbortHandler)
		}
	}}
}

// Watch matches watches.
func Watch(r *http.Request) bool {
	watch, err := strconv.ParseBool(r.URL.Query().Get("watch"))
	return err == nil && watch
}

// NextPage matches requests for the next page of a list.
func NextPage(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Query().Get("continue") != ""
}

// Method matches requests with one of the methods.
func Method(methods ...string) func(*http.Request) bool {
	return func(r *http.Request) bool { return slices.Contains(methods, r.Method) }
}

// PathContains matches requests whose path contains a text.
func PathContains(text string) func(*http.Request) bool {
	return func(r *http.Request) bool { return strings.Contains(r.URL.Path, text) }
}

func refuse(code int, reason metav1.StatusReason, message string) Fault {
	return Fault{Name: strconv.Itoa(code), apply: func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		answer(w, failure(code, reason, message))
	}}
}

func withRetryAfter(fault Fault, d time.Duration) Fault {
	if d == 0 {
		return fault
	}
	refuse := fault.apply
	fault.apply = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.Seconds())))
		refuse(w, r, next)
	}
	return fault
}

func failure(code int, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}
}

func answer(w http.ResponseWriter, status *metav1.Status) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status) // the client is gone if this fails
}

// renewed converts a continue token into one that continues after the same key without requiring the same state:
// resourceVersion -1.
func renewed(token string) string {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return ""
	}
	var fields map[string]any
	if json.Unmarshal(raw, &fields) != nil {
		return ""
	}
	fields["rv"] = -1
	if raw, err = json.Marshal(fields); err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// connKey finds the connection in the context of a request.
type connKey struct{}

// reset closes the request's connection with a TCP reset and ends the handler.
func reset(r *http.Request) {
	if conn, ok := r.Context().Value(connKey{}).(*tls.Conn); ok {
		if counting, ok := conn.NetConn().(countingConn); ok {
			if tcp, ok := counting.Conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
				_ = tcp.Close()
			}
		}
	}
	panic(http.ErrAbortHandler)
}

// discard reads an answer and drops it.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}
