// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/internal/printable"
	"github.com/kube-migrator/kube-migrator/internal/waitgroup"
)

// rewriteAll is the pass over all objects, starting from the checkpoint. The resourceVersion of the first page is the
// baseline: the epoch has settled, so every newer object was written in it.
func (s *Sweep) rewriteAll(ctx context.Context, starting untilStop) error {
	if s.state.Listed {
		return nil
	}
	s.enter(Rewriting)
	s.update(func() { s.silent = silence{} })
	known, last := s.newest.Load(), ""
	return s.pages(starting, s.state.Continue, func(p page, first bool) error {
		s.compare(p)
		if first {
			if err := s.beginList(ctx, p, known); err != nil {
				return err
			}
			last = ""
		}
		counts, failures, err := s.each(ctx, starting, p.objects, s.rewriteOnce)
		if err == nil && counts.Gone > 0 {
			// The deletion of an object has no resourceVersion; a resourceVersion that is read now is newer (see
			// Prefix.Reached).
			_, err = s.list(starting, s.wire.target.Resource.Version, 1, "")
		}
		if err != nil {
			return err
		}
		s.update(func() {
			s.live = Counts{}
			s.state.Counts.add(counts)
			s.state.fail(failures)
			s.keepWitness()
			last = s.state.done(last, p.objects, s.newest.Load())
			s.state.Continue, s.state.Listed = p.next, p.next == ""
		})
		// A crash before this line repeats the page; a crash after it repeats nothing (I5).
		return s.save(ctx)
	})
}

// beginList starts counting with the first page. known is the newest resourceVersion that was read before. If the
// collection has a lower one, etcd was restored from a backup, as with a witness.
func (s *Sweep) beginList(ctx context.Context, p page, known uint64) error {
	if p.resourceVersion < known && !s.state.Incomparable {
		return s.startOver(ctx, "the collection", p.resourceVersion)
	}
	s.update(func() {
		if s.state.Baseline == 0 {
			s.state.Baseline, s.state.Confirmed = p.resourceVersion, p.resourceVersion
		}
		if s.state.Counts.Done() > 0 {
			s.state.recount() // the list had to start over within the epoch
		}
		s.state.Total = int64(len(p.objects)) + max(p.remaining, 0)
	})
	return nil
}

// compare finds out whether resourceVersions of this resource can be compared: as long as both are revisions of etcd,
// that of a list is at least that of every object in it. An aggregated API server may answer every list with the same
// number, and each object would seem to be newer than the baseline (I4).
func (s *Sweep) compare(p page) {
	newer := func(o object) bool { return number(o.resourceVersion) > p.resourceVersion }
	if s.state.Incomparable || !slices.ContainsFunc(p.objects, newer) {
		return
	}
	s.log.Info("An object has a greater resourceVersion than its list: they cannot be compared, every object is " +
		"rewritten")
	s.update(func() {
		s.state.Incomparable = true
		s.state.Ranges, s.state.Prefix = nil, goodPrefix{}
	})
}

// handle does something with one object and reports the outcome. An error ends the sweep.
type handle func(ctx context.Context, starting untilStop, o object) (Counts, *Failure, error)

// each passes the objects to as many goroutines as requests may be in flight, and waits for all of them. After an error
// it starts nothing new.
func (s *Sweep) each(ctx context.Context, starting untilStop, objects []object,
	h handle) (counts Counts, failures []Failure, err error) {
	var mu sync.Mutex
	next, retrying := 0, s.Progress().Phase == Retrying
	take := func() (object, bool) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil || next == len(objects) {
			return object{}, false
		}
		next++
		return objects[next-1], true
	}
	put := func(c Counts, f *Failure, e error) {
		mu.Lock()
		defer mu.Unlock()
		counts.add(c)
		if f != nil {
			failures = append(failures, *f)
		}
		switch {
		case e == nil && (retrying || f == nil || !f.mayPass()):
			s.accounted.Add(1)
		case e != nil && err == nil:
			err = e
		}
		s.update(func() {
			if s.live = counts; f != nil {
				s.silent.last = *f
			}
		})
	}
	var workers waitgroup.Group
	for range min(s.options.Bounds.inFlight, len(objects)) {
		workers.Go(func() {
			for o, ok := take(); ok; o, ok = take() {
				put(h(ctx, starting, o))
			}
		})
	}
	workers.Wait()
	return counts, failures, err
}

