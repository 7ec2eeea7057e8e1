// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"net"
	"testing"
)

func TestCountingProxyCountsBothDirectionsAndChangesNothing(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() { // answers three bytes for each that it is sent
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
	proxy, err := countingProxy(t.Context(), server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", proxy.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Write([]byte("abcd")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 12)
	if _, err := io.ReadFull(client, answer); err != nil {
		t.Fatal(err)
	}
	proxy.close()
	if got, want := string(answer), "aaabbbcccddd"; got != want {
		t.Errorf("answer %q, want %q", got, want)
	}
	if sent, received := proxy.sent.Load(), proxy.received.Load(); sent != 4 || received != 12 {
		t.Errorf("counted %d sent and %d received, want 4 and 12", sent, received)
	}
	if _, err := client.Read(answer); err == nil {
		t.Error("the connection outlives the proxy")
	}
}
