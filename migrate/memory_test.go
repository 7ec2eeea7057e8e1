// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
)

// collection answers, within the process, as an API server does that has n ConfigMaps: fifty thousand of them take
// seconds. The resident set of the whole program against real servers is measured in kube-migrator/test/e2e; what one object leaves
// behind is lost in the noise there, and not here.
type collection struct{ n int }

func (c collection) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	answer.Header().Set("Content-Type", "application/json")
	name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch {
	case r.Method == http.MethodPost:
		fmt.Fprint(answer, `{"status":{"allowed":true}}`)
	case name == "configmaps":
		c.list(answer, r)
	case r.Method == http.MethodPatch:
		fmt.Fprint(answer, object1(name, "2000000"))
	default:
		fmt.Fprint(answer, object1(name, "2000000"))
	}
	return answer.Result(), nil
}

func (c collection) list(w http.ResponseWriter, r *http.Request) {
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	to := min(from+limit, c.n)
	items := make([]string, 0, to-from)
	for i := from; i < to; i++ {
		items = append(items, object1(fmt.Sprintf("object-%07d", i), strconv.Itoa(10+i)))
	}
	next := ""
	if to < c.n {
		next = strconv.Itoa(to)
	}
	fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1000000","continue":%q},"items":[%s]}`,
		next, strings.Join(items, ","))
}

// heapReadings read after a page, as the checkpoint is saved, what is live on the heap: the least that was, first among
// the pages of early objects, then of late ones. The page that is listed ahead comes and goes, and does not count.
type heapReadings struct {
	window                int64
	total                 int64
	earlyBytes, lateBytes uint64
	earlyPages, latePages int
}

func (h *heapReadings) Load(context.Context) ([]byte, error) { return nil, nil }

func (h *heapReadings) Save(_ context.Context, c Checkpoint) error {
	switch done := c.Summary.Counts.Done(); {
	case c.Summary.Listed:
	case done >= h.window && done < 2*h.window:
		h.earlyBytes, h.earlyPages = leastLive(h.earlyBytes, h.earlyPages)
	case done >= h.total-h.window:
		h.lateBytes, h.latePages = leastLive(h.lateBytes, h.latePages)
	}
	return nil
}

func leastLive(before uint64, pages int) (liveBytes uint64, pagesNow int) {
	runtime.GC()
	runtime.GC() // what pools keep survives one collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if pages == 0 || m.HeapAlloc < before {
		before = m.HeapAlloc
	}
	return before, pages + 1
}

func TestASweepKeepsNothingOfAnObjectThatIsDone(t *testing.T) {
	const objects, window, mayGrowBytes = 50_000, 5_000, 128 << 10 // three bytes per object: less than any name
	client, err := apiserver.NewClient(&rest.Config{Host: "http://in.process", Transport: collection{n: objects}})
	if err != nil {
		t.Fatal(err)
	}
	heap := &heapReadings{window: window, total: objects}
	target := Target{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap",
		Namespaced: true, Origin: BuiltIn}
	agreement := agreementFunc(func() (Epoch, error) { return lasting, nil })
	result, err := newSweep(client, target, agreement,
		Options{Checkpoints: heap, SettleTime: time.Millisecond}).Run(t.Context())
	if err != nil || result.Counts.Rewritten != objects {
		t.Fatalf("%d objects rewritten (%v), want %d", result.Counts.Rewritten, err, objects)
	}
	if heap.earlyPages < 10 || heap.latePages < 10 {
		t.Fatalf("heap read after %d and %d pages, want at least 10 each", heap.earlyPages, heap.latePages)
	}
	t.Logf("live heap: %d bytes after the first objects, %d after the last", heap.earlyBytes, heap.lateBytes)
	if heap.lateBytes > heap.earlyBytes+mayGrowBytes {
		t.Errorf("live heap grew from %d to %d bytes over %d objects, want at most %d more (I6)",
			heap.earlyBytes, heap.lateBytes, objects-2*window, mayGrowBytes)
	}
}
