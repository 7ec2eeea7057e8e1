// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package contestant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/test/bench/lab"
)

// Names of what is asked to migrate many resources.
const (
	OursInstalled = "kube-migrator, installed"
	OursByHand    = "kube-migrator migrate --include"
)

// Installed migrates many resources at one time. Its controllers run already when it is asked to.
type Installed struct {
	Name string
	// Migrate prepares everything, calls measured once with what asks for the migrations and returns when all of them
	// have succeeded, and removes everything.
	Migrate func(ctx context.Context, r Fleet, measured Measured) error
}

// Fleet are the resources to migrate.
type Fleet struct {
	Lab        *lab.Lab
	Things     *lab.Things
	Kubeconfig string
	// Ready is how long controllers run before they are asked.
	Ready time.Duration
}

// Measured measures a request for migrations. The request tells watch the ID of every process that works.
type Measured func(request func(ctx context.Context, watch func(pid int)) error) error

// ByHand is one command that an administrator runs.
func (w *Workshop) ByHand() Installed {
	return Installed{Name: OursByHand, Migrate: func(_ context.Context, r Fleet, measured Measured) error {
		return measured(func(ctx context.Context, watch func(int)) error {
			return Finish(ctx, r.Lab, watch, w.binary, append([]string{"migrate", "--include=" + r.Things.Pattern(), "--force",
				"--settle-time=1s", "--kubeconfig=" + r.Kubeconfig}, fullSpeed...)...)
		})
	}}
}

// Controller is an installation of kube-migrator without the default bounds of the load, with several migrations at a
// time, with a settle time of a second, and with workers in the controller's process: a lab has no node for Jobs. It
// requests nothing by itself.
func (w *Workshop) Controller() Installed {
	return Installed{Name: OursInstalled, Migrate: func(ctx context.Context, r Fleet, measured Measured) (err error) {
		unwatched, kubeconfig := func(int) {}, "--kubeconfig="+r.Kubeconfig
		if err := Finish(ctx, r.Lab, unwatched, w.binary, "install", kubeconfig, "--image=kube-migrator:bench",
			"--wait=false"); err != nil {
			return err
		}
		defer func() {
			// A lab has no controller that removes a namespace, so --purge would wait for it.
			err = errors.Join(err, Finish(ctx, r.Lab, unwatched, w.binary, "uninstall", kubeconfig),
				remove(ctx, r.Lab, externalCRD), remove(ctx, r.Lab, "storagestates.migration.k8s.io"))
		}()
		controllers, err := startAll(ctx, r, []string{w.binary, "controller", kubeconfig, "--workers=in-process",
			"--settle-time=1s", "--auto-trigger=false", "--metrics-bind-address=0",
			"--health-probe-bind-address=0"})
		if err != nil {
			return err
		}
		defer controllers.stop()
		return measured(func(ctx context.Context, watch func(int)) error {
			controllers.show(watch)
			if err := Finish(ctx, r.Lab, unwatched, w.binary, append([]string{"request", "--include=" + r.Things.Pattern(),
				"--force", kubeconfig}, fullSpeed...)...); err != nil {
				return err
			}
			return controllers.await(ctx, r, externalPath, nil)
		})
	}}
}

// InTreeController is Kubernetes' own controller, which gets one StorageVersionMigration for each resource.
func (w *Workshop) InTreeController(ctx context.Context) (Installed, error) {
	binary, err := testbed.Binary(ctx, testbed.Newest, "kube-controller-manager", w.progress)
	if err != nil {
		return Installed{}, err
	}
	return Installed{Name: InTree, Migrate: func(ctx context.Context, r Fleet, measured Measured) (err error) {
		controllers, err := startAll(ctx, r, append([]string{binary}, inTreeFlags(r.Kubeconfig)...))
		if err != nil {
			return err
		}
		defer controllers.stop()
		defer func() {
			_, removed := r.Lab.Send(ctx, http.MethodDelete, inTreePath, nil)
			err = errors.Join(err, removed)
		}()
		return measured(func(ctx context.Context, watch func(int)) error {
			controllers.show(watch)
			if err := requestEach(ctx, r, inTreePath, "storagemigration.k8s.io/v1"); err != nil {
				return err
			}
			return controllers.await(ctx, r, inTreePath, touchOnce())
		})
	}}, nil
}

