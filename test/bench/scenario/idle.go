// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/test/bench/contestant"
	"github.com/kube-migrator/kube-migrator/test/bench/lab"
	"github.com/kube-migrator/kube-migrator/test/bench/report"
)

const migrationsPath = "/apis/migration.k8s.io/v1alpha1/storageversionmigrations"

// idle: the controllers of an installation with 300 resources, once everything is recorded as current.
func idle() Scenario {
	return Scenario{
		Name: "S7b", Title: "controllers with nothing to do",
		Promised: []report.Figure{report.RequestsPerSecond, report.ClientRSSBytes, report.ClientPeakRSSBytes},
		run: func(ctx context.Context, b *Bench) error {
			resources := b.scale(300, 3)
			l, err := b.lab(ctx, testbed.Options{}, lab.ConfigMaps())
			if err != nil {
				return err
			}
			if err := l.Cluster.DefineThings(ctx, resources, 2000); err != nil {
				return err
			}
			proxy, err := l.Cluster.StartProxy(1)
			if err != nil {
				return err
			}
			kubeconfig, err := proxy.Kubeconfig()
			if err != nil {
				return err
			}
			if err := contestant.Finish(ctx, l, func(int) {}, b.Workshop.Binary(), "install", "--kubeconfig="+kubeconfig,
				"--image=kube-migrator:bench", "--wait=false"); err != nil {
				return err
			}
			flags := []string{"controller", "--kubeconfig=" + kubeconfig, "--workers=in-process", "--settle-time=1s",
				"--max-concurrent-migrations=4", "--metrics-bind-address=0", "--health-probe-bind-address=0"}
			if b.Quick {
				flags = append(flags, "--include=things.*") // not also those of the control plane
			}
			controller, err := contestant.Start(ctx, l, func(int) {}, b.Workshop.Binary(), flags...)
			if err != nil {
				return err
			}
			defer controller.Stop()
			waiting, cancel := context.WithTimeout(ctx, b.duration(1800, 900))
			defer cancel()
			err = controller.Await(waiting, func() (bool, error) { return allSucceeded(waiting, l, resources) })
			if err != nil {
				return fmt.Errorf("wait until everything has been migrated: %w", err)
			}
			if err := lab.Pause(ctx, b.duration(60, 2)); err != nil {
				return err
			}
			proxy.Forget()
			window := b.duration(300, 3)
			begin := time.Now()
			if err := lab.Pause(ctx, window); err != nil {
				return err
			}
			requests, elapsed := len(proxy.Records()), time.Since(begin)
			usage, err := testbed.UsageOf(controller.PID())
			if err != nil {
				return fmt.Errorf("measure controller: %w", err)
			}
			b.Report.Add(report.Measurement{Case: fmt.Sprintf("%d resources of CRDs", resources), Round: 1,
				Contestant: contestant.Ours, Figures: report.Figures{
					report.RequestsPerSecond: float64(requests) / elapsed.Seconds(),
					report.ClientRSSBytes:    float64(usage.RSSBytes), report.ClientPeakRSSBytes: float64(usage.PeakRSSBytes),
				}})
			return nil
		},
	}
}

// allSucceeded tells whether there is a migration for each of so many resources at least, and all have succeeded.
func allSucceeded(ctx context.Context, l *lab.Lab, atLeast int) (bool, error) {
	raw, err := l.Send(ctx, http.MethodGet, migrationsPath, nil)
	if err != nil {
		return false, err
	}
	var list struct {
		Items []struct {
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return false, fmt.Errorf("decode migrations: %w", err)
	}
	succeeded := 0
	for _, item := range list.Items {
		if slices.Contains(item.Status.Conditions, struct{ Type, Status string }{"Succeeded", "True"}) {
			succeeded++
		}
	}
	return len(list.Items) >= atLeast && succeeded == len(list.Items), nil
}
