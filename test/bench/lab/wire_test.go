// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

func TestWireCountsBothDirectionsAndChangesNothing(t *testing.T) {
	for name, roundTrip := range map[string]time.Duration{"at once": 0, "with latency": 30 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			wire, err := newWire(t.Context(), echo(t), roundTrip)
			if err != nil {
				t.Fatal(err)
			}
			client, err := net.Dial("tcp", wire.listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			begin := time.Now()
			if _, err := client.Write([]byte("abcd")); err != nil {
				t.Fatal(err)
			}
			answer := make([]byte, 12)
			if _, err := io.ReadFull(client, answer); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took < roundTrip {
				t.Errorf("the answer took %v, want at least %v", took, roundTrip)
			}
			wire.Close()
			if got, want := string(answer), "aaabbbcccddd"; got != want {
				t.Errorf("answer %q, want %q", got, want)
			}
			if sent, received := wire.sent.Load(), wire.received.Load(); sent != 4 || received != 12 {
				t.Errorf("counted %d sent and %d received, want 4 and 12", sent, received)
			}
			if _, err := client.Read(answer); err == nil {
				t.Error("the connection outlives the wire")
			}
		})
	}
}

// echo returns the address of a server that answers three bytes for each that it is sent.
func echo(t *testing.T) string {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	go func() {
		conn, err := server.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		one := make([]byte, 1)
		for {
			if _, err := io.ReadFull(conn, one); err != nil {
				return
			}
			if _, err := conn.Write(bytes.Repeat(one, 3)); err != nil {
				return
			}
		}
	}()
	return server.Addr().String()
}
