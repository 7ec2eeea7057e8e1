// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package judge compares what etcd holds with what kube-migrator claims, change by change. It is pure: it takes changes
// of etcd, in the order of their revisions, and returns violations of the invariants. It asks no API server.
//   - I1 and I2 are those of testbed.Truth.Violations, after every change of an object, a StorageState or a
//     CustomResourceDefinition, and so at every trim. A version is excused as long as no record can contain it yet (see
//     excused).
//   - I3: an object changes only if a writer of the run has stamped it, and appears or disappears only if a writer has
//     announced it. A field that a rewrite has dropped is named, by the rule of the package content.
//   - I4: when a StorageVersionMigration succeeds, every object that is older than its baseline is in the version that
//     it names. After a rotation of keys (see Rotation), every such object is encrypted with the key or a later one.
//     When one fails because of objects, it has counted every such object that is in another version, and named each
//     one as long as its list has room.
//   - I8: Turns.
package judge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// Stamp is the annotation to which a writer gives a new value with every write.
const Stamp = "chaos.example.com/stamp"

// rotation is the beginning of the reason of a StorageVersionMigration that is requested after a rotation of keys. The
// reason ends with the key's number.
const rotation = "key rotation to "

// Rotation returns the reason with which to request a migration. Keys are numbered, and named key1, key2, ….
func Rotation(key int) string { return rotation + KeyName(key) }

// KeyName returns the name of an encryption key.
func KeyName(key int) string { return "key" + strconv.Itoa(key) }

// keyOf returns the number of the key with which a value is encrypted, in the notation of testbed.Value.Version, or 0
// if it is not encrypted.
func keyOf(version string) int {
	number, err := strconv.Atoi(strings.TrimPrefix(version[strings.LastIndex(version, ":")+1:], "key"))
	if err != nil || !strings.HasPrefix(version, "enc:") {
		return 0
	}
	return number
}

// The keys under which etcd holds what is judged besides the objects.
const (
	StatesPrefix     = "/registry/migration.k8s.io/storagestates/"
	MigrationsPrefix = "/registry/migration.k8s.io/storageversionmigrations/"
	CRDsPrefix       = "/registry/apiextensions.k8s.io/customresourcedefinitions/"
)

// Change is one change in etcd.
type Change struct {
	Key string
	// Value is nil if the key was deleted.
	Value []byte
	// Revision is that of etcd after the change.
	Revision int64
}

// World is what a judge has to know from the test that runs the cluster. It is always called after the change in
// question was made.
type World interface {
	// Unseen returns the hashes of a built-in resource that processes may have written and that a look which began at a
	// given time cannot know: those of live processes, and of processes that ended at that time or later. all means
	// that no record of that time can be judged.
	Unseen(k testbed.Kind, look time.Time) (hashes []string, all bool)
	// Creates and Deletes report whether a writer has announced that a key may appear or disappear.
	Creates(key string) bool
	Deletes(key string) bool
	// Settling reports whether the CustomResourceDefinition changed less than the settle time ago. A sweep that began
	// before does not know its schemas yet.
	Settling(k testbed.Kind) bool
}

// Counts say how much was judged.
type Counts struct {
	// Changes of objects, of which Rewritten changed the encoding alone.
	Changes, Rewritten int
	// Looks counts the comparisons of etcd with the records. Of these, Telling did not contain Unknown, Migrated
	// contained one version, and Mixed had objects of two versions.
	Looks, Telling, Migrated, Mixed int
	// Trims counts StorageStates and storedVersions that lost a version.
	Trims int
	// Successes are runs of StorageVersionMigrations that claimed success.
	Successes int
	// Failures are runs that failed because of objects. Spared are the objects that they named because these would lose
	// fields.
	Failures, Spared int
	// Raced counts rewrites that dropped fields while a new CustomResourceDefinition was settling.
	Raced int
}

// Judge judges some resources. It is not safe for concurrent use.
type Judge struct {
	Counts
	world     World
	resources []*resource
	// completed is, for each migration by UID, the generation whose success was judged. failed is the same for the
	// baseline of the last run that failed because of objects.
	completed map[types.UID]int64
	failed    map[types.UID]string
	// pending are the migrations, by key, that are requested and have not succeeded.
	pending map[string]bool
}

