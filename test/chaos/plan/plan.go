// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides which faults a chaos run injects: what, where, in which order, how long each lasts, and the
// pauses between them. It is pure: everything follows from the seed. The moment at which a fault meets the product, and
// so its effect, depends on the machine.
package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind names a fault.
type Kind string

// The faults. Each is undone after Step.Hold: a process that was ended starts again, a connection that was cut works
// again, a wrong clock is right again. CustomResourceDefinitions stay as they are.
const (
	KillServer      Kind = "server-kill"    // SIGKILL for an API server
	EndServer       Kind = "server-end"     // SIGTERM for an API server
	SuspendServer   Kind = "server-suspend" // SIGSTOP and SIGCONT for an API server
	KillEtcd        Kind = "etcd-kill"      // SIGKILL for etcd
	SuspendEtcd     Kind = "etcd-suspend"   // SIGSTOP and SIGCONT for etcd
	Restore         Kind = "etcd-restore"   // etcd goes back to a backup that was made earlier
	RestoreBumped   Kind = "etcd-bumped"    // the same, with a revision that is greater than ever before
	CutEtcd         Kind = "cut-etcd"       // no packet between one API server and etcd
	CutServer       Kind = "cut-server"     // no packet from controllers and workers to one API server
	MoveStorage     Kind = "crd-flip"       // the storage version of the CustomResourceDefinition moves
	Reshape         Kind = "crd-shape"      // versions of the other CustomResourceDefinition get other fields
	Recreate        Kind = "crd-recreate"   // the CustomResourceDefinition is deleted, and made again
	DropNamespace   Kind = "namespace"      // a namespace with objects is deleted, and made again
	MoveServerClock Kind = "server-clock"   // the clock of an API server is wrong by Step.By
	RotateKey       Kind = "key-rotation"   // API servers get a new encryption key, and a migration is asked for
	WebhookDown     Kind = "webhook-down"   // the conversion webhook fails

	KillController    Kind = "controller-kill"    // SIGKILL for a controller, …
	EndController     Kind = "controller-end"     // SIGTERM
	SuspendController Kind = "controller-suspend" // SIGSTOP and SIGCONT
	KillWorker        Kind = "worker-kill"        // … and for a worker
	EndWorker         Kind = "worker-end"
	SuspendWorker     Kind = "worker-suspend"

	MoveControllerClock Kind = "controller-clock" // the clock of a controller is wrong by Step.By, …
	MoveWorkerClock     Kind = "worker-clock"     // … and that of a worker

	Slow        Kind = "requests-slow"    // requests of controllers and workers are delayed
	Throttled   Kind = "requests-429"     // some get 429
	Unavailable Kind = "requests-503"     // some get 503
	Expired     Kind = "requests-410"     // the next page of a list gets 410
	Reset       Kind = "requests-reset"   // connections break before or after the server has answered
	Unreachable Kind = "requests-nowhere" // controllers and workers reach no API server
)

// heavy are the faults that end epochs or move the storage version. They come in waves, with calm periods in between.
// light faults come all the time.
var (
	ofServers = []Kind{KillServer, KillServer, EndServer, EndServer, SuspendServer}
	ofData    = []Kind{MoveStorage, MoveStorage, MoveStorage, Reshape, Reshape, Reshape, Recreate, DropNamespace,
		KillEtcd, SuspendEtcd, Restore, RestoreBumped}
	ofNetwork = []Kind{CutEtcd, CutServer, MoveServerClock}
	ofKeys    = []Kind{RotateKey}
	clocks    = []Kind{MoveServerClock, MoveControllerClock, MoveWorkerClock}
	light     = []Kind{
		KillController, EndController, SuspendController, KillWorker, KillWorker, EndWorker, SuspendWorker,
		MoveControllerClock, MoveControllerClock, MoveWorkerClock, MoveWorkerClock,
		Slow, Throttled, Unavailable, Expired, Reset, Unreachable, WebhookDown,
	}
)

// All are the kinds that a plan draws from, sorted.
func All() []Kind {
	all := slices.Concat(ofServers, ofData, ofNetwork, ofKeys, light)
	slices.Sort(all)
	return slices.Compact(all)
}

// Parse parses a comma-separated list of kinds. An empty list means all of them.
func Parse(text string) ([]Kind, error) {
	if text == "" {
		return All(), nil
	}
	var kinds []Kind
	for word := range strings.SplitSeq(text, ",") {
		if !slices.Contains(All(), Kind(word)) {
			return nil, fmt.Errorf("read faults: there is no fault %q, only %v", word, All())
		}
		kinds = append(kinds, Kind(word))
	}
	return kinds, nil
}

