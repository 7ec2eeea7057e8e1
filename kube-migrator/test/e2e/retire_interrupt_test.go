// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"os/exec"
	"sync"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// killed runs a command that is killed before, or after, the API server has seen a request; skip lets the first ones
// pass.
func (c *cli) killed(proxy *testbed.Proxy, after bool, skip int, match func(*http.Request) bool, args ...string) {
	c.t.Helper()
	var mu sync.Mutex
	var command *exec.Cmd
	dead := false
	kill := func() {
		mu.Lock()
		defer mu.Unlock()
		dead = command.Process.Kill() == nil
	}
	fault := testbed.ResetBefore(kill)
	if after {
		fault = testbed.ResetAfter(kill)
	}
	proxy.SetRules(testbed.Rule{Fault: fault, Match: match, Skip: skip, Times: 1})
	mu.Lock()
	command, wait := c.start(args...)
	mu.Unlock()
	out := wait()
	proxy.SetRules()
	mu.Lock()
	defer mu.Unlock()
	if !dead {
		c.t.Fatalf("it ended with exit code %d before it could be killed\n%s\n%s", out.code, out.stdout, out.stderr)
	}
}