// resource is what etcd holds of a resource, and what is recorded about it.
type resource struct {
	kind        testbed.Kind
	objects     map[string]object
	truth       testbed.Truth
	generations []generation
	// strays are objects older than the CustomResourceDefinition, which its storedVersions do not cover.
	strays map[string]bool
	// known are keys that existed at some time.
	known map[string]bool
}

type object struct {
	testbed.Value
	raw      []byte
	revision int64
}

// generation is the part of a CustomResourceDefinition that concerns storage.
type generation struct {
	uid    types.UID
	number int64
	hash   string
}

// New returns a judge of some resources. Begin provides the initial state.
func New(world World, kinds ...testbed.Kind) *Judge {
	j := &Judge{world: world, completed: map[types.UID]int64{}, failed: map[types.UID]string{}}
	for _, k := range kinds {
		j.resources = append(j.resources, &resource{kind: k})
	}
	j.Begin(nil)
	return j
}

// Begin replaces the known state of etcd: at first, and after etcd was restored from a backup. It compares nothing with
// the earlier state.
func (j *Judge) Begin(held []Change) (violations []string) {
	for _, r := range j.resources {
		r.objects, r.strays, r.known = map[string]object{}, map[string]bool{}, map[string]bool{}
		r.truth, r.generations = testbed.NewTruth(r.kind), nil
	}
	j.pending = map[string]bool{}
	for _, c := range held {
		for _, r := range j.resources {
			switch {
			case strings.HasPrefix(c.Key, r.kind.Prefix):
				value, err := testbed.ReadValue(c.Value)
				if err != nil {
					violations = append(violations, fmt.Sprintf("I3 violated: %s cannot be decoded: %v", c.Key, err))
				}
				r.put(c.Key, object{value, c.Value, c.Revision})
			case c.Key == StatesPrefix+r.kind.Name(), c.Key == CRDsPrefix+r.kind.Name():
				violations = append(violations, r.record(c)...)
			}
		}
		if m, ok := j.readMigration(c); ok {
			j.completed[m.Metadata.UID] = max(j.completed[m.Metadata.UID], m.Status.CompletedGeneration)
		}
	}
	return violations
}

// Apply applies the changes of one revision, which etcd made at the same time, and returns what is wrong afterwards.
func (j *Judge) Apply(changes []Change) (violations []string) {
	for _, r := range j.resources {
		touched := false
		for _, c := range changes {
			switch {
			case strings.HasPrefix(c.Key, r.kind.Prefix):
				touched = true
				j.Changes++
				violations = append(violations, j.harm(r, c)...)
			case c.Key == StatesPrefix+r.kind.Name(), c.Key == CRDsPrefix+r.kind.Name():
				touched = true
				before := r.truth
				violations = append(violations, r.record(c)...)
				if lacks(before.Claimed, r.truth.Claimed) || lacks(before.Stored, r.truth.Stored) {
					j.Trims++
				}
			}
		}
		if touched {
			violations = append(violations, j.compare(r)...)
		}
	}
	for _, c := range changes {
		if m, ok := j.readMigration(c); ok {
			violations = append(violations, j.success(m)...)
			violations = append(violations, j.failure(m)...)
		}
	}
	for i, v := range violations {
		violations[i] = fmt.Sprintf("revision %d: %s", changes[0].Revision, v)
	}
	return violations
}

// lacks reports whether something is left, and less than before.
func lacks(before, after []string) bool {
	return len(after) > 0 && slices.ContainsFunc(before,
		func(word string) bool { return !slices.Contains(after, word) })
}

// put stores an object and counts its version.
func (r *resource) put(key string, o object) {
	r.drop(key)
	r.objects[key], r.known[key] = o, true
	r.truth.Held[o.Version]++
}

func (r *resource) drop(key string) {
	if before, ok := r.objects[key]; ok {
		if r.truth.Held[before.Version]--; r.truth.Held[before.Version] == 0 {
			delete(r.truth.Held, before.Version)
		}
	}
	delete(r.objects, key)
	delete(r.strays, key)
}

