// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed/envtest"
)

// Release is a Kubernetes release whose binaries can be built: its version, such as "v1.37.0".
// Each has a go.mod of its own in the repository's folder internal/testbed/programs/v<major>.<minor>.
type Release string

// The releases that the repository pins: one for each minor version. Those before V136 pin kube-apiserver alone.
const (
	V137 Release = "v1.37.0"
	V136 Release = "v1.36.3"
	V135 Release = "v1.35.4"
	V134 Release = "v1.34.4"
	V133 Release = "v1.33.13"
	V132 Release = "v1.32.13"
	V131 Release = "v1.31.14"
	V130 Release = "v1.30.14"
)

// Newest is the release of clusters that choose none. It pins all commands.
const Newest = V137

// The versions of other programs that the repository pins: each has a go.mod of its own, in internal/testbed/programs/helm and
// internal/testbed/programs/prometheus.
const (
	Helm       Release = "v4.3.1"
	Prometheus Release = "v3.16.0"
)

// Releases returns the releases that the repository pins, the oldest first.
func Releases() []Release {
	return []Release{V130, V131, V132, V133, V134, V135, V136, V137}
}

// Etcd returns the release whose etcd a cluster of this release runs on: its own, or that of Newest where it pins
// kube-apiserver alone.
func (r Release) Etcd() Release {
	switch r {
	case V130, V131, V132, V133, V134, V135:
		return Newest
	case V136, V137, Helm, Prometheus:
	}
	return r
}

// cacheEnv names the folder that built binaries are kept in; unset, it is in the user's cache folder.
const cacheEnv = "KUBE_MIGRATOR_TESTBED"

// modulePath is how the root of the repository is recognized.
const modulePath = "github.com/kube-migrator/kube-migrator"

// command is a binary that can be built: its package, the message for a user who waits for the build, and build tags.
type command struct {
	pkg, patience, tags string
}

// MovableAPIServer is the binary of a kube-apiserver whose clock a Clock can move: "-clock" is no command of
// Kubernetes.
const MovableAPIServer = "kube-apiserver-clock"

var commands = map[string]command{
	"etcd":           {pkg: "go.etcd.io/etcd/server/v3", patience: "about 1 minute once, seconds afterwards"},
	"etcdctl":        {pkg: "go.etcd.io/etcd/etcdctl/v3", patience: "less than 1 minute once, seconds afterwards"},
	"kube-apiserver": {pkg: "k8s.io/kubernetes/cmd/kube-apiserver", patience: "about 8 minutes once, seconds afterwards"},
	MovableAPIServer: {pkg: "k8s.io/kubernetes/cmd/kube-apiserver", patience: "about 8 minutes once, seconds afterwards"},
	"kube-controller-manager": {pkg: "k8s.io/kubernetes/cmd/kube-controller-manager",
		patience: "about 3 minutes once, seconds afterwards"},
	"kube-scheduler": {pkg: "k8s.io/kubernetes/cmd/kube-scheduler", patience: "about 3 minutes once, seconds afterwards"},
	"kubelet":        {pkg: "k8s.io/kubernetes/cmd/kubelet", patience: "about 3 minutes once, seconds afterwards"},
	"kube-proxy":     {pkg: "k8s.io/kubernetes/cmd/kube-proxy", patience: "about 1 minute once, seconds afterwards"},
	"kubectl":        {pkg: "k8s.io/kubernetes/cmd/kubectl", patience: "about 1 minute once, seconds afterwards"},
	"helm":           {pkg: "helm.sh/helm/v4/cmd/helm", patience: "about 3 minutes once, seconds afterwards"},
	"promtool": {pkg: "github.com/prometheus/prometheus/cmd/promtool",
		patience: "about 3 minutes once, seconds afterwards",
		tags:     "remove_all_sd"}, // without the libraries of cloud providers
	"prometheus": {pkg: "github.com/prometheus/prometheus/cmd/prometheus",
		patience: "about 4 minutes once, seconds afterwards",
		tags:     "remove_all_sd"},
}

