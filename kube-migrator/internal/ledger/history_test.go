// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// quiet is how long an undisturbed cluster may take until everything is migrated: it is far more than it needs.
const quiet = 150

// calmDown removes every disturbance: one server that answers, a controller, and no changes by users. After that
// everything has to be migrated in the end, and be recorded as migrated.
func (w *world) calmDown() {
	last := -1
	for host := range hosts {
		if i := w.onHost(host); i >= 0 {
			last = i
		}
	}
	if last < 0 {
		return
	}
	w.resume(last)
	for i := range w.n {
		if i != last {
			w.kill(i, true)
		}
	}
	w.procs[last].isolated = false
	if !w.up {
		w.lose()
		w.up = true
	}
	calm := w.now
	for i := range quiet {
		if w.broken != "" || w.record.Migrated() && w.begun > calm+mostLag && !w.lookTaken {
			break
		}
		w.trigger()
		w.engine()
		w.tick()
		w.checkTruth()
		if w.trace != nil && i%10 == 0 {
			w.trace("%3d calm: %v, recorded %+v, generation %d, completed %d, run %+v", w.now, w.stands(), w.record,
				w.generation, w.completed, w.run)
		}
	}
	if w.broken != "" {
		return
	}
	if !w.record.Migrated() {
		w.broken = fmt.Sprintf("I5: nothing happens any more, and the end is not reached: %v", w.record.Persisted)
	}
	for _, o := range w.objects {
		if o.exists && hashes[o.hash] != w.record.Current {
			w.broken = "I1: an object is not in the version that everything is proven to be in"
		}
	}
}

// tell plays the tale in a new cluster. It returns the step after which an invariant was broken, and which one.
func (w *world) tell(r rules, t tale) (step int, broken string) {
	w.begin(r, t)
	for i, m := range t.moves {
		// What does not happen in this tale gives way to its first move, so that a tale dwells on something.
		if t.never[m.kind] {
			m = t.moves[0]
		}
		if t.never[m.kind] {
			continue
		}
		m.do(w, m.arg)
		w.tick()
		w.checkTruth()
		if w.trace != nil {
			w.trace("%3d %-24v objects %v, recorded %v after %d of look %d, generation %d, completed %d",
				w.now, m, w.stands(), w.record.Persisted, w.record.After, w.begun, w.generation, w.completed)
		}
		if w.broken != "" {
			return i, w.broken
		}
	}
	w.calmDown()
	return len(t.moves), w.broken
}

func (w *world) stands() []string {
	var all []string
	for _, o := range w.objects {
		all = append(all, fmt.Sprintf("%s/p%d@%d", hashes[o.hash], o.by, o.at))
	}
	for i, p := range w.procs[:w.n] {
		if p.listed || p.alive {
			all = append(all, fmt.Sprintf("p%d:%s alive=%v listed=%v answers=%v draining=%v suspended=%v", i,
				hashes[w.written(&p)], p.alive, p.listed, p.answers && !p.isolated, p.draining, p.suspended))
		}
	}
	return all
}

const historySeed = 20261121

// tale is one history and the cluster that it happens in.
type tale struct {
	kind    kind
	silent  bool
	blind   bool
	kept    bool
	servers int
	// never are the kinds of moves that do not happen in it: a history of few kinds goes deeper than a history of all
	// kinds.
	never []bool
	moves []move
}

func tales() *rapid.Generator[tale] {
	all, subjects := moves(), themes()
	byName := named(all)
	for len(subjects) < 2*len(themes()) {
		subjects = append(subjects, theme{}) // more than every second history is about nothing
	}
	sorts := all[len(all)-1].kind + 1
	steps := rapid.SliceOfN(rapid.SampledFrom(all), 20, 80)
	never := rapid.SliceOfN(rapid.SampledFrom([]bool{false, true, true}), sorts, sorts)
	return rapid.Custom(func(t *rapid.T) tale {
		about := rapid.SampledFrom(subjects).Draw(t, "theme")
		story := tale{kind: rapid.SampledFrom([]kind{builtIn, ownEtcd, custom, aggregated}).Draw(t, "kind"),
			servers: rapid.IntRange(1, 2).Draw(t, "servers")}
		story.blind = rapid.Bool().Draw(t, "may not list")
		story.kept = rapid.IntRange(0, 2).Draw(t, "Leases outlive processes") == 2
		if len(about.moves) > 0 {
			story.silent, story.never = about.silent, make([]bool, sorts)
			if len(about.kinds) > 0 {
				story.kind = rapid.SampledFrom(about.kinds).Draw(t, "kind of the theme")
			}
			story.moves = vary(t, about, all, byName)
			return story
		}
		story.silent = rapid.IntRange(0, 3).Draw(t, "no one keeps EndpointSlices") == 3
		story.never, story.moves = never.Draw(t, "never"), steps.Draw(t, "moves")
		return story
	})
}

// TestNoHistoryBreaksAnInvariant checks I1 and I2 after every step of histories of a cluster. Repeat a failure with the
// -rapid.seed that it prints, and look further with -rapid.checks.
func TestNoHistoryBreaksAnInvariant(t *testing.T) {
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": fmt.Sprint(histories),
		"rapid.seed": fmt.Sprint(historySeed)} {
		if given[name] {
			continue
		}
		before := flag.Lookup(name).Value.String()
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = flag.Set(name, before) })
	}
	generator, w := tales(), new(world)
	var played, trims, doubts, trimmed int
	began := time.Now()
	rapid.Check(t, func(t *rapid.T) {
		tale := generator.Draw(t, "history")
		w.trace = nil
		if step, broken := w.tell(sound(), tale); broken != "" {
			w.trace = t.Logf
			w.tell(sound(), tale)
			t.Fatalf("step %d: %s", step, broken)
		}
		played, trims, doubts = played+1, trims+w.trims, doubts+w.doubts
		if w.trims > 0 {
			trimmed++
		}
	})
	t.Logf("%d histories in %v: %d trims in %d of them, %d doubts", played, time.Since(began).Round(time.Millisecond),
		trims, trimmed, doubts)
	if trimmed < played/20 || doubts < played/5 {
		t.Errorf("the histories hardly do anything: %d of %d trim, %d doubts", trimmed, played, doubts)
	}
}