// record stores what a StorageState or a CustomResourceDefinition says.
func (r *resource) record(c Change) (violations []string) {
	held := r.truth.Held
	var err error
	switch state := strings.HasPrefix(c.Key, StatesPrefix); {
	case state && c.Value == nil:
		stored := r.truth.Stored
		r.truth = testbed.NewTruth(r.kind)
		r.truth.Stored = stored
	case state:
		err = r.truth.ReadState(c.Value)
	case c.Value == nil:
		r.truth.Stored = nil
	default:
		if r.truth.Stored == nil {
			for key := range r.objects {
				r.strays[key] = true
			}
		}
		if err = r.truth.ReadCRD(c.Value); err == nil {
			var g generation
			if g, err = readGeneration(r.kind, c.Value); err == nil && !slices.Contains(r.generations, g) {
				r.generations = append(r.generations, g)
			}
		}
	}
	if r.truth.Held = held; err != nil {
		violations = append(violations, fmt.Sprintf("%s cannot be decoded: %v", c.Key, err))
	}
	return violations
}

// compare judges the record of a resource (I1, I2).
func (j *Judge) compare(r *resource) []string {
	t := r.truth
	if t.Claimed == nil {
		return nil // nothing is recorded
	}
	unseen, all := j.excused(r)
	if all {
		return nil
	}
	j.Looks++
	if !slices.Contains(t.Claimed, "Unknown") {
		j.Telling++
	}
	if t.Migrated {
		j.Migrated++
	}
	if len(t.Held) > 1 {
		j.Mixed++
	}
	if t.Stored != nil {
		t.Stored = slices.Clone(t.Stored)
		for key := range r.strays {
			t.Stored = append(t.Stored, r.objects[key].Version)
		}
	}
	return t.Violations(unseen...)
}

// excused returns the hashes that may have been written without the recorded look being able to know. A StorageState is
// complete up to the beginning of the look that it records (its heartbeat). So it may lack what was written by a
// process that is alive or ended later, and what was written because of a generation of the CustomResourceDefinition
// that is newer than the recorded one. Hashes that are recorded as seen are not excused: Truth.Violations ensures that.
func (j *Judge) excused(r *resource) (hashes []string, all bool) {
	hashes, all = j.world.Unseen(r.kind, r.truth.Heartbeat)
	seen := -1
	for i, g := range r.generations {
		if g.uid == r.truth.UID && g.number <= r.truth.Generation {
			seen = i
		}
	}
	for _, g := range r.generations[seen+1:] {
		hashes = append(hashes, g.hash)
	}
	return hashes, all
}

// Settled returns why a resource has not reached its final state yet: one recorded version, and nothing else in etcd.
// It returns "" if it has.
func (j *Judge) Settled(k testbed.Kind) string {
	for _, r := range j.resources {
		if r.kind != k {
			continue
		}
		t := r.truth
		switch {
		case !t.Migrated:
			return fmt.Sprintf("%s: Migrated is not True: persisted are %v, current is %q, etcd holds %v", k.Name(),
				t.Claimed, t.Current, t.Held)
		case len(t.Held) > 1:
			return fmt.Sprintf("%s: etcd holds %v", k.Name(), t.Held)
		case len(t.Stored) > 1:
			return fmt.Sprintf("%s: status.storedVersions names %v", k.Name(), t.Stored)
		}
	}
	return ""
}

// Objects returns how many objects etcd holds now.
func (j *Judge) Objects() (n int) {
	for _, r := range j.resources {
		n += len(r.objects)
	}
	return n
}

// readGeneration reads the part of a CustomResourceDefinition that concerns storage.
func readGeneration(k testbed.Kind, raw []byte) (g generation, err error) {
	var d struct {
		Metadata struct {
			UID        types.UID `json:"uid"`
			Generation int64     `json:"generation"`
		} `json:"metadata"`
		Spec struct {
			Versions []struct {
				Name    string `json:"name"`
				Storage bool   `json:"storage"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err = json.Unmarshal(raw, &d); err != nil {
		return g, err
	}
	for _, v := range d.Spec.Versions {
		if v.Storage {
			g = generation{uid: d.Metadata.UID, number: d.Metadata.Generation, hash: k.Hash(k.Group + "/" + v.Name)}
		}
	}
	return g, nil
}
