// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/internal/printable"
)

// witness is an object as the sweep left it. When it is read again, it shows whether etcd was restored from a backup in
// the meantime. The resourceVersion of the collection shows that only until it has caught up.
//
// A witness with a lower resourceVersion proves a restore: otherwise neither an object nor its successor of the same
// name goes backwards. A witness that is exactly as the sweep left it proves the opposite up to its resourceVersion:
// etcd contains everything that the sweep saw written until then. A witness that was written or deleted since proves
// nothing.
type witness struct {
	Namespace       string    `json:"namespace,omitempty"`
	Name            string    `json:"name"`
	UID             types.UID `json:"uid"`
	ResourceVersion uint64    `json:"resourceVersion"`
	// Owners is a digest of metadata.managedFields. After a restore another write of the same object may happen to get
	// the same resourceVersion, but not at the same time.
	Owners uint64 `json:"owners,omitempty"`
}

func (w witness) object() object { return object{namespace: w.Namespace, name: w.Name} }

// maxWitnesses bounds how many witnesses are kept and read (I6). Each of the latest pages has one, because other
// clients may have written some of the objects since. Of the earlier pages, those are kept that are spread best.
const (
	maxWitnesses    = 16
	latestWitnesses = 4
)

// addWitness adds the newest witness. It does not change the argument.
func addWitness(witnesses []witness, w witness) []witness {
	n := len(witnesses)
	if w.UID == "" || n > 0 && w.ResourceVersion <= witnesses[n-1].ResourceVersion {
		return witnesses
	}
	witnesses = append(slices.Clone(witnesses), w)
	if n++; n <= maxWitnesses {
		return witnesses
	}
	crowded := 1
	gap := func(i int) uint64 { return witnesses[i+1].ResourceVersion - witnesses[i-1].ResourceVersion }
	for i := 2; i < n-latestWitnesses; i++ {
		if gap(i) < gap(crowded) {
			crowded = i
		}
	}
	return slices.Delete(witnesses, crowded, crowded+1)
}

// testimony is what the witnesses show about etcd's history.
type testimony struct {
	// upTo is the greatest resourceVersion up to which etcd contains what the sweep saw, or 0 if no witness shows that.
	upTo uint64
	// restored is a witness that went backwards, or nil.
	restored *witness
}

// hear adds what one witness shows. found is the object as it is now, or the zero object if it is gone.
func (t *testimony) hear(w witness, found object) {
	switch resourceVersion := number(found.resourceVersion); {
	case resourceVersion == 0: // it is gone, or its API server has no numeric resourceVersions
	case resourceVersion < w.ResourceVersion:
		t.restored = &w
	case resourceVersion == w.ResourceVersion && found.uid == w.UID && uint64(found.owners) == w.Owners:
		t.upTo = max(t.upTo, w.ResourceVersion)
	}
}

// believe keeps the parts of the checkpoint that hold even if etcd was restored to some moment after the revision upTo
// (I4, I5).
//   - A good range holds up to upTo: an object with such a resourceVersion was written before, in the history that the
//     sweep saw.
//   - The good prefix holds if everything that it relies on, including deletions, happened before; and then up to upTo.
//   - A pass continues in its epoch if any witness confirms it. The epoch names the processes of the API servers, which
//     are restarted when etcd is restored, so the witness is an additional safeguard.
func (c *checkpoint) believe(upTo uint64) {
	var ranges []goodRange
	for _, r := range c.Ranges {
		r.To = min(r.To, upTo)
		ranges = addRange(ranges, r)
	}
	c.Ranges = ranges
	if c.Prefix.ResourceVersion = min(c.Prefix.ResourceVersion, upTo); c.Prefix.Reached > upTo {
		c.Prefix = goodPrefix{}
	}
	if upTo == 0 && c.Begun {
		c.forget()
	}
}

// forget ends the pass and drops everything that was known about what is stored. The counts continue.
func (c *checkpoint) forget() {
	c.end()
	c.Ranges, c.Prefix, c.Witnesses = nil, goodPrefix{}, nil
}

