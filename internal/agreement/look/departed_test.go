// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"context"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/agreement/servers"
	"github.com/kube-migrator/kube-migrator/internal/agreement/tlstest"
)

func TestWhetherADepartedServerListens(t *testing.T) {
	address := func(l net.Listener) string { return l.Addr().String() }
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	answering := tlstest.New(t, serverName, http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		http.Error(w, "draining", http.StatusServiceUnavailable)
	}))
	refusing := listen()
	refusing.Close()
	another := tlstest.New(t, "another.example.com", http.NotFoundHandler())
	c, err := newClient(&rest.Config{Host: "https://192.0.2.1",
		TLSClientConfig: rest.TLSClientConfig{CAData: slices.Concat(answering.CA, another.CA)}}, 500*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		address string
		want    servers.Presence
	}{
		"it answers, be it that it cannot":                           {answering.Address(), servers.Serving},
		"nothing listens there":                                      {address(refusing), servers.Silent},
		"connections are accepted, as for a process that is stopped": {address(listen()), servers.Hanging},
		"another certificate is shown there":                         {another.Address(), servers.Uncertain},
		"the network swallows everything":                            {"192.0.2.77:6443", servers.Uncertain},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "the network swallows everything" {
				c.config.Dial = func(ctx context.Context, _, _ string) (net.Conn,
					error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				defer func() { c.config.Dial = nil }()
			}
			if got := c.presence(t.Context(), c.own, tt.address); got != tt.want {
				t.Errorf("presence is %d, want %d", got, tt.want)
			}
		})
	}
}
