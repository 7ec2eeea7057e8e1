// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// The contents of the ConfigMap.
const (
	checkpointKey = "checkpoint" // the Pack of a migrate.Checkpoint, in binaryData
	reportKey     = "report"     // JSON of Report, in data
	provenKey     = "proven"     // JSON of a migrate.Proven, in data
	// maxBytes bounds both together: the API server accepts 1 MiB.
	maxBytes = 900 << 10
)

// ReadReport returns the report in a worker's ConfigMap, or nil if there is none yet.
func ReadReport(cm *corev1.ConfigMap) (*Report, error) {
	raw, ok := cm.Data[reportKey]
	if !ok {
		return nil, nil //nolint:nilnil // there is none
	}
	report := new(Report)
	if err := json.Unmarshal([]byte(raw), report); err != nil {
		return nil, fmt.Errorf("decode report in ConfigMap %s: %w", cm.Name, err)
	}
	return report, nil
}

// GiveUp writes the outcome with ResultBroken into the ConfigMap of a run, unless it has an outcome. The controller
// calls it for a worker that does not report; the worker makes every other write. If the worker lives after all, its
// next write, at most ten seconds later, fails and it ends; a worker that starts finds that the run has ended (I8). The
// checkpoint stays.
func GiveUp(cm *corev1.ConfigMap, generation, attempt int64, why string, now time.Time) error {
	report, err := ReadReport(cm)
	if err != nil || report == nil {
		report = &Report{Generation: generation, Attempt: attempt, Phase: migrate.Preparing, Started: now}
	}
	if report.Outcome != nil {
		return nil
	}
	report.Outcome = &Outcome{Result: ResultBroken, Message: cut(why), Ended: now}
	return fill(cm, nil, report)
}

// Seed returns the binaryData for the ConfigMap of a new attempt: the checkpoint of an earlier one, without its report.
func Seed(from *corev1.ConfigMap) map[string][]byte {
	checkpoint, ok := from.BinaryData[checkpointKey]
	if !ok {
		return nil
	}
	return map[string][]byte{checkpointKey: checkpoint}
}

// Proven returns what a StorageState records as proven, for runs that need not rewrite it again. The zero value is
// returned if nothing is, or if the API servers did not agree when they were last asked.
func Proven(s *v1alpha1.StorageStateStatus) migrate.Proven {
	if s.Proven == nil || s.Epoch == nil {
		return migrate.Proven{}
	}
	upTo, err := strconv.ParseUint(s.Proven.ResourceVersion, 10, 64)
	if err != nil {
		return migrate.Proven{}
	}
	return migrate.Proven{Hash: s.Proven.StorageVersionHash, ResourceVersion: upTo, Servers: s.Epoch.Servers}
}

// AddProven puts what is proven about the resource into the ConfigMap of a new run.
func AddProven(cm *corev1.ConfigMap, p migrate.Proven) error {
	if p.ResourceVersion == 0 {
		return nil
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode what is proven: %w", err)
	}
	cm.Data = map[string]string{provenKey: string(raw)}
	return nil
}

// runRecord is the ConfigMap of a run: its checkpoint and its report. It implements migrate.Checkpoints and is safe for
// concurrent use.
//
// Each write carries the resourceVersion that this worker last wrote or read. If the write fails because of it, there
// was another write in between: our own, whose answer was lost, or that of someone else. The content shows which one,
// because sent contains the digests of everything that was sent since the last answer. A report contains the time to
// the nanosecond, so no two workers send the same content.
type runRecord struct {
	configMap
	runCtx     context.Context // nothing is written after it has ended
	generation int64
	attempt    int64
	log        *slog.Logger

	mu       sync.Mutex
	object   *corev1.ConfigMap // as last read or written
	sent     map[digest]bool
	lost     error               // set once another worker has taken over
	current  *migrate.Summary    // of the checkpoint that was saved last in this process
	attached func() *Report      // the report that goes along with a checkpoint; nil: the one there is
	complete *migrate.Checkpoint // that goes along with the next report; nil: none
	reported time.Time           // when a report was written last
}

