// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/test/chaos/plan"
)

// What a run is told by its environment.
const (
	timeEnv   = "CHAOS_TIME"   // how long faults are injected
	seedEnv   = "CHAOS_SEED"   // repeats the faults of an earlier run
	faultsEnv = "CHAOS_FAULTS" // the kinds of faults, comma-separated
	rateEnv   = "CHAOS_RATE"   // how many times as often as usual light faults come
	// topologyEnv is "balancer" where the API servers are behind one address.
	topologyEnv = "CHAOS_TOPOLOGY"
	keepEnv     = "KUBE_MIGRATOR_TESTBED_KEEP"
)

// convergence is how long everything may take to come to rest once faults have stopped. A migration that failed is
// repeated after a time that doubles with every failure, so this depends on how long faults lasted.
const convergence = 6 * time.Minute

// binary is the kube-migrator that runs, built from this tree, with a clock that can be moved.
var binary string

func TestMain(m *testing.M) { os.Exit(testbed.RunTests(m, &binary, true)) }

// TestChaos is one run: faults and judgement for a time, then the end of all faults, and convergence.
func TestChaos(t *testing.T) {
	duration, p, balanced := settings(t)
	t.Setenv(keepEnv, "1") // the folder of a run with a violation is kept
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()
	l := newLab(t, p, balanced)
	fmt.Printf("chaos: seed %d, %v, logs in %s\n", p.Seed, duration, l.cluster.Dir())
	t.Cleanup(func() {
		l.summarize()
		if t.Failed() {
			fmt.Printf("chaos: to inject the same faults: make chaos %s=%d %s=%v %s=%s %s=%s %s=%s\n",
				seedEnv, p.Seed, timeEnv, duration, faultsEnv, os.Getenv(faultsEnv), rateEnv, os.Getenv(rateEnv),
				topologyEnv, os.Getenv(topologyEnv))
		}
	})

	// Whatever is started below ends with this context, or here.
	ctx, end := context.WithCancel(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer end()
	l.start(ctx, &background)

	trouble, calm := context.WithTimeout(ctx, duration)
	defer calm()
	stopOnViolation := context.AfterFunc(l.violated, calm)
	defer stopOnViolation()
	l.trouble(trouble)
	if ctx.Err() == nil && l.violated.Err() == nil {
		l.heal(ctx)
		l.converge(ctx, convergence)
	}
	if ctx.Err() != nil {
		_ = os.Unsetenv(keepEnv) // nothing is left behind
		t.Error("interrupted")
	}
	end()
	background.Wait()
	for _, v := range l.violations() {
		t.Error(v)
	}
}

func settings(t *testing.T) (duration time.Duration, p plan.Plan, balanced bool) {
	t.Helper()
	duration, p = 10*time.Minute, plan.Plan{Seed: rand.Uint64N(1_000_000), Servers: servers, Editions: len(editions)}
	var err error
	switch text := os.Getenv(topologyEnv); text {
	case "", "balancer":
		balanced = text != ""
	default:
		t.Fatalf("read %s: %q is not balancer", topologyEnv, text)
	}
	if text := os.Getenv(timeEnv); text != "" {
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatalf("read %s: %v", timeEnv, err)
		}
	}
	if text := os.Getenv(seedEnv); text != "" {
		if p.Seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("read %s: %v", seedEnv, err)
		}
	}
	if text := os.Getenv(rateEnv); text != "" {
		if p.Rate, err = strconv.ParseFloat(text, 64); err != nil || p.Rate <= 0 {
			t.Fatalf("read %s: %q is not a number greater than 0", rateEnv, text)
		}
	}
	if p.Kinds, err = plan.Parse(os.Getenv(faultsEnv)); err != nil {
		t.Fatalf("read %s: %v", faultsEnv, err)
	}
	if balanced { // on layer 4 nothing can happen to one request, or to the way to one server
		p.Kinds = slices.DeleteFunc(p.Kinds, func(k plan.Kind) bool {
			return k == plan.CutServer || strings.HasPrefix(string(k), "requests-")
		})
	}
	return duration, p, balanced
}
