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
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// What the ConfigMap holds.
const (
	checkpointKey = "checkpoint" // gzip of the Data of a migrate.Checkpoint, in binaryData
	reportKey     = "report"     // JSON of Report, in data
)

// ReadReport returns the report in a worker's ConfigMap; nil where there is none yet.
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

// GiveUp writes the outcome Broken of a run into its worker's ConfigMap, unless an outcome is there. It is the one
// thing that somebody else writes: a worker that is alive after all finds at its next write, ten seconds later at most,
// that another has taken over, and ends; one that begins finds that the run has ended (I8). The checkpoint stays.
func GiveUp(cm *corev1.ConfigMap, generation, attempt int64, why string, now time.Time) error {
	report, err := ReadReport(cm)
	if err != nil || report == nil {
		report = &Report{Generation: generation, Attempt: attempt, Phase: migrate.Preparing, Started: now}
	}
	if report.Outcome != nil {
		return nil
	}
	report.Outcome = &Outcome{Verdict: Broken, Message: cut(why), Ended: now}
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

// place is the ConfigMap. It implements migrate.Checkpoints; safe for concurrent use.
//
// Each write carries the resourceVersion that this worker wrote or read last. A write that fails because of it was
// preceded by another: our own, whose answer was lost, or that of somebody else. Which one the content tells: mine
// holds the digests of everything that was sent since the last answer. A report holds the time to the nanosecond, so no
// two workers send the same.
type place struct {
	configMap
	life       context.Context // nothing is written once it has ended
	generation int64
	attempt    int64
	log        *slog.Logger

	mu      sync.Mutex
	object  *corev1.ConfigMap // as read or written last
	mine    map[digest]bool
	lost    error            // set once another worker has taken over
	current *migrate.Summary // of the checkpoint that was saved last in this process
	telling func() *Report   // the report that goes along with a checkpoint; nil: the one there is
	told    time.Time        // when a report was written last
}

type digest [sha256.Size]byte

func newPlace(life context.Context, client rest.Interface, o Options, log *slog.Logger) *place {
	return &place{
		configMap: configMap{client: client, namespace: o.Namespace, name: o.ConfigMap}, life: life,
		generation: o.Generation, attempt: o.Attempt, log: log, mine: map[digest]bool{},
	}
}

// open reads the ConfigMap.
func (p *place) open(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	object, err := p.get(ctx)
	if err != nil {
		return err
	}
	p.adopt(object)
	return nil
}

// adopt takes the object as what the next write rests on. The lock is held.
func (p *place) adopt(object *corev1.ConfigMap) {
	p.object = object
	p.mine = map[digest]bool{digestOf(object): true}
}

// claim writes a first report on top of whatever is there, unless that holds the outcome of this very run.
func (p *place) claim(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	object, err := p.get(ctx)
	if err != nil {
		return err
	}
	p.adopt(object)
	report := p.previous()
	if report.Outcome != nil {
		return nil
	}
	report.Phase, report.Waiting, report.ObjectsPerSecond = migrate.Preparing, "", 0
	return p.put(ctx, nil, &report)
}

// previous is the report of this run that is there already, or a new one. The lock is held.
func (p *place) previous() Report {
	report, err := ReadReport(p.object)
	if err != nil {
		p.log.Warn("Cannot read the report; starting a new one", "error", err)
	}
	if report == nil || report.Generation != p.generation || report.Attempt != p.attempt {
		report = &Report{Generation: p.generation, Attempt: p.attempt, Phase: migrate.Preparing, Started: time.Now()}
	}
	return *report
}

// last returns the report as it was written last.
func (p *place) last() Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.previous()
}

// outcome returns that of this run, nil where it has none.
func (p *place) outcome() *Outcome { return p.last().Outcome }

// saved returns the summary of the checkpoint that was saved last in this process, or nil if there is none.
func (p *place) saved() *migrate.Summary {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

// lastTold is when a report was written last.
func (p *place) lastTold() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told
}

// tellAlong makes f's report go along with every checkpoint.
func (p *place) tellAlong(f func() *Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.telling = f
}

