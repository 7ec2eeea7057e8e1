// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestAProgramTellsHowItHasEnded(t *testing.T) {
	c := &Cluster{dir: t.TempDir()}
	launch := func(script string) *Program {
		t.Helper()
		p, err := c.Launch(ProgramOptions{Name: "program", Path: "/bin/sh", Args: []string{"-c", script},
			Env: []string{"WORD=hello"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		return p
	}
	p := launch(`echo "$WORD"`)
	<-p.Done()
	if p.Running() || !p.Succeeded() || p.Exit() != "exit status 0" {
		t.Errorf("running %v, succeeded %v, %q", p.Running(), p.Succeeded(), p.Exit())
	}
	if p = launch("exit 3"); true {
		<-p.Done()
	}
	if p.Succeeded() || p.Exit() != "exit status 3" {
		t.Errorf("succeeded %v, %q", p.Succeeded(), p.Exit())
	}
	log, err := os.ReadFile(filepath.Join(c.dir, "program.log"))
	if err != nil || string(log) != "hello\n" {
		t.Errorf("the log is %q (%v)", log, err)
	}

	p = launch("exec sleep 600")
	if !p.Running() || p.Exit() != "" {
		t.Errorf("running %v, %q", p.Running(), p.Exit())
	}
	p.Terminate(t.Context())
	if p.Running() || !strings.Contains(p.Exit(), "terminated") {
		t.Errorf("running %v, %q", p.Running(), p.Exit())
	}
	p.Signal(syscall.SIGCONT) // it has exited, and gets none

	p = launch("trap '' TERM; echo deaf; while :; do sleep 1; done")
	for said := ""; !strings.HasSuffix(said, "deaf\n"); { // from then on it is
		raw, err := os.ReadFile(filepath.Join(c.dir, "program.log"))
		if err != nil {
			t.Fatal(err)
		}
		said = string(raw)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p.Terminate(ctx); p.Running() || !strings.Contains(p.Exit(), "killed") {
		t.Errorf("running %v, %q", p.Running(), p.Exit())
	}
}

func TestReadValue(t *testing.T) {
	const raw = `{"apiVersion":"demo.example.com/v1","kind":"Widget","metadata":{"name":"a","uid":"u","annotations":{"b":"c"}},"spec":{"size":1}}`
	v, err := ReadValue([]byte(raw))
	if err != nil || v.Version != "demo.example.com/v1" || v.UID != "u" || v.Annotations["b"] != "c" {
		t.Errorf("got %+v, %v", v, err)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"another encoding": {`/v1"`, `/v2"`, ""},
		"another content":  {`"size":1`, `"size":2`, "content"},
		"another object":   {`"u"`, `"w"`, "uid"},
	} {
		other, err := ReadValue([]byte(strings.Replace(raw, c.old, c.new, 1)))
		if err != nil || strings.Join(v.Differences(other.Object), " ") != c.want {
			t.Errorf("%s: differences %v, want %q (%v)", name, v.Differences(other.Object), c.want, err)
		}
	}
	if v, err := ReadValue([]byte("k8s:enc:aescbc:v1:key1:x")); err != nil || !v.Opaque ||
		v.Version != "enc:aescbc:v1:key1" {
		t.Errorf("an encrypted value is %+v, %v", v, err)
	}
}