// majorMinor returns "1.37" for "v1.37.0".
func (r Release) majorMinor() (string, error) {
	parts := strings.Split(strings.TrimPrefix(string(r), "v"), ".")
	if len(parts) != 3 || !strings.HasPrefix(string(r), "v") {
		return "", fmt.Errorf("release %q is not of the form v1.37.0", r)
	}
	return parts[0] + "." + parts[1], nil
}

// folder returns the name of the folder below programs that pins a release.
func (r Release) folder() (string, error) {
	switch r {
	case Helm:
		return "helm", nil
	case Prometheus:
		return "prometheus", nil
	case V137, V136, V135, V134, V133, V132, V131, V130:
	}
	majorMinor, err := r.majorMinor()
	return "v" + majorMinor, err
}

// Binary returns the path of a release's binary. Where the cache does not hold it, or holds one that was built from
// another go.mod, Binary takes that in KUBEBUILDER_ASSETS, downloads the one that controller-tools publishes, or else
// builds it. Processes that ask for the same binary at the same time build it once. A line to progress says which way
// was taken, and why; a build also writes one every 15 seconds, and one when it is done.
func Binary(ctx context.Context, release Release, name string, progress io.Writer) (string, error) {
	b, err := newBuild(release, name)
	if err != nil {
		return "", err
	}
	if b.current() {
		return b.path, nil
	}
	unlock, err := lock(ctx, b.path+".lock", func() {
		fmt.Fprintf(progress, "waiting for another process that builds %s %s\n", name, release)
	})
	if err != nil {
		return "", fmt.Errorf("lock build of %s: %w", name, err)
	}
	defer unlock()
	if b.current() {
		return b.path, nil
	}
	if path, ok := ready(ctx, release, name, progress); ok {
		return path, nil
	}
	fmt.Fprintf(progress, "building %s %s: %s\n", name, release, commands[name].patience)
	begin := time.Now()
	compiled := new(compilation)
	stop := repeat(sayEvery, func() {
		fmt.Fprintf(progress, "building %s %s: %s, %d packages compiled\n", name, release,
			time.Since(begin).Round(time.Second), compiled.packages.Load())
	})
	err = b.run(ctx, compiled)
	stop()
	if err != nil {
		return "", fmt.Errorf("build %s %s: %w", name, release, err)
	}
	fmt.Fprintf(progress, "built %s %s in %s\n", name, release, time.Since(begin).Round(time.Second))
	return b.path, nil
}

// index lists the binaries that can be downloaded.
var index = envtest.Index

// ready looks for a binary that need not be built: in KUBEBUILDER_ASSETS, or among those that controller-tools
// publishes, which it puts into the cache. It says which way it took, or why there was none.
func ready(ctx context.Context, release Release, name string, progress io.Writer) (path string, ok bool) {
	path, why := envtest.Assets(ctx, string(release), name)
	if path != "" {
		fmt.Fprintf(progress, "using %s %s from KUBEBUILDER_ASSETS\n", name, release)
		return path, true
	}
	if why != "" {
		fmt.Fprintf(progress, "not using %s %s from KUBEBUILDER_ASSETS: %s\n", name, release, why)
	}
	if !slices.Contains(envtest.Programs, name) || release == Helm || release == Prometheus {
		return "", false
	}
	var builds []*build
	for _, program := range envtest.Programs {
		b, err := newBuild(release, program)
		if err != nil {
			return "", false
		}
		builds = append(builds, b)
	}
	dir := filepath.Dir(builds[0].path)
	if err := envtest.Download(ctx, index, string(release), dir); err != nil {
		fmt.Fprintf(progress, "not downloading %s %s: %v\n", name, release, err)
		return "", false
	}
	for _, b := range builds {
		if err := os.WriteFile(b.stamp(), []byte(b.digest), 0o644); err != nil {
			return "", false
		}
	}
	fmt.Fprintf(progress, "downloaded %s %s, as setup-envtest does\n", strings.Join(envtest.Programs, ", "), release)
	return filepath.Join(dir, name), true
}

// sayEvery is how often a build reports that it continues.
var sayEvery = 15 * time.Second

