// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeRepository makes the working directory a repository whose etcd is a program of a few lines, and the cache empty.
func fakeRepository(t *testing.T, program string) (pinned string) {
	t.Helper()
	root := t.TempDir()
	pinned = filepath.Join(root, "internal", "testbed", "programs", "v1.37")
	below := filepath.Join(root, "internal", "some", "package")
	for _, dir := range []string{pinned, below} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(root, "go.mod"), "module "+modulePath+"\n")
	write(t, filepath.Join(pinned, "go.mod"), "module go.etcd.io/etcd/server/v3\n\ngo 1.26\n")
	write(t, filepath.Join(pinned, "go.sum"), "")
	write(t, filepath.Join(pinned, "main.go"), program)
	t.Setenv(cacheEnv, filepath.Join(root, "cache"))
	t.Setenv("KUBEBUILDER_ASSETS", "")
	offline := httptest.NewServer(http.NotFoundHandler())
	offline.Close()
	before := index
	index = offline.URL
	t.Cleanup(func() { index = before })
	t.Chdir(below)
	return pinned
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

const helloProgram = "package main\n\nfunc main() { println(`hello`) }\n"

func TestBinaryIsBuiltOnceForAllWhoAskAtTheSameTime(t *testing.T) {
	fakeRepository(t, helloProgram)
	var progress [4]bytes.Buffer
	var all sync.WaitGroup
	for i := range progress {
		all.Go(func() {
			path, err := Binary(t.Context(), Newest, "etcd", &progress[i])
			if err != nil {
				t.Error(err)
				return
			}
			if out, err := exec.Command(path).CombinedOutput(); err != nil || string(out) != "hello\n" {
				t.Errorf("the binary says %q (%v), want hello", out, err)
			}
		})
	}
	all.Wait()
	text := ""
	for i := range progress {
		text += progress[i].String()
	}
	if n := strings.Count(text, "building etcd v1.37.0: about 1 minute once"); n != 1 {
		t.Errorf("%d builds were announced, want 1:\n%s", n, text)
	}
	if n := strings.Count(text, "built etcd v1.37.0 in "); n != 1 {
		t.Errorf("%d builds were reported, want 1:\n%s", n, text)
	}
}

func TestBinaryIsRebuiltWhenThePinnedModulesChange(t *testing.T) {
	pinned := fakeRepository(t, helloProgram)
	for _, step := range []struct {
		name    string
		change  func()
		rebuilt bool
	}{
		{"the first time it is built", func() {}, true},
		{"nothing has changed", func() {}, false},
		{"another requirement in go.mod", func() {
			write(t, filepath.Join(pinned, "go.mod"), "module go.etcd.io/etcd/server/v3\n\ngo 1.26\n\n// changed\n")
		}, true},
		{"another checksum in go.sum", func() {
			write(t, filepath.Join(pinned, "go.sum"),
				"example.com/x v1.0.0 h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n")
		}, true},
		{"still nothing", func() {}, false},
	} {
		step.change()
		var progress bytes.Buffer
		if _, err := Binary(t.Context(), Newest, "etcd", &progress); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if rebuilt := progress.Len() > 0; rebuilt != step.rebuilt {
			t.Errorf("%s: rebuilt is %t, want %t", step.name, rebuilt, step.rebuilt)
		}
	}
}

func TestBinaryThatDoesNotCompileShowsTheCompilersWords(t *testing.T) {
	fakeRepository(t, "package main\n\nfunc main() { nonsense() }\n")
	_, err := Binary(t.Context(), Newest, "etcd", &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "undefined: nonsense") {
		t.Errorf("error is %v, want the compiler's", err)
	}
}

// A build of minutes shows that it lives.
func TestBinarySaysHowFarItsBuildIs(t *testing.T) {
	before := sayEvery
	sayEvery = time.Millisecond
	t.Cleanup(func() { sayEvery = before })
	fakeRepository(t, helloProgram)
	var progress bytes.Buffer
	if _, err := Binary(t.Context(), Newest, "etcd", &progress); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(progress.String(), "\n"); len(lines) < 5 ||
		!strings.HasSuffix(lines[2], "s, 0 packages compiled") {
		t.Errorf("progress does not go on:\n%s", &progress)
	}
}

func TestACompilationCountsPackagesAndKeepsWhatIsWrong(t *testing.T) {
	c := new(compilation)
	for _, part := range []string{"k8s.io/api/co", "re/v1\ninternal/abi\n# example.com/",
		"x\nx.go:3:1: undefined: y\n", "main\n"} {
		if _, err := c.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := c.rest.String(), "# example.com/x\nx.go:3:1: undefined: y\n"; got != want ||
		c.packages.Load() != 3 {
		t.Errorf("%d packages, and %q; want 3, and %q", c.packages.Load(), got, want)
	}
}

func TestEachReleaseIsPinnedByTheFolderOfItsMinorVersion(t *testing.T) {
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	folders, err := filepath.Glob(filepath.Join(root, "internal", "testbed", "programs", "v*"))
	if err != nil || len(folders) != len(Releases()) {
		t.Errorf("%d folders testbed/v*, want one for each of %d releases (%v)", len(folders), len(Releases()), err)
	}
	for _, release := range Releases() {
		minor, err := release.majorMinor()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(root, "internal", "testbed", "programs", "v"+minor, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(raw), "k8s.io/kubernetes "+string(release)+" // indirect\n") {
			t.Errorf("testbed/v%s/go.mod does not require k8s.io/kubernetes %s", minor, release)
		}
		if pins := strings.Contains(string(raw), "go.etcd.io/etcd/server/v3\n"); pins != (release.Etcd() == release) {
			t.Errorf("%s runs on the etcd of %s, and testbed/v%s/go.mod has a tool line for etcd: %t", release,
				release.Etcd(), minor, pins)
		}
	}
}

func TestBinaryRefusesWhatIsNotPinned(t *testing.T) {
	for name, ask := range map[string][2]string{
		"a release without a folder":  {"v1.2.3", "etcd"},
		"a release of another form":   {"1.37", "etcd"},
		"a binary that no one builds": {"v1.37.0", "kubeadm"},
	} {
		if path, err := Binary(t.Context(), Release(ask[0]), ask[1], &bytes.Buffer{}); err == nil {
			t.Errorf("%s: got %s, want an error", name, path)
		}
	}
}