// rewriteOnce rewrites an object unless it is known to be current.
func (s *Sweep) rewriteOnce(ctx context.Context, starting untilStop, o object) (Counts, *Failure, error) {
	if s.state.current(o) {
		if number(o.resourceVersion) <= s.options.Proven.ResourceVersion {
			s.sawObject(o) // the range of what is proven needs witnesses, and newer objects are soon written again
		}
		return Counts{Current: 1}, nil, nil
	}
	return s.rewrite(ctx, starting, o)
}

const (
	// maxRecreations is how often an object may be found again after a patch that did not find it.
	maxRecreations = 3
	// maxMoves is how often the second pass patches an object whose resourceVersion keeps changing.
	maxMoves = 6
)

// rewrite sends the empty patch and reports the outcome. A new resourceVersion means that the bytes in etcd were not
// those of the current version, or that another client wrote the object; in both cases the object is current now. An
// unchanged one means that the object was already current.
func (s *Sweep) rewrite(ctx context.Context, starting untilStop, o object) (Counts, *Failure, error) {
	for attempt := 1; ; attempt++ {
		after, throughStatus, err := s.patch(ctx, starting, o)
		if classify(err) == missing {
			stored, e := s.stored(starting, o)
			switch {
			case e != nil:
				return s.judge(starting, o, e)
			case !stored:
				return Counts{Gone: 1}, nil, nil
			case attempt < maxRecreations:
				continue // another client may have created it again between the two requests
			}
		}
		if err != nil {
			return s.judge(starting, o, err)
		}
		counts := outcome(o, after)
		if s.options.DryRun {
			counts = Counts{Accepted: 1}
		}
		if throughStatus {
			counts.ThroughStatus = counts.Rewritten + counts.Accepted
		}
		return counts, nil, nil
	}
}

// outcome counts the outcome of a rewrite, and what the API server changed in addition (I3).
//
// The API server computes managedFields before admission runs, and every client's write changes them. So if
// managedFields are the same as in the list and something else differs, admission changed it. If they differ as well,
// it may have been a client. An object without managedFields does not distinguish the two, and counts as changed by
// admission.
func outcome(listed, after object) Counts {
	if after.resourceVersion == listed.resourceVersion {
		return Counts{Current: 1}
	}
	c := Counts{Rewritten: 1}
	changed := listed.generation != after.generation || listed.labels != after.labels
	if after.uid == listed.uid && after.owners == listed.owners && changed {
		c.ChangedByAdmission = 1
	}
	if after.uid == listed.uid && after.owners == 0 && listed.owners != 0 {
		c.ManagedFieldsDropped = 1
	}
	return c
}

// patch sends the empty patch of an object, or that of its status if the first is refused and the options ask for that.
func (s *Sweep) patch(ctx context.Context, starting untilStop, o object) (after object, throughStatus bool, err error) {
	after, err = s.patchAt(ctx, starting, o)
	if !s.hasStatus || !isRefusal(err) {
		return after, false, err
	}
	after, second := s.patchAt(ctx, starting, o, statusSubresource)
	switch classify(second) {
	case fine:
		return after, true, nil
	case rejected, missing, faulty, conflict, expired: // the refusal of the object itself says more
		return object{}, false, fmt.Errorf("%w; an empty patch of its status: %s", err, describe(second))
	case throttled, lost, refused, unready, untrusted, cancelled:
	}
	return object{}, false, second
}

// isRefusal reports whether validation or admission refused an object.
func isRefusal(err error) bool {
	c := classify(err)
	if c != rejected || errors.Is(err, ErrAnswerTooLarge) {
		return false
	}
	reason := reasonOf(err, c)
	return reason == Rejected || reason == WouldChange
}

// patchAt sends the empty patch of an object, or of a subresource of it, through any API server.
func (s *Sweep) patchAt(ctx context.Context, starting untilStop, o object,
	subresource ...string) (after object, err error) {
	if err := s.hold.wait(starting); err != nil {
		return object{}, err
	}
	after, slot, err := s.patchThrough(ctx, starting, s.pacer.AcquireAny, o, subresource...)
	if by := s.serverOf(slot); by != nil {
		refused := err
		counts, e := s.counts(starting, by, o, after, err)
		if err = e; !counts {
			after, _, err = s.patchThrough(ctx, starting, s.pacer.Acquire, o, subresource...)
			if refused != nil && err == nil {
				s.pacer.Avoid(slot)
			}
		}
	}
	if err == nil && o.uid != "" && after.uid != o.uid {
		err = s.createdAgain(starting, o, after)
	}
	if err == nil {
		s.sawObject(after)
	}
	return after, err
}

