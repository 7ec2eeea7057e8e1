// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// The groups of a hostile aggregated API server: one lists objects with impossible names, one from the second list on,
// and one has a discovery document without an end.
const (
	namesGroup   = "names.example.com"
	laterGroup   = "later.example.com"
	endlessGroup = "endless.example.com"
)

// hostile is an aggregated API server behind a real kube-apiserver. To the kube-apiserver itself it is well behaved.
type hostile struct {
	server  *httptest.Server
	ca      []byte
	written atomic.Int64 // bytes of the endless document

	mu      sync.Mutex
	changes []string // requests that were no GETs
}

// impossible are names that lead to a Secret and to a node's proxy, where they are joined as they are.
var impossible = []string{
	"../../../../../../api/v1/namespaces/kube-system/secrets/x",
	"../../../../../../api/v1/nodes/http:n1:19080/proxy/run",
}

func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		h.mu.Lock()
		h.changes = append(h.changes, r.Method+" "+r.URL.Path)
		h.mu.Unlock()
	}
	w.Header().Set("Content-Type", "application/json")
	group := strings.Split(r.URL.Path+"///", "/")[2]
	switch strings.TrimPrefix(r.URL.Path, "/apis/"+group) {
	case "/v1":
		if group == endlessGroup && !strings.HasPrefix(r.Header.Get("X-Remote-User"), "system:") {
			h.writeEndless(w)
			return
		}
		fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"%s/v1","resources":[{"name":"flunders","singularName":"flunder",`+
			`"namespaced":true,"kind":"Flunder","verbs":["get","list","patch"],"storageVersionHash":%q}]}`, group,
			group)
	case "/v1/flunders":
		names := impossible
		if group == laterGroup && r.URL.Query().Get("limit") == "1" {
			names = []string{"a"}
		} else if group == laterGroup {
			names = append([]string{"a"}, impossible...)
		}
		fmt.Fprint(w, flunders(names...))
	case "/v1/namespaces/d/flunders/a":
		fmt.Fprint(w, flunder("a"))
	default:
		http.NotFound(w, r)
	}
}

// writeEndless writes a discovery document for as long as someone reads it.
func (h *hostile) writeEndless(w http.ResponseWriter) {
	text := `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"` + endlessGroup + `/v1","resources":[`
	for i := 0; ; i++ {
		n, err := fmt.Fprintf(w, `%s{"name":"r%d","namespaced":true,"kind":"R%d","verbs":["get","list","patch"]}`, text,
			i, i)
		h.written.Add(int64(n))
		if err != nil {
			return
		}
		text = ","
	}
}

func flunder(name string) string {
	raw, err := json.Marshal(map[string]any{
		"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
		"metadata": map[string]any{"namespace": "d", "name": name, "uid": "u", "resourceVersion": "7"},
	})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func flunders(names ...string) string {
	var items []string
	for _, n := range names {
		items = append(items, flunder(n))
	}
	return `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"9"},"items":[` + strings.Join(items, ",") + `]}`
}

// newHostile puts a hostile API server behind the cluster's kube-apiserver.
func newHostile(t *testing.T, cluster *testbed.Cluster) *hostile {
	t.Helper()
	certificate, ca, err := testbed.ServingCertificate("flunders.default.svc")
	if err != nil {
		t.Fatal(err)
	}
	h := &hostile{ca: ca}
	h.server = httptest.NewUnstartedServer(h)
	h.server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	h.server.StartTLS()
	t.Cleanup(h.server.Close)
	post(t, cluster, "/api/v1/namespaces/default/services", map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "flunders"},
		"spec": map[string]any{"type": "ExternalName", "externalName": "localhost"},
	})
	for _, group := range []string{namesGroup, laterGroup, endlessGroup} {
		post(t, cluster, "/apis/apiregistration.k8s.io/v1/apiservices", map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
			"metadata": map[string]any{"name": "v1." + group},
			"spec": map[string]any{
				"group": group, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10, "caBundle": h.ca,
				"service": map[string]any{"namespace": "default", "name": "flunders",
					"port": h.server.Listener.Addr().(*net.TCPAddr).Port},
			},
		})
	}
	for _, group := range []string{namesGroup, laterGroup, endlessGroup} {
		eventually(t, "the APIService of "+group+" is available", func() bool {
			_, answer, err := cluster.Servers[0].Do(t.Context(), http.MethodGet,
				"/apis/apiregistration.k8s.io/v1/apiservices/v1."+group, nil)
			return err == nil && strings.Contains(string(answer), `"type":"Available","status":"True"`)
		})
	}
	return h
}

func post(t *testing.T, cluster *testbed.Cluster, path string, object map[string]any) {
	t.Helper()
	body, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if status, answer, err := cluster.Servers[0].Do(t.Context(), http.MethodPost, path, body); err != nil ||
		status != http.StatusCreated {
		t.Fatalf("create at %s: %d %s %v", path, status, answer, err)
	}
}

func TestAHostileAPIServerLeadsNoRequestAwayAndCannotFillTheMemory(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{})
	h := newHostile(t, cluster)
	user, proxy := throughProxy(t, cluster)

	for _, group := range []string{namesGroup, laterGroup} {
		proxy.Forget()
		_, wait := user.start("migrate", "flunders."+group, "--settle-time=1s", "--min-evidence=sampled")
		out := wait()
		if out.code != 1 || strings.Contains(out.stdout, "every object") {
			t.Errorf("%s: exit code %d, want 1 (I4)\n%s\n%s", group, out.code, out.stdout, out.stderr)
		}
		text, wrong, next := out.stderr, "error: ", "Try: " // before the beginning
		if group == laterGroup {
			text, wrong, next = out.stdout, "  error       ", "  next        " // the end of the report
		}
		lines := strings.Split(strings.TrimSpace(text), "\n")
		last := lines[max(0, len(lines)-2):]
		_, address, _ := strings.Cut(proxy.URL(), "://")
		if len(last) < 2 || !strings.HasPrefix(last[0], wrong+"untrusted answer of the API server of flunders."+group+
			", asked at "+address+": ") ||
			!strings.HasPrefix(last[1], next+"kube-migrator migrate flunders."+group) ||
			strings.Contains(out.stderr, "request.go") {
			t.Errorf("%s: the error is not two lines that name resource and server:\n%s\n%s", group,
				out.stdout, out.stderr)
		}
		for _, r := range proxy.Records() {
			within := strings.HasPrefix(r.Path, "/apis/"+group+"/v1/namespaces/d/flunders/")
			if strings.Contains(r.Path, "secrets") || strings.Contains(r.Path, "proxy") ||
				strings.Contains(r.Path, "..") || r.Method == http.MethodPatch && !within {
				t.Errorf("%s: %s %s was sent (I3)", group, r.Method, r.Path)
			}
		}
	}
	h.mu.Lock()
	strange := slices.DeleteFunc(slices.Clone(h.changes),
		func(c string) bool { return strings.HasSuffix(c, "/v1/namespaces/d/flunders/a") })
	h.mu.Unlock()
	if len(strange) > 0 {
		t.Errorf("the hostile API server was sent %q", strange)
	}

	const mayBeRead, mayBeInUse = 64 << 20, 256 << 20 // the document of 2 MiB, and what lies in buffers on the way
	command, wait := user.start("plan")
	out := wait()
	if !strings.Contains(out.stdout+out.stderr, endlessGroup+"/v1") ||
		!strings.Contains(out.stdout+out.stderr, "whose answer cannot be used: answer too large") ||
		strings.Contains(out.stderr, "request.go") {
		t.Errorf("exit code %d, and nothing says which document is too large:\n%s\n%s", out.code,
			out.stdout, out.stderr)
	}
	if out.code == 0 {
		t.Errorf("plan says that it is complete:\n%s\n%s", out.stdout, out.stderr)
	}
	inUse := command.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	t.Logf("plan: %d bytes of the endless document were written, %d bytes were in use at most", h.written.Load(), inUse)
	if h.written.Load() == 0 || h.written.Load() > mayBeRead || inUse > mayBeInUse {
		t.Errorf("%d bytes written and %d in use, want at most %d and %d (I6)", h.written.Load(),
			inUse, mayBeRead, mayBeInUse)
	}
}