// repeat calls f every period until stop, which waits for the last call to end.
func repeat(period time.Duration, f func()) (stop func()) {
	ticker, end, ended := time.NewTicker(period), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ticker.C:
				f()
			case <-end:
				ticker.Stop()
				return
			}
		}
	}()
	return func() { close(end); <-ended }
}

// compilation reads the output of "go build -v": it counts the packages that were compiled, and keeps all other lines,
// which contain the errors.
type compilation struct {
	packages atomic.Int64
	line     []byte
	rest     bytes.Buffer
}

func (c *compilation) Write(p []byte) (int, error) {
	c.line = append(c.line, p...)
	for {
		line, after, whole := bytes.Cut(c.line, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		if bytes.ContainsAny(line, " :") {
			c.rest.Write(append(line, '\n'))
		} else {
			c.packages.Add(1)
		}
		c.line = slices.Clone(after)
	}
}

// build is one binary: where it is built from, with what, and where it goes.
type build struct {
	dir, pkg, ldflags string
	tags              string
	path, digest      string
	clock             bool
}

func newBuild(release Release, name string) (*build, error) {
	cmd, ok := commands[name]
	if !ok {
		return nil, fmt.Errorf("there is no binary named %q", name)
	}
	majorMinor, err := release.majorMinor()
	if err != nil {
		return nil, err
	}
	folder, err := release.folder()
	if err != nil {
		return nil, err
	}
	root, err := repositoryRoot()
	if err != nil {
		return nil, err
	}
	cache, err := cacheFolder()
	if err != nil {
		return nil, err
	}
	major, minor, _ := strings.Cut(majorMinor, ".")
	const version = "k8s.io/component-base/version."
	b := &build{
		dir: filepath.Join(root, "internal", "testbed", "programs", folder),
		pkg: cmd.pkg, tags: cmd.tags,
		ldflags: "-s -w -X " + version + "gitVersion=" + string(release) +
			" -X " + version + "gitMajor=" + major + " -X " + version + "gitMinor=" + minor,
		path:  filepath.Join(cache, string(release), name),
		clock: name == MovableAPIServer,
	}
	hash := sha256.New()
	for _, file := range []string{"go.mod", "go.sum"} {
		raw, err := os.ReadFile(filepath.Join(b.dir, file))
		if err != nil {
			return nil, fmt.Errorf("read pinned modules of %s: %w", release, err)
		}
		hash.Write(raw)
	}
	fmt.Fprintln(hash, strings.Join(b.args("-"), " "), runtime.GOOS, runtime.GOARCH)
	if b.clock {
		fmt.Fprint(hash, moveClock, clockFile)
	}
	b.digest = hex.EncodeToString(hash.Sum(nil)[:8])
	return b, nil
}

func (b *build) args(output string) []string {
	args := []string{"build", "-trimpath", "-ldflags", b.ldflags}
	if b.tags != "" {
		args = append(args, "-tags", b.tags)
	}
	return append(args, "-o", output, b.pkg)
}

func (b *build) stamp() string { return b.path + ".stamp" }

// current tells whether the cache holds the binary that the present go.mod describes.
func (b *build) current() bool {
	stamp, err := os.ReadFile(b.stamp())
	if err != nil || string(stamp) != b.digest {
		return false
	}
	_, err = os.Stat(b.path)
	return err == nil
}

func (b *build) run(ctx context.Context, output *compilation) error {
	temporary := b.path + ".tmp"
	defer func() { _ = os.Remove(temporary) }() // gone already after a success
	args := slices.Insert(b.args(temporary), 1, "-v")
	if b.clock {
		dir, err := os.MkdirTemp("", "kube-migrator-clock-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // nothing depends on it
		overlay, err := ClockOverlay(ctx, dir)
		if err != nil {
			return err
		}
		args = slices.Insert(args, 1, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s", errors.Join(err, ctx.Err()), lastLines(output.rest.Bytes(), 15))
	}
	if err := os.Rename(temporary, b.path); err != nil {
		return err
	}
	return os.WriteFile(b.stamp(), []byte(b.digest), 0o644)
}