type digest [sha256.Size]byte

func newRunRecord(ctx context.Context, o Options, log *slog.Logger) *runRecord {
	return &runRecord{
		configMap: configMap{client: o.Process.client, namespace: o.Process.namespace, name: o.ConfigMap}, runCtx: ctx,
		generation: o.Generation, attempt: o.Attempt, log: log, sent: map[digest]bool{},
	}
}

// open reads the ConfigMap.
func (r *runRecord) open(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	object, err := r.get(ctx)
	if err != nil {
		return err
	}
	r.adopt(object)
	return nil
}

// adopt makes the object the basis of the next write. The lock is held.
func (r *runRecord) adopt(object *corev1.ConfigMap) {
	r.object = object
	r.sent = map[digest]bool{digestOf(object): true}
}

// claim writes a first report over the existing one, unless that contains the outcome of this very run.
func (r *runRecord) claim(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	object, err := r.get(ctx)
	if err != nil {
		return err
	}
	r.adopt(object)
	report := r.previous()
	if report.Outcome != nil {
		return nil
	}
	report.Phase, report.Waiting, report.ObjectsPerSecond = migrate.Preparing, "", 0
	return r.put(ctx, nil, &report)
}

// previous returns the existing report of this run, or a new one. The lock is held.
func (r *runRecord) previous() Report {
	report, err := ReadReport(r.object)
	if err != nil {
		r.log.Warn("Cannot read the report; starting a new one", "error", err)
	}
	if report == nil || report.Generation != r.generation || report.Attempt != r.attempt {
		report = &Report{Generation: r.generation, Attempt: r.attempt, Phase: migrate.Preparing, Started: time.Now()}
	}
	return *report
}

// last returns the report as it was last written.
func (r *runRecord) last() Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.previous()
}

// outcome returns that of this run, or nil if it has none.
func (r *runRecord) outcome() *Outcome { return r.last().Outcome }

// saved returns the summary of the checkpoint that was saved last in this process, or nil if there is none.
func (r *runRecord) saved() *migrate.Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// lastReported returns when a report was last written.
func (r *runRecord) lastReported() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reported
}

// attach makes every checkpoint include the report that f returns.
func (r *runRecord) attach(f func() *Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attached = f
}

// Load implements migrate.Checkpoints.
func (r *runRecord) Load(context.Context) ([]byte, error) {
	c := r.load()
	if c == nil {
		return nil, nil
	}
	return c.Data, nil
}

// load returns the checkpoint in the ConfigMap, or nil if there is none. A checkpoint that cannot be read is ignored:
// starting over costs nothing but time.
func (r *runRecord) load() *migrate.Checkpoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	raw, ok := r.object.BinaryData[checkpointKey]
	if !ok {
		return nil
	}
	c, err := migrate.ReadCheckpoint(raw)
	if err != nil {
		r.log.Warn("Cannot read the checkpoint; starting over", "error", err)
		return nil
	}
	r.current = &c.Summary
	return &c
}

// proven returns what the controller has told the run to be proven. If it cannot be read, nothing is, which costs nothing
// but time.
func (r *runRecord) proven() (p migrate.Proven) {
	r.mu.Lock()
	defer r.mu.Unlock()
	raw, ok := r.object.Data[provenKey]
	if !ok {
		return migrate.Proven{}
	}
	if err := json.Unmarshal([]byte(raw), &p); err != nil {
		r.log.Warn("Cannot read what is proven; rewriting every object", "error", err)
		return migrate.Proven{}
	}
	return p
}

// errUnsaved reports that the checkpoint could not be written, which may be transient.
var errUnsaved = errors.New("the ConfigMap cannot be written")

// firstWait and longestWait bound the waits between two attempts to save one checkpoint.
const (
	firstWait   = 200 * time.Millisecond
	longestWait = 2 * time.Second
)

