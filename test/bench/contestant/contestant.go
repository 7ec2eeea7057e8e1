// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package contestant owns the migrators that the benchmark compares: kube-migrator, the migrators of others, and the
// ceiling, which sends nothing but the requests. Each does its work in processes of its own, which do not outlive this
// one and whose CPU and memory can be told from everything else. It measures nothing.
package contestant

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/test/bench/lab"
)

// Names of the contestants, as tables and JSON have them.
const (
	Ours            = "kube-migrator"
	OursByDefault   = "kube-migrator with its default bounds"
	InTree          = "in-tree"
	External        = "kube-storage-version-migrator"
	ExternalLimited = "kube-storage-version-migrator, as shipped"
	ClusterAPI      = "Cluster API's crdmigrator"
	Kubectl         = "kubectl get | kubectl replace"
	Ceiling         = "ceiling"
	GuardedCeiling  = "guarded ceiling"
)

// Peers are the migrators of others at full speed.
func Peers() []string { return []string{InTree, External, ClusterAPI, Kubectl} }

// Contestant is something that stores all objects of a resource again.
type Contestant struct {
	Name string
	// CustomOnly: it migrates custom resources only.
	CustomOnly bool
	// Prepare is called once for each cluster, before everything else. nil: there is nothing to prepare.
	Prepare func(ctx context.Context, l *lab.Lab) error
	// Migrate migrates and returns when the contestant says that it is done.
	Migrate func(ctx context.Context, r Run) error
}

// Run is one migration.
type Run struct {
	Lab *lab.Lab
	// Objects are those to migrate; there are Count of them.
	Objects *lab.Objects
	Count   int
	// Kubeconfig leads to the cluster.
	Kubeconfig string
	// Watch is told the ID of every process that works.
	Watch func(pid int)
}

// Workshop makes contestants. What has to be built for one is built once.
type Workshop struct {
	// binary is kube-migrator's, dir holds what is built.
	binary, dir string
	progress    io.Writer
	built       map[string]string
}

// NewWorkshop takes the path of the kube-migrator to measure, and a folder for what it builds.
func NewWorkshop(binary, dir string, progress io.Writer) (*Workshop, error) {
	path, err := filepath.Abs(binary)
	if err != nil {
		return nil, err
	}
	return &Workshop{binary: path, dir: dir, progress: progress, built: map[string]string{}}, nil
}

// Version is what the measured kube-migrator says of itself.
func (w *Workshop) Version(ctx context.Context) (string, error) {
	version, err := exec.CommandContext(ctx, w.binary, "version").Output()
	if err != nil {
		return "", fmt.Errorf("run %s (make build makes it): %w", w.binary, err)
	}
	return strings.TrimPrefix(strings.TrimSpace(string(version)), "kube-migrator "), nil
}

// Binary is the path of the measured kube-migrator.
func (w *Workshop) Binary() string { return w.binary }

// KubeMigrator is the measured kube-migrator as a user runs it, but for a settle time of a second. It is not tuned by
// hand.
func (w *Workshop) KubeMigrator(flags ...string) Contestant {
	return w.kubeMigrator(Ours, slices.Concat(fullSpeed, flags))
}

// GentleKubeMigrator is kube-migrator with its default bounds.
func (w *Workshop) GentleKubeMigrator() Contestant { return w.kubeMigrator(OursByDefault, nil) }

// fullSpeed removes the default bounds of the load.
var fullSpeed = []string{"--max-rate=0", "--max-in-flight=0"}

func (w *Workshop) kubeMigrator(name string, flags []string) Contestant {
	return Contestant{Name: name, Migrate: func(ctx context.Context, r Run) error {
		return Finish(ctx, r.Lab, r.Watch, w.binary, migrateArgs(r, flags)...)
	}}
}

func migrateArgs(r Run, flags []string) []string {
	return append([]string{"migrate", r.Objects.FullName(), "--kubeconfig=" + r.Kubeconfig, "--settle-time=1s"}, flags...)
}

// Killed is kube-migrator, killed (SIGKILL) when it has migrated half of the objects, and started again with --resume.
func (w *Workshop) Killed(flags ...string) Contestant {
	flags = slices.Concat(fullSpeed, flags)
	return Contestant{Name: Ours, Migrate: func(ctx context.Context, r Run) error {
		p, err := Start(ctx, r.Lab, r.Watch, w.binary, migrateArgs(r, flags)...)
		if err != nil {
			return err
		}
		err = p.Await(ctx, func() (bool, error) { return r.Objects.Current(ctx, r.Count/2) })
		p.Stop()
		if err != nil {
			return fmt.Errorf("wait for half of the objects: %w", err)
		}
		return Finish(ctx, r.Lab, r.Watch, w.binary, migrateArgs(r, append(flags, "--resume"))...)
	}}
}

// ByKubectl is what people do by hand: every object is read and replaced by itself.
func (w *Workshop) ByKubectl(ctx context.Context) (Contestant, error) {
	kubectl, err := testbed.Binary(ctx, testbed.Newest, "kubectl", w.progress)
	if err != nil {
		return Contestant{}, err
	}
	return Contestant{Name: Kubectl, Migrate: func(ctx context.Context, r Run) error {
		name := r.Objects.Plural
		if r.Objects.Group != "" {
			name += "." + r.Objects.Version + "." + r.Objects.Group
		}
		from, to, err := os.Pipe()
		if err != nil {
			return err
		}
		replace, err := startWith(ctx, r.Lab, r.Watch, from, nil, kubectl, "replace", "-f", "-", "--kubeconfig="+
			r.Kubeconfig)
		_ = from.Close()
		if err != nil {
			_ = to.Close()
			return err
		}
		get, err := startWith(ctx, r.Lab, r.Watch, nil, to, kubectl, "get", name, "--namespace=default", "--output=json",
			"--kubeconfig="+r.Kubeconfig)
		_ = to.Close()
		if err != nil {
			replace.Stop()
			return err
		}
		return errors.Join(get.Wait(ctx), replace.Wait(ctx))
	}}, nil
}

// goTool runs the go command in a module of the repository.
func goTool(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.FromSlash(dir)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s in %s: %w\n%s", args[0], dir, err, stderr.String())
	}
	return string(out), nil
}

// build builds a command of one of the modules in testbed, once.
func (w *Workshop) build(ctx context.Context, name, dir, pkg string) (string, error) {
	if path, built := w.built[name]; built {
		return path, nil
	}
	fmt.Fprintf(w.progress, "building %s: about 1 minute once, seconds afterwards\n", name)
	path := filepath.Join(w.dir, name)
	if _, err := goTool(ctx, dir, "build", "-trimpath", "-ldflags", "-s -w", "-o", path, pkg); err != nil {
		return "", err
	}
	w.built[name] = path
	return path, nil
}