// patchThrough sends it through one of the API servers that acquire chooses from, and returns the slot of the last one.
func (s *Sweep) patchThrough(ctx context.Context, starting untilStop, acquire acquire, o object,
	subresource ...string) (after object, last pace.Slot, err error) {
	now, faults := o, 0
	err = s.tryAt(ctx, starting, acquire, func(ctx context.Context, slot pace.Slot) (pace.Kind, error) {
		last = slot
		wire := s.wire
		if by := s.serverOf(slot); by != nil {
			wire = wire.at(by)
		}
		read, err := wire.known(ctx, now)
		if err == nil {
			now = read
			after, err = wire.rewrite(ctx, now, faults == maxAttempts-1, subresource...)
		}
		if classify(err) == faulty {
			faults++
		}
		switch {
		case err != nil:
			now, err = wire.replaced(ctx, now, err)
			return pace.Other, err
		case after.resourceVersion == o.resourceVersion:
			return pace.Unchanged, nil
		}
		return pace.Wrote, nil
	})
	if c := classify(err); c != throttled && c != lost && c != faulty && c != unready && c != cancelled {
		s.patched.Add(1)
	}
	return after, last, err
}

// createdAgain checks an answer about an object with another UID than the listed one. Another client may have deleted
// the object and created it again in between; then the listed object is gone. If the listed object still exists, the
// answer was about something else (I4).
func (s *Sweep) createdAgain(starting untilStop, listed, answered object) error {
	now, err := s.read(starting, listed)
	switch {
	case classify(err) == missing: // it was deleted again
		return nil
	case err == nil && now.uid == listed.uid:
		return s.wire.untrusted(fmt.Errorf("it answered about UID %s when %s with UID %s was patched",
			printable.Quote(string(answered.uid)), printable.Quote(listed.key()), printable.Quote(string(listed.uid))))
	}
	return err
}

// stored reports whether an object that a write did not find is stored nevertheless (I4): a read asks only etcd, while
// a write requires the namespace as well.
func (s *Sweep) stored(starting untilStop, o object) (bool, error) {
	_, err := s.read(starting, o)
	if classify(err) == missing {
		return false, nil
	}
	return err == nil, err
}

// judge decides whether an error is about the object, which it then records, or about everything, which ends the sweep.
func (s *Sweep) judge(starting untilStop, o object, err error) (Counts, *Failure, error) {
	var silent *outage
	if errors.As(err, &silent) && starting.Err() == nil {
		if err = s.ends(silent, s.Progress().Phase == Retrying); err == nil {
			err = silent.problem
		}
	}
	switch c := classify(err); {
	case starting.Err() != nil: // the sweep was told to end, which says nothing about the object
		return Counts{}, nil, context.Cause(starting)
	case errors.Is(err, errNotTheObject):
		return Counts{}, nil, s.gone(starting, fmt.Errorf("%w: rewrite %s: %w", ErrResourceGone,
			s.wire.target.GroupResource(), err))
	case c == unready:
		return Counts{}, nil, s.notReady(err)
	case errors.Is(err, errOutage), c == cancelled, c == refused, c == untrusted:
		return Counts{}, nil, fmt.Errorf("rewrite %s: %w", s.wire.target.GroupResource(), err)
	default:
		f := failureOf(o, reasonOf(err, c), describe(err)+s.remedy(err))
		return countOf(*f), f, nil
	}
}

// retryFailed tries once more to rewrite the objects that failed during the pass, as far as their names are known: many
// errors are transient. It reports the rest.
func (s *Sweep) retryFailed(ctx context.Context, starting untilStop) error {
	if len(s.state.Failures) == 0 {
		return nil
	}
	s.enter(Retrying)
	s.update(func() { s.silent = silence{} })
	var again []object
	var unknown, retried []Failure
	for _, f := range s.state.Failures {
		if f.Abridged {
			unknown = append(unknown, f)
			continue
		}
		again, retried = append(again, f.object()), append(retried, f)
	}
	counts, failures, err := s.each(ctx, starting, again, s.rewrite)
	if err != nil {
		return err // the failures stay recorded
	}
	s.update(func() {
		s.live = Counts{}
		for _, f := range retried {
			s.state.Counts.Failed--
			s.state.Counts.WouldLoseFields -= countOf(f).WouldLoseFields
		}
		s.state.Counts.add(counts)
		s.state.Failures = nil
		s.state.fail(append(unknown, failures...))
		s.keepWitness()
	})
	return s.save(ctx)
}