// Step is one fault.
type Step struct {
	Kind Kind
	// Pause is how long to wait after the previous step. Hold is how long the fault lasts.
	Pause, Hold time.Duration
	// Target is the number of the server, controller or worker, from 0. If there are fewer at that moment, the count
	// wraps around.
	Target int
	// Edition is the number of the edition in which a server returns.
	Edition int
	// By is how far a clock is moved, in whole seconds, forward or back.
	By time.Duration
}

func (s Step) String() string {
	if s.By != 0 {
		return fmt.Sprintf("%s %d by %v for %s", s.Kind, s.Target, s.By, s.Hold.Round(time.Millisecond))
	}
	return fmt.Sprintf("%s %d for %s", s.Kind, s.Target, s.Hold.Round(time.Millisecond))
}

// Wave is a period of heavy faults. The lanes start together, and the steps of one lane follow each other.
type Wave struct {
	Lanes [][]Step
	// Align means that every server returns in the Edition at the end, so that all write the same version. Otherwise
	// they may disagree during the calm.
	Align   bool
	Edition int
	// Calm follows once all lanes have ended.
	Calm time.Duration
}

// Plan draws faults.
type Plan struct {
	// Seed determines everything.
	Seed uint64
	// Servers is how many API servers there are, Editions in how many editions they can run.
	Servers, Editions int
	// Rate multiplies how often light faults come: it divides the pauses between them. 0 means 1. It does not affect
	// heavy faults, because kube-migrator proves nothing while epochs keep ending.
	Rate float64
	// Kinds are the faults to inject. The plan draws others as well and omits them, so that a narrower plan does the
	// same at the same place. Empty means all kinds.
	Kinds []Kind
}

// Streams of random numbers: each wave, and each stretch of light faults, has its own, so that a draw does not depend
// on earlier draws.
const (
	waves uint64 = iota << 32
	stretches
)

// stretch is how many light faults are drawn from one stream.
const stretch = 16

// Wave returns wave number n, from 0.
func (p Plan) Wave(n int) Wave {
	r := rand.New(rand.NewPCG(p.Seed, waves+uint64(n)))
	w := Wave{Edition: r.IntN(p.Editions), Align: r.Float64() < 0.75, Calm: between(r, 22*time.Second, 45*time.Second)}
	for server := range p.Servers {
		var lane []Step
		for range r.IntN(4) {
			s := p.draw(r, ofServers, 0, 6*time.Second, 12*time.Second)
			if s.Target = server; r.Float64() < 0.6 {
				s.Edition = w.Edition
			}
			lane = append(lane, s)
		}
		w.Lanes = append(w.Lanes, p.permitted(lane))
	}
	for _, kinds := range [][]Kind{ofData, ofNetwork} {
		var lane []Step
		for range 1 + r.IntN(3) {
			lane = append(lane, p.draw(r, kinds, 0, 6*time.Second, 5*time.Second))
		}
		w.Lanes = append(w.Lanes, p.permitted(lane))
	}
	var lane []Step
	if s := p.draw(r, ofKeys, 0, 6*time.Second, 5*time.Second); r.IntN(3) == 0 {
		lane = append(lane, s)
	}
	w.Lanes = append(w.Lanes, p.permitted(lane))
	return w
}

// Light returns light fault number n, from 0.
func (p Plan) Light(n int) Step {
	r := rand.New(rand.NewPCG(p.Seed, stretches+uint64(n/stretch)))
	var s Step
	for range n%stretch + 1 {
		s = p.draw(r, light, 200*time.Millisecond, 7*time.Second, 6*time.Second)
	}
	if p.Rate > 0 {
		s.Pause = time.Duration(float64(s.Pause) / p.Rate)
	}
	return s
}

// Permitted reports whether the plan injects faults of a kind.
func (p Plan) Permitted(k Kind) bool { return len(p.Kinds) == 0 || slices.Contains(p.Kinds, k) }

func (p Plan) permitted(steps []Step) []Step {
	return slices.DeleteFunc(steps, func(s Step) bool { return !p.Permitted(s.Kind) })
}

func (p Plan) draw(r *rand.Rand, kinds []Kind, least, most, longest time.Duration) Step {
	s := Step{
		Kind: kinds[r.IntN(len(kinds))], Pause: between(r, least, most), Hold: between(r, 0, longest),
		Target: r.IntN(max(p.Servers, 8)), Edition: r.IntN(p.Editions),
	}
	if slices.Contains(clocks, s.Kind) {
		s.Hold *= clockHold
		s.By = distance(r)
	}
	return s
}

// clockHold is how much longer a clock stays wrong than other faults last.
const clockHold = 5

// MostMoved is the greatest distance by which a clock is moved.
const MostMoved = 6 * time.Hour

// distance returns a time between a second and MostMoved, forward or back. Each order of magnitude is equally likely.
func distance(r *rand.Rand) time.Duration {
	by := time.Duration(math.Exp(r.Float64()*math.Log(MostMoved.Seconds()))) * time.Second
	if r.IntN(2) == 0 {
		return -by
	}
	return by
}

func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}
