// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build page

package page

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long anything in the browser may take, on a machine that is busy.
const patience = 2 * time.Minute

// tab is a page in a Chromium of its own, which is told what to do in its DevTools protocol, through two pipes.
type tab struct {
	commands *os.File
	session  string

	mu      sync.Mutex
	last    int
	answers map[int]chan answer
	// complaints are what the browser wrote to its console: errors, and violations of the Content-Security-Policy.
	complaints []string
}

type answer struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// newTab starts a Chromium that ends with the test.
func newTab(t *testing.T) *tab {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v\nTry: apt-get install chromium", err)
	}
	toBrowser, commands, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromBrowser, answers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// Chromium's own sandbox refuses to run as root; it only ever sees pages of this test.
	command := exec.Command(path, "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
		"--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
		"--hide-scrollbars", "--user-data-dir="+t.TempDir())
	command.ExtraFiles = []*os.File{toBrowser, answers}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	toBrowser.Close()
	answers.Close()
	p := &tab{commands: commands, answers: map[int]chan answer{}}
	read := make(chan struct{})
	go func() { defer close(read); p.read(fromBrowser) }()
	t.Cleanup(func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		_ = command.Wait() // it was killed
		<-read
		commands.Close()
	})
	var target struct{ TargetID, SessionID string }
	p.call(t, "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	p.call(t, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	p.session = target.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		p.call(t, domain+".enable", nil, nil)
	}
	return p
}

// read passes on answers, which end in a zero byte, until the browser ends.
func (p *tab) read(from *os.File) {
	defer from.Close()
	messages := bufio.NewReader(from)
	for {
		raw, err := messages.ReadBytes(0)
		if err != nil {
			return
		}
		var a answer
		if json.Unmarshal(bytes.TrimSuffix(raw, []byte{0}), &a) != nil {
			continue
		}
		p.mu.Lock()
		switch {
		case p.answers[a.ID] != nil:
			p.answers[a.ID] <- a
			delete(p.answers, a.ID)
		case a.Method == "Log.entryAdded", a.Method == "Runtime.exceptionThrown":
			p.complaints = append(p.complaints, string(a.Params))
		}
		p.mu.Unlock()
	}
}

// call sends a command, and decodes its result.
func (p *tab) call(t *testing.T, method string, params any, result any) {
	t.Helper()
	p.mu.Lock()
	p.last++
	id, got := p.last, make(chan answer, 1)
	p.answers[id] = got
	p.mu.Unlock()
	message := map[string]any{"id": id, "method": method}
	if params != nil {
		message["params"] = params
	}
	if p.session != "" {
		message["sessionId"] = p.session
	}
	raw, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.commands.Write(append(raw, 0)); err != nil {
		t.Fatal(err)
	}
	select {
	case a := <-got:
		if a.Error != nil {
			t.Fatalf("%s: %s", method, a.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(a.Result, result); err != nil {
				t.Fatal(err)
			}
		}
	case <-time.After(patience):
		t.Fatalf("%s: no answer", method)
	}
}

// value evaluates an expression in the page, also if it is a promise.
func (p *tab) value(t *testing.T, expression string, into any) {
	t.Helper()
	var result struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	p.call(t, "Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true,
		"returnByValue": true}, &result)
	if result.ExceptionDetails != nil {
		t.Fatalf("%.200s: %s", expression, result.ExceptionDetails)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(result.Result.Value, into); err != nil {
		t.Fatalf("%.200s: %v: %s", expression, err, result.Result.Value)
	}
}

// wait waits until an expression is true.
func (p *tab) wait(t *testing.T, expression string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		is := false
		if p.value(t, "!!("+expression+")", &is); is {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it never became true: %s", expression)
		}
	}
}

// open loads a page.
func (p *tab) open(t *testing.T, url string) {
	t.Helper()
	p.call(t, "Page.navigate", map[string]any{"url": url}, nil)
	p.wait(t, fmt.Sprintf("document.readyState === 'complete' && location.href === %q", url))
}

// look sets the color scheme and the size of the window.
func (p *tab) look(t *testing.T, scheme string, width, height int) {
	t.Helper()
	p.call(t, "Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	p.call(t, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height,
		"deviceScaleFactor": 1, "mobile": false}, nil)
}

// press presses a key.
func (p *tab) press(t *testing.T, key, code string, number int) {
	t.Helper()
	text := ""
	if key == "Enter" {
		text = "\r"
	}
	for _, kind := range []string{"keyDown", "keyUp"} {
		p.call(t, "Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key, "code": code, "text": text,
			"windowsVirtualKeyCode": number}, nil)
	}
}

// screenshot keeps what is visible in the folder of the environment variable PAGE_SCREENSHOTS, if that is set.
func (p *tab) screenshot(t *testing.T, name string) {
	t.Helper()
	var shot struct{ Data []byte }
	p.call(t, "Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	folder := os.Getenv("PAGE_SCREENSHOTS")
	if folder == "" {
		return
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), shot.Data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// quiet fails the test if the browser has complained, and forgets what it said.
func (p *tab) quiet(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, complaint := range p.complaints {
		t.Errorf("the browser complains: %.600s", complaint)
	}
	p.complaints = nil
}
