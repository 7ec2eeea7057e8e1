// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What an API server answers for a page is a list of metadata, or an error, and costs memory in proportion to its bytes
// (I6).
func FuzzPage(f *testing.F) {
	f.Add([]byte(`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7","continue":"t"},"items":[{"metadata":{"name":"a","namespace":"b","resourceVersion":"3"}}]}`))
	list, err := (&metav1.PartialObjectMetadataList{
		Items: []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "3"}}},
	}).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	unknown := append([]byte("k8s\x00\n\x1e\n\x0emeta.k8s.io/v1\x12\x0cPartialObjectMetadataList\x12"), byte(len(list)))
	f.Add(append(unknown, list...))
	f.Add([]byte(`{"items":[` + strings.TrimSuffix(strings.Repeat("{},", 300_000), ",") + `]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if countItems(raw) == nil {
			if page, err := decode[*metav1.PartialObjectMetadataList](raw); err == nil &&
				len(page.Items) > maxPageItems {
				t.Errorf("a page has %d items", len(page.Items))
			}
		}
		runtime.ReadMemStats(&after)
		if spent := after.TotalAlloc - before.TotalAlloc; spent > 64<<20+100*uint64(len(raw)) {
			t.Errorf("%d bytes led to %d MiB", len(raw), spent>>20)
		}
	})
}

// A checkpoint that someone wrote by hand makes no step of a sweep panic, and nothing of it is believed beyond what it
// says.
func FuzzCheckpoint(f *testing.F) {
	for _, c := range []checkpoint{
		{},
		{
			Version: checkpointVersion, Resource: "widgets.demo.example.com", Begun: true, Baseline: 7, Confirmed: 9,
			Done: "a/b", DoneAt: 8,
			Epoch:     Epoch{Hash: "h", Servers: []string{"p1"}, Evidence: Observed},
			Ranges:    []goodRange{{Hash: "h", From: 1, To: 3}},
			Prefix:    goodPrefix{Hash: "h", Key: "a", ResourceVersion: 3, Reached: 3},
			Witnesses: []witness{{ResourceVersion: 3}}, Failures: []Failure{{Name: "a"}},
		},
	} {
		raw, err := json.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, "a/b", "5")
	}
	f.Fuzz(func(t *testing.T, raw []byte, name, resourceVersion string) {
		c, err := decodeCheckpoint(raw)
		if err != nil {
			return
		}
		now := time.Unix(1_700_000_000, 0)
		o := object{name: name, resourceVersion: resourceVersion}
		if c.current(o) && (number(resourceVersion) == 0 || c.Baseline == 0 || c.Epoch.Evidence < Observed) {
			t.Errorf("%+v is current by %+v", o, c)
		}
		c.inEpoch(Epoch{Hash: "h"}, now)
		c.resumable()
		c.done(c.Done, []object{o}, number(resourceVersion))
		c.confirm(position{newest: number(resourceVersion), done: c.Done})
		c.begin(Epoch{Hash: "h2", Evidence: Observed})
		if c.Done != "" || c.Continue != "" || c.Baseline != 0 || c.Complete {
			t.Errorf("a new pass begins with %+v", c)
		}
	})
}

func zipped(f *testing.F, text string) []byte {
	f.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		f.Fatal(err)
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	return b.Bytes()
}

// What a store holds as a packed checkpoint is one, or none, and takes no more memory than a worker has (I6).
func FuzzPackedCheckpoint(f *testing.F) {
	f.Add(zipped(f, `{"version":2,"resource":"widgets.demo.example.com","failures":[{"name":"a"}]}`))
	f.Add(zipped(f, `{"version":2}`))
	f.Add(zipped(f, strings.Repeat(" ", 10<<20)))
	for _, list := range []string{"failures", "ranges", "witnesses"} {
		f.Add(zipped(f, `{"`+list+`":[`+strings.TrimSuffix(strings.Repeat("{},", 2_000_000), ",")+`]}`))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c, err := ReadCheckpoint(raw)
		runtime.ReadMemStats(&after)
		if spent := after.TotalAlloc - before.TotalAlloc; spent > 8*maxUnpacked {
			t.Errorf("%d bytes led to %d MiB", len(raw), spent>>20)
		}
		if err != nil {
			return
		}
		if len(c.Data) == 0 {
			t.Fatal("neither a checkpoint nor an error")
		}
		if _, err := c.Pack(maxPacked); err != nil {
			return // it does not fit, which is said
		}
	})
}
