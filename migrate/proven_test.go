// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// TestWhatIsProvenIsNotRewritten: 20 objects with the resourceVersions 10 to 29, of which the first 10 are proven.
func TestWhatIsProvenIsNotRewritten(t *testing.T) {
	proven := Proven{Hash: lasting.Hash, ResourceVersion: 19, Servers: lasting.Servers}
	for name, test := range map[string]struct {
		change func(p *Proven, e *Epoch)
		origin Origin
		begin  func(c *checkpoint)
		want   int64
	}{
		"it holds":            {want: 10},
		"nothing is proven":   {want: 20, change: func(p *Proven, _ *Epoch) { *p = Proven{} }},
		"of another version":  {want: 20, change: func(p *Proven, _ *Epoch) { p.Hash = "other" }},
		"of other servers":    {want: 20, change: func(p *Proven, _ *Epoch) { p.Servers = []string{"a", "b"} }},
		"of unknown servers":  {want: 20, change: func(p *Proven, e *Epoch) { p.Servers, e.Servers = nil, nil }},
		"servers are sampled": {want: 20, change: func(_ *Proven, e *Epoch) { e.Evidence = Sampled }},
		"by aggregated":       {want: 20, origin: Aggregated},
		"the collection is older: etcd was restored": {want: 20,
			change: func(p *Proven, _ *Epoch) { p.ResourceVersion = 200 }},
		"an earlier process saw that etcd was restored": {want: 20,
			begin: func(c *checkpoint) { c.Restored = time.Now().Add(-time.Hour) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, epoch, stored := proven, lasting, new(memoryCheckpoints)
			if test.change != nil {
				test.change(&p, &epoch)
			}
			if test.begin != nil {
				c := &checkpoint{Version: checkpointVersion, Resource: "configmaps"}
				test.begin(c)
				if err := stored.write(c); err != nil {
					t.Fatal(err)
				}
			}
			f := &scripted{n: 20, resourceVersion: "100"}
			s := sweepOf(t, f, func() (Epoch, error) { return epoch, nil },
				Options{Proven: p, MinEvidence: Sampled, Resume: true, Checkpoints: stored})
			if test.origin != "" {
				s.wire.target.Origin = test.origin
			}
			result, err := s.Run(t.Context())
			if err != nil || result.Counts.Done() != 20 || !result.Proven {
				t.Fatalf("%+v, %v", result, err)
			}
			if f.patches.Load() != test.want || result.Counts.Rewritten != test.want {
				t.Errorf("%d patches, want %d: %+v", f.patches.Load(), test.want, result.Counts)
			}
		})
	}
}

// TestWhatIsProvenOutlastsAnEpoch: API servers are replaced during the pass. The witnesses show that etcd is the same, so
// the next pass relies on what the first one knew.
func TestWhatIsProvenOutlastsAnEpoch(t *testing.T) {
	for name, proven := range map[string]uint64{"some objects": 19, "all objects": 29} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var looks atomic.Int64
			f := &scripted{n: 20, resourceVersion: "100"}
			s := sweepOf(t, f, func() (Epoch, error) {
				now := lasting
				if looks.Add(1) > 1 {
					now.Servers = []string{"b"}
				}
				return now, nil
			}, Options{Proven: Proven{Hash: lasting.Hash, ResourceVersion: proven, Servers: lasting.Servers}})
			result, err := s.Run(t.Context())
			if err != nil || result.Restarts != 1 || result.Counts.Done() != 20 {
				t.Fatalf("%+v, %v", result, err)
			}
			for i := range 20 {
				name := fmt.Sprint("o", i)
				if _, written := f.stored.Load(name); written != (number(fmt.Sprint(10+i)) > proven) {
					t.Errorf("%s: rewritten: %t", name, written)
				}
			}
		})
	}
}
