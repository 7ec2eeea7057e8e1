// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
)

// scripted answers as an API server does that has n ConfigMaps; patch and get may answer instead.
type scripted struct {
	n               int
	resourceVersion string // of the list
	patch, get      func(name string, w http.ResponseWriter) bool
	list            func(w http.ResponseWriter) bool
	patches         atomic.Int64
	stored          sync.Map // resourceVersions that patches left, by name
}

func object1(name, resourceVersion string) string {
	return fmt.Sprintf(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":%q,"namespace":"d","uid":"u-%s","resourceVersion":%q}}`,
		name, name, resourceVersion)
}

func (f *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch {
	case r.Method == http.MethodPost:
		fmt.Fprint(w, `{"status":{"allowed":true}}`)
	case name == "configmaps" && (f.list == nil || !f.list(w)):
		var items []string
		resourceVersion := f.resourceVersion
		for i := range f.n {
			version := f.version(fmt.Sprintf("o%d", i))
			items = append(items, object1(fmt.Sprintf("o%d", i), version))
			if number(version) > number(resourceVersion) && resourceVersion != "" {
				resourceVersion = version
			}
		}
		fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":%q},"items":[%s]}`,
			resourceVersion, strings.Join(items, ","))
	case name == "configmaps":
	case r.Method == http.MethodPatch:
		f.patches.Add(1)
		if f.patch == nil || !f.patch(name, w) {
			written := strconv.FormatUint(number(f.resourceVersion)+1000, 10)
			f.stored.Store(name, written)
			fmt.Fprint(w, object1(name, written))
		}
	case f.get == nil || !f.get(name, w):
		fmt.Fprint(w, object1(name, f.version(name)))
	}
}

// version is the resourceVersion of an object.
func (f *scripted) version(name string) string {
	if v, ok := f.stored.Load(name); ok {
		return v.(string) //nolint:forcetypeassert // nothing else is stored
	}
	i, _ := strconv.Atoi(strings.TrimPrefix(name, "o"))
	return strconv.Itoa(10 + i)
}

func refuse(w http.ResponseWriter, code int, message string) bool {
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"code":%d}`, message, code)
	return true
}

// memoryCheckpoints stores the Data of a checkpoint.
type memoryCheckpoints struct{ raw []byte }

func (m *memoryCheckpoints) Load(context.Context) ([]byte, error) { return m.raw, nil }

func (m *memoryCheckpoints) Save(_ context.Context, c Checkpoint) error {
	m.raw = c.Data
	return nil
}

func (m *memoryCheckpoints) read() (*checkpoint, error) { return decodeCheckpoint(m.raw) }

func (m *memoryCheckpoints) write(c *checkpoint) error {
	encoded, err := c.encode()
	m.raw = encoded.Data
	return err
}

// agreementFunc is an Agreement.
type agreementFunc func() (Epoch, error)

func (f agreementFunc) Epoch(context.Context) (Epoch, error) { return f() }

var lasting = Epoch{Hash: "h", Servers: []string{"a"}, Since: time.Now().Add(-time.Hour), Evidence: Observed}

func sweepOf(t *testing.T, f *scripted, agreement agreementFunc, o Options) *Sweep {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	client, err := apiserver.NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if agreement == nil {
		agreement = func() (Epoch, error) { return lasting, nil }
	}
	o.SettleTime, o.lookInterval = max(o.SettleTime, time.Millisecond), 10*time.Millisecond
	target := Target{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap",
		Namespaced: true, Origin: BuiltIn}
	return newSweep(client, target, agreement, o)
}

// accounted returns how many objects a result accounts for without failure.
func accounted(r Result) int64 { return r.Counts.Done() - r.Counts.Failed }