// errRestored ends a pass: etcd was restored from a backup after the pass began.
var errRestored = fmt.Errorf("%w: etcd was restored from a backup", errEpochOver)

// maxRestores bounds how often one run starts over because objects went backwards. Otherwise an API server whose
// resourceVersions do not grow would make it start over indefinitely.
const maxRestores = 3

// hear reads all witnesses.
func (s *Sweep) hear(starting untilStop) (t testimony, err error) {
	for _, w := range s.state.Witnesses {
		found, err := s.read(starting, w.object())
		if err != nil && classify(err) != missing {
			return testimony{}, fmt.Errorf("read %s again, to see whether etcd was restored: %w",
				printable.Name(w.Namespace, w.Name), err)
		}
		if t.hear(w, found); t.restored != nil {
			break
		}
	}
	return t, nil
}

// recall reads the witnesses before the sweep uses results of an earlier page, pass or process, and keeps the results
// that they confirm.
func (s *Sweep) recall(starting untilStop) error {
	if len(s.state.Ranges) == 0 && s.state.Prefix == (goodPrefix{}) && !s.state.Begun {
		return nil
	}
	t, err := s.hear(starting)
	switch {
	case err != nil:
		return err
	case t.restored != nil:
		return s.startOver(starting, printable.Name(t.restored.Namespace, t.restored.Name), t.restored.ResourceVersion)
	case t.upTo == 0 && s.state.Begun:
		s.log.Info("No object is as this sweep left it, so nothing shows that etcd was not restored meanwhile: " +
			"starting over")
	}
	s.update(func() { s.state.believe(t.upTo) })
	return nil
}

// recheck reads the witnesses before a proof, to find out whether etcd was restored during the pass. Witnesses that
// were written or deleted in the meantime are not a reason to start over: an uninterrupted pass relies on no earlier
// results.
func (s *Sweep) recheck(starting untilStop) error {
	t, err := s.hear(starting)
	if err == nil && t.restored != nil {
		err = s.startOver(starting, printable.Name(t.restored.Namespace, t.restored.Name), t.restored.ResourceVersion)
	}
	return err
}

// startOver drops everything, because etcd contains an older state than the sweep has seen: an object or the collection
// has a lower resourceVersion now. The epoch has to settle again, even if its identity is the same: after the restore,
// objects may have been written in any version.
func (s *Sweep) startOver(ctx context.Context, what string, resourceVersion uint64) error {
	s.log.Warn("A resourceVersion went backwards: etcd was restored from a backup, starting over", "of", what,
		"resourceVersion", resourceVersion)
	s.update(func() {
		s.endPass()
		s.state.forget()
		s.candidate, s.state.Restored = witness{}, time.Now()
	})
	s.newest.Store(0)
	if s.restores++; s.restores > maxRestores {
		return errors.Join(fmt.Errorf("%w: %d times, the last time that of %s", ErrWentBackwards,
			s.restores, what), s.save(ctx))
	}
	return errRestored
}

// sawObject makes an object, as the API server returned or listed it, the next witness if it is the newest so far.
func (s *Sweep) sawObject(o object) {
	s.sawResourceVersion(number(o.resourceVersion))
	if s.options.DryRun {
		return
	}
	s.update(func() {
		if n := number(o.resourceVersion); n > s.candidate.ResourceVersion && o.uid != "" && o.savable() {
			s.candidate = witness{Namespace: o.namespace, Name: o.name, UID: o.uid, ResourceVersion: n,
				Owners: uint64(o.owners)}
		}
	})
}

// keepWitness records the newest object as a witness. The lock is held.
func (s *Sweep) keepWitness() { s.state.Witnesses = addWitness(s.state.Witnesses, s.candidate) }

// read reads an object's metadata from etcd, as every GET without a resourceVersion does.
func (s *Sweep) read(starting untilStop, o object) (found object, err error) {
	err = s.try(starting, func(ctx context.Context) (kind pace.Kind, err error) {
		found, err = s.wire.get(ctx, o)
		return pace.Other, err
	})
	return found, err
}