// ExternalController is kube-storage-version-migrator's migrator without its limit on requests. It gets one
// StorageVersionMigration for each resource, as its trigger would make them; the trigger itself looks for changes every
// ten minutes only, and sends five requests per second.
func (w *Workshop) ExternalController(ctx context.Context) (Installed, error) {
	binary, manifest, err := w.external(ctx)
	if err != nil {
		return Installed{}, err
	}
	return Installed{Name: External, Migrate: func(ctx context.Context, r Fleet, measured Measured) (err error) {
		if err := install(ctx, r.Lab, manifest); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, remove(ctx, r.Lab, externalCRD)) }()
		controllers, err := startAll(ctx, r, append([]string{binary, "--kubeconfig=" + r.Kubeconfig}, unlimited...))
		if err != nil {
			return err
		}
		defer controllers.stop()
		return measured(func(ctx context.Context, watch func(int)) error {
			controllers.show(watch)
			if err := requestEach(ctx, r, externalPath, "migration.k8s.io/v1alpha1"); err != nil {
				return err
			}
			return controllers.await(ctx, r, externalPath, nil)
		})
	}}, nil
}

// externalCRD is the CRD that both kube-migrator and kube-storage-version-migrator bring along.
const externalCRD = "storageversionmigrations.migration.k8s.io"

// remove removes a CRD and waits until it is gone.
func remove(ctx context.Context, l *lab.Lab, crd string) error {
	if _, err := l.Send(ctx, http.MethodDelete, lab.CRDPath(crd), nil); err != nil {
		return fmt.Errorf("delete CRD: %w", err)
	}
	return lab.Await(ctx, func() (bool, error) {
		status, _, err := l.Do(ctx, http.MethodGet, lab.CRDPath(crd), nil)
		return status == http.StatusNotFound, err
	})
}

// requestEach creates one StorageVersionMigration for each resource.
func requestEach(ctx context.Context, r Fleet, path, apiVersion string) error {
	for _, o := range r.Things.Resources {
		request := Request{APIVersion: apiVersion, Kind: "StorageVersionMigration",
			Metadata: map[string]string{"name": o.FullName()},
			Spec:     RequestSpec{map[string]string{"group": o.Group, "resource": o.Plural}}}
		if path == externalPath {
			request.Spec.Resource["version"] = o.Version
		}
		if _, err := r.Lab.Send(ctx, http.MethodPost, path, request); err != nil {
			return fmt.Errorf("request migration: %w", err)
		}
	}
	return nil
}

// controllers are processes.
type controllers []*Process

// startAll starts commands and waits until they are ready.
func startAll(ctx context.Context, r Fleet, commands ...[]string) (all controllers, err error) {
	for _, command := range commands {
		p, err := Start(ctx, r.Lab, func(int) {}, command[0], command[1:]...)
		if err != nil {
			all.stop()
			return nil, err
		}
		all = append(all, p)
	}
	return all, lab.Pause(ctx, r.Ready)
}

func (c controllers) stop() {
	for _, p := range c {
		p.Stop()
	}
}

func (c controllers) show(watch func(pid int)) {
	for _, p := range c {
		watch(p.PID())
	}
}

// await waits until the migrations of all resources have succeeded. seen, if not nil, is shown each one that has not.
func (c controllers) await(ctx context.Context, r Fleet, path string,
	seen func(ctx context.Context, o *lab.Objects, a answer) error) error {
	return c[0].Await(ctx, func() (bool, error) {
		raw, err := r.Lab.Send(ctx, http.MethodGet, path+"?resourceVersion=0", nil)
		if err != nil {
			return false, fmt.Errorf("read migrations: %w", err)
		}
		var list struct {
			Items []struct {
				Metadata struct{ Name string }
				answer
			}
		}
		if err := json.Unmarshal(raw, &list); err != nil {
			return false, fmt.Errorf("decode migrations: %w", err)
		}
		answers := map[string]answer{}
		for _, item := range list.Items {
			answers[item.Metadata.Name] = item.answer
		}
		left := 0
		for _, o := range r.Things.Resources {
			a := answers[o.FullName()]
			done, err := a.finished()
			if err != nil {
				return false, fmt.Errorf("%s: %w", o.FullName(), err)
			}
			if done {
				continue
			}
			left++
			if seen == nil {
				continue
			}
			if err := seen(ctx, o, a); err != nil {
				return false, err
			}
		}
		return left == 0, nil
	})
}

// touchOnce touches a resource as soon as the in-tree controller has chosen the resourceVersion that its cache must
// reach, which in a quiet cluster takes a minute.
func touchOnce() func(ctx context.Context, o *lab.Objects, a answer) error {
	touched := map[string]bool{}
	return func(ctx context.Context, o *lab.Objects, a answer) error {
		if touched[o.FullName()] || a.Status.ResourceVersion == "" {
			return nil
		}
		touched[o.FullName()] = true
		return o.Touch(ctx)
	}
}
