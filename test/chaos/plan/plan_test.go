// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func newPlan(seed uint64) Plan { return Plan{Seed: seed, Servers: 2, Editions: 4} }

func TestAPlanFollowsFromItsSeed(t *testing.T) {
	one, again, other := newPlan(1), newPlan(1), newPlan(2)
	for n := range 50 {
		if diff := cmp.Diff(one.Wave(n), again.Wave(n)); diff != "" {
			t.Errorf("wave %d of one seed (-first +second):\n%s", n, diff)
		}
		if one.Light(n) != again.Light(n) {
			t.Errorf("light fault %d of one seed: %v and %v", n, one.Light(n), again.Light(n))
		}
	}
	if cmp.Equal(one.Wave(0), other.Wave(0)) || one.Light(0) == other.Light(0) {
		t.Error("two seeds give the same plan")
	}
	if cmp.Equal(one.Wave(0), one.Wave(1)) {
		t.Error("two waves are the same")
	}
}

func TestEveryFaultIsDrawnWithinItsBounds(t *testing.T) {
	drawn := map[Kind]int{}
	var least, most time.Duration
	p := newPlan(3)
	checkClock := func(s Step) {
		moved := s.Kind == MoveServerClock || s.Kind == MoveControllerClock || s.Kind == MoveWorkerClock
		if by := s.By.Abs(); moved && (by < time.Second || by > MostMoved || by%time.Second != 0) || !moved && by != 0 {
			t.Errorf("step %+v moves a clock by %v", s, s.By)
		}
		least, most = min(least, s.By), max(most, s.By)
	}
	for n := range 200 {
		w := p.Wave(n)
		if len(w.Lanes) != p.Servers+3 || w.Calm < 20*time.Second || w.Edition >= p.Editions {
			t.Fatalf("wave %d is %+v", n, w)
		}
		for i, lane := range w.Lanes {
			for _, s := range lane {
				drawn[s.Kind]++
				checkClock(s)
				if i < p.Servers && s.Target != i {
					t.Errorf("a step of server %d is aimed at %d", i, s.Target)
				}
				if s.Edition < 0 || s.Edition >= p.Editions || s.Hold < 0 || s.Pause < 0 {
					t.Errorf("step %+v", s)
				}
				// A write that is on its way to etcd while this is cut must arrive within the settle time of a run.
				if s.Kind == CutEtcd && s.Hold > 5*time.Second {
					t.Errorf("etcd is cut off for %v", s.Hold)
				}
			}
		}
		s := p.Light(n)
		drawn[s.Kind]++
		if s.Pause <= 0 {
			t.Errorf("light fault %+v comes without a pause", s)
		}
		checkClock(s)
	}
	if least > -time.Hour || most < time.Hour {
		t.Errorf("clocks are moved by %v to %v, want hours both ways", least, most)
	}
	for _, k := range All() {
		if drawn[k] == 0 {
			t.Errorf("%s is never drawn", k)
		}
	}
	if len(drawn) != len(All()) {
		t.Errorf("drawn are %v, All has %v", drawn, All())
	}
}

func TestANarrowerPlanLeavesOutAndChangesNothingElse(t *testing.T) {
	wide, narrow := newPlan(4), newPlan(4)
	narrow.Kinds = []Kind{KillServer, MoveStorage}
	for n := range 20 {
		for i, lane := range wide.Wave(n).Lanes {
			want := slices.DeleteFunc(lane, func(s Step) bool { return s.Kind != KillServer && s.Kind != MoveStorage })
			if got := narrow.Wave(n).Lanes[i]; !slices.Equal(got, want) {
				t.Errorf("wave %d, lane %d: %v, want %v", n, i, got, want)
			}
		}
	}
}

func TestARateShortensThePausesBetweenLightFaultsAndChangesNothingElse(t *testing.T) {
	usual, often := newPlan(5), newPlan(5)
	often.Rate = 4
	for n := range 50 {
		want := usual.Light(n)
		want.Pause /= 4
		if got := often.Light(n); got != want {
			t.Errorf("light fault %d: %+v, want %+v", n, got, want)
		}
		if diff := cmp.Diff(usual.Wave(n), often.Wave(n)); diff != "" {
			t.Errorf("wave %d (-usual +often):\n%s", n, diff)
		}
	}
}

func TestParse(t *testing.T) {
	if got, err := Parse("server-kill,crd-flip"); err != nil || !slices.Equal(got, []Kind{KillServer, MoveStorage}) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := Parse(""); err != nil || !slices.Equal(got, All()) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := Parse("server-kill,nonsense"); err == nil {
		t.Error("a fault that does not exist is accepted")
	}
}