// Save implements migrate.Checkpoints. It retries as long as the context allows, because a checkpoint that is not saved
// ends the sweep. A complete one is written with the outcome, which follows at once: if the worker dies before, the next
// one confirms the pass again.
func (r *runRecord) Save(ctx context.Context, c migrate.Checkpoint) error {
	r.mu.Lock()
	attached := r.attached
	r.current, r.complete = &c.Summary, nil
	if c.Summary.Complete {
		r.complete = &c
	}
	r.mu.Unlock()
	if c.Summary.Complete {
		return nil
	}
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		var report *Report
		if attached != nil {
			report = attached()
		}
		err := r.write(ctx, &c, report)
		if err == nil || errors.Is(err, ErrOutdated) || errors.Is(err, migrate.ErrCheckpointTooLarge) {
			return err
		}
		if r.runCtx.Err() != nil || pace.Sleep(ctx, wait) != nil {
			return fmt.Errorf("%w: %w", errUnsaved, err)
		}
	}
}

// writeReport writes a report.
func (r *runRecord) writeReport(ctx context.Context, report *Report) error {
	return r.write(ctx, nil, report)
}

func (r *runRecord) write(ctx context.Context, c *migrate.Checkpoint, report *Report) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.put(ctx, c, report)
}

// put writes a checkpoint and a report; nil leaves the existing one. The lock is held.
func (r *runRecord) put(ctx context.Context, c *migrate.Checkpoint, report *Report) error {
	switch {
	case r.runCtx.Err() != nil:
		return context.Cause(r.runCtx)
	case r.lost != nil:
		return r.lost
	}
	if c == nil {
		c = r.complete
	}
	next := r.object.DeepCopy()
	if err := fill(next, c, report); err != nil {
		return err
	}
	sum := digestOf(next)
	r.sent[sum] = true
	err := r.send(ctx, next)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		err = r.resolve(ctx, next, err)
	}
	if err != nil {
		return err
	}
	r.object, r.sent, r.complete = next, map[digest]bool{sum: true}, nil
	if report != nil {
		r.reported = time.Now()
	}
	return nil
}

// send writes the object and stores its new resourceVersion. It sends nothing after the run's context has ended.
func (r *runRecord) send(ctx context.Context, next *corev1.ConfigMap) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.runCtx, cancel)()
	return r.configMap.send(ctx, next)
}

// resolve finds out what was written in between: our own write, a change of only metadata, or the write of another
// worker.
func (r *runRecord) resolve(ctx context.Context, next *corev1.ConfigMap, refusal error) error {
	found, err := r.get(ctx)
	switch {
	case isGone(err, next.Name):
		r.lost = fmt.Errorf("%w: the ConfigMap %s is gone", ErrOutdated, next.Name)
		return r.lost
	case err != nil:
		return err
	case found.UID != r.object.UID || !r.sent[digestOf(found)]:
		r.lost = fmt.Errorf("%w: another worker has taken it over", ErrOutdated)
		return r.lost
	case !apierrors.IsConflict(refusal):
		return refusal
	}
	next.ObjectMeta = found.ObjectMeta
	if digestOf(found) == digestOf(next) {
		return nil
	}
	return r.send(ctx, next) // after another conflict the caller tries again
}

// fill puts a checkpoint and a report into the object; nil leaves the existing one.
func fill(object *corev1.ConfigMap, c *migrate.Checkpoint, report *Report) error {
	data, binary := maps.Clone(object.Data), maps.Clone(object.BinaryData)
	if data == nil {
		data = map[string]string{}
	}
	if binary == nil {
		binary = map[string][]byte{}
	}
	if report != nil {
		raw, err := json.Marshal(report)
		if err != nil {
			return fmt.Errorf("encode report: %w", err)
		}
		data[reportKey] = string(raw)
	}
	if c != nil {
		packed, err := c.Pack(maxBytes - len(data[reportKey]))
		if err != nil {
			return err
		}
		binary[checkpointKey] = packed
	}
	object.Data, object.BinaryData = data, binary
	return nil
}

func digestOf(object *corev1.ConfigMap) digest {
	h := sha256.New()
	fmt.Fprintf(h, "%d ", len(object.Data[reportKey]))
	h.Write([]byte(object.Data[reportKey]))
	h.Write(object.BinaryData[checkpointKey])
	return digest(h.Sum(nil))
}
