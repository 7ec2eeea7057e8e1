// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAMeterCountsBodiesAsTheyGoOverTheWire(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("kube-migrator ", 10_000)
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	io.WriteString(w, text) //nolint:errcheck // into memory
	w.Close()               //nolint:errcheck // into memory
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) //nolint:errcheck // the answer does not depend on it
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(compressed.Bytes()) //nolint:errcheck // the reader may have gone
			return
		}
		io.WriteString(w, text) //nolint:errcheck // the reader may have gone
	}))
	defer server.Close()
	for name, test := range map[string]struct {
		plain, counted bool
		sent, received int64
	}{
		"a compressed answer":                        {counted: true, sent: 5, received: int64(compressed.Len())},
		"an answer that must not be compressed":      {plain: true, counted: true, sent: 5, received: int64(len(text))},
		"a request that no one counts":               {},
		"a request that no one counts, uncompressed": {plain: true},
	} {
		var slot Slot
		slot.meter = new(meter)
		ctx := t.Context()
		if test.counted {
			ctx = slot.Count(ctx)
		}
		transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one
		transport.DisableCompression = test.plain
		// Wrapped twice, as clients are that are made from a configuration that was wrapped before.
		client := &http.Client{Transport: Metered(test.plain)(Metered(test.plain)(transport))}
		request, err := http.NewRequestWithContext(ctx, http.MethodPatch, server.URL, strings.NewReader("12345"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(response.Body)
		if err != nil || string(answer) != text || response.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %d bytes, %v, header %v, want the text as it was", name, len(answer), err, response.Header)
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
		transport.CloseIdleConnections()
		if got, want := slot.meter.bytes.Load(), test.sent+test.received; got != want {
			t.Errorf("%s: counted %d bytes, want %d", name, got, want)
		}
	}
}
