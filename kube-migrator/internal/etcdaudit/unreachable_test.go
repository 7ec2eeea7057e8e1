// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/etcdaudit"
)

func TestAnEtcdThatIsNotThereIsAnErrorThatSaysWhy(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	for name, test := range map[string]struct {
		prepare func() error
		want    string
	}{
		"it accepts connections and says nothing": {func() error { return nil }, "did not answer within 300ms"},
		"no one listens": {listener.Close, "connection refused"},
	} {
		if err := test.prepare(); err != nil {
			t.Fatal(err)
		}
		_, err := etcdaudit.Audit(t.Context(), etcdaudit.Live{Endpoints: []string{address},
			Timeout: 300 * time.Millisecond}, etcdaudit.Options{})
		if unreachable := (*etcdaudit.UnreachableError)(nil); !errors.As(err, &unreachable) {
			t.Errorf("%s: got %v, want an UnreachableError", name, err)
		}
		if name == "no one listens" && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}