// Load implements migrate.Checkpoints.
func (p *place) Load(context.Context) ([]byte, error) {
	c := p.load()
	if c == nil {
		return nil, nil
	}
	return c.Data, nil
}

// load returns the checkpoint in the ConfigMap, or nil if there is none. A checkpoint that cannot be read is ignored:
// starting over costs nothing but time.
func (p *place) load() *migrate.Checkpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	raw, ok := p.object.BinaryData[checkpointKey]
	if !ok {
		return nil
	}
	c, err := unpack(raw)
	if err != nil {
		p.log.Warn("Cannot read the checkpoint; starting over", "error", err)
		return nil
	}
	p.current = &c.Summary
	return &c
}

// errUnsaved: the checkpoint could not be written, which may pass.
var errUnsaved = errors.New("the ConfigMap cannot be written")

// firstWait and longestWait bound the waits between two tries of one checkpoint.
const (
	firstWait   = 200 * time.Millisecond
	longestWait = 2 * time.Second
)

// Save implements migrate.Checkpoints. It tries as long as the context allows: a checkpoint that is not saved ends the
// sweep.
func (p *place) Save(ctx context.Context, c migrate.Checkpoint) error {
	p.mu.Lock()
	telling := p.telling
	p.current = &c.Summary
	p.mu.Unlock()
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		var report *Report
		if telling != nil {
			report = telling()
		}
		err := p.write(ctx, &c, report)
		if err == nil || errors.Is(err, ErrOutdated) || errors.Is(err, errTooLarge) {
			return err
		}
		if p.life.Err() != nil || pace.Sleep(ctx, wait) != nil {
			return fmt.Errorf("%w: %w", errUnsaved, err)
		}
	}
}

// tell writes a report.
func (p *place) tell(ctx context.Context, report *Report) error { return p.write(ctx, nil, report) }

func (p *place) write(ctx context.Context, c *migrate.Checkpoint, report *Report) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.put(ctx, c, report)
}

// put writes a checkpoint and a report; nil leaves what is there. The lock is held.
func (p *place) put(ctx context.Context, c *migrate.Checkpoint, report *Report) error {
	switch {
	case p.life.Err() != nil:
		return context.Cause(p.life)
	case p.lost != nil:
		return p.lost
	}
	next := p.object.DeepCopy()
	if err := fill(next, c, report); err != nil {
		return err
	}
	sum := digestOf(next)
	p.mine[sum] = true
	err := p.send(ctx, next)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		err = p.resolve(ctx, next, err)
	}
	if err != nil {
		return err
	}
	p.object, p.mine = next, map[digest]bool{sum: true}
	if report != nil {
		p.told = time.Now()
	}
	return nil
}

// send writes the object and takes over its new resourceVersion. Nothing is sent once the worker's life has ended.
func (p *place) send(ctx context.Context, next *corev1.ConfigMap) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.life, cancel)()
	return p.configMap.send(ctx, next)
}

// resolve finds out what came between: our own write, a change of metadata alone, or another worker.
func (p *place) resolve(ctx context.Context, next *corev1.ConfigMap, refusal error) error {
	found, err := p.get(ctx)
	switch {
	case isGone(err, next.Name):
		p.lost = fmt.Errorf("%w: the ConfigMap %s is gone", ErrOutdated, next.Name)
		return p.lost
	case err != nil:
		return err
	case found.UID != p.object.UID || !p.mine[digestOf(found)]:
		p.lost = fmt.Errorf("%w: another worker has taken it over", ErrOutdated)
		return p.lost
	case !apierrors.IsConflict(refusal):
		return refusal
	}
	next.ObjectMeta = found.ObjectMeta
	if digestOf(found) == digestOf(next) {
		return nil
	}
	return p.send(ctx, next) // a conflict now is resolved by whoever tries again
}

// fill puts a checkpoint and a report into the object; nil leaves what is there.
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
		packed, err := pack(*c, maxBytes-len(data[reportKey]))
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
