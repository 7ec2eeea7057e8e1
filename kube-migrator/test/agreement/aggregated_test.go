// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install/discovery"
	"github.com/kube-migrator/kube-migrator/migrate"
)

var flunders = migrate.Target{
	Resource: schema.GroupVersionResource{Group: "wardle.example.com", Version: "v1", Resource: "flunders"},
	Kind:     "Flunder", Origin: migrate.Aggregated,
}

// extension is a process of an aggregated API server. Like a real one it shows its discovery to clients that a
// kube-apiserver authenticates, and to those with a token that it accepts.
type extension struct {
	server *httptest.Server
	ca     []byte

	mu      sync.Mutex
	hash    string
	tokens  []string // that came without a kube-apiserver
	review  func(token string) bool
	strange int // requests that came without anything
}

const harmless = "harmless"

func (e *extension) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.Header.Get("X-Remote-User") == "" {
		token := r.Header.Get("Authorization")
		if token == "" {
			e.strange++
		} else {
			e.tokens = append(e.tokens, token)
		}
		known := token == "Bearer "+harmless
		if e.review != nil {
			known = e.review(strings.TrimPrefix(token, "Bearer "))
		}
		if !known {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind": "Status", "code": 403, "reason": "Forbidden"}`)
			return
		}
	}
	if r.URL.Path != "/apis/wardle.example.com/v1" {
		http.NotFound(w, r)
		return
	}
	fmt.Fprintf(w, `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "wardle.example.com/v1", "resources": [
	 {"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder", "verbs": ["list", "patch"], "storageVersionHash": %q}]}`, e.hash)
}

// newExtension starts a process whose certificate is for a name.
func newExtension(t *testing.T, name string) *extension {
	t.Helper()
	certificate, ca, err := testbed.ServingCertificate(name)
	if err != nil {
		t.Fatal(err)
	}
	e := &extension{hash: hashOf(flunders, "v1"), ca: ca}
	e.server = httptest.NewUnstartedServer(e)
	e.server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	e.server.StartTLS()
	t.Cleanup(e.server.Close)
	return e
}

func (e *extension) address() string { return e.server.Listener.Addr().String() }

// write creates an object, or replaces it.
func write(t *testing.T, cluster *testbed.Cluster, path, name string, object map[string]any) {
	t.Helper()
	body, _ := json.Marshal(object)
	_, _, err := cluster.Servers[0].Do(t.Context(), http.MethodDelete, path+"/"+name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if status, answer, err := cluster.Servers[0].Do(t.Context(), http.MethodPost, path, body); err != nil ||
		status != http.StatusCreated {
		t.Fatalf("create %s: %d %s %v", name, status, answer, err)
	}
}

// writeSlice creates a slice with the pods behind the service, at 192.0.2.21 and so on.
func writeSlice(t *testing.T, cluster *testbed.Cluster, pods ...string) {
	t.Helper()
	write(t, cluster, slicesOfDefault, "flunders-1", sliceOf(pods))
}

// editSlice changes the slice, as the controller of EndpointSlices does.
func editSlice(t *testing.T, cluster *testbed.Cluster, pods ...string) {
	t.Helper()
	body, _ := json.Marshal(sliceOf(pods))
	if status, answer, err := cluster.Servers[0].Do(t.Context(), http.MethodPut, slicesOfDefault+"/flunders-1",
		body); err != nil || status != http.StatusOK {
		t.Fatalf("edit the slice: %d %s %v", status, answer, err)
	}
}

const slicesOfDefault = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"

func sliceOf(pods []string) map[string]any {
	var list []any
	for i, pod := range pods {
		list = append(list, map[string]any{"addresses": []string{fmt.Sprintf("192.0.2.%d", 21+i)},
			"targetRef": map[string]any{"kind": "Pod", "name": "p", "uid": pod}})
	}
	return map[string]any{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": list,
		"metadata": map[string]any{"name": "flunders-1",
			"labels": map[string]any{"kubernetes.io/service-name": "flunders"}},
		"ports": []any{map[string]any{"name": "https", "port": 443}},
	}
}

// writeAPIService sends the kube-apiserver's proxy to the first process.
func writeAPIService(t *testing.T, cluster *testbed.Cluster, proxied *extension, ca []byte) {
	t.Helper()
	port := proxied.server.Listener.Addr().(*net.TCPAddr).Port
	write(t, cluster, "/api/v1/namespaces/default/services", "flunders", map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "flunders"},
		"spec": map[string]any{"type": "ExternalName", "externalName": "localhost"},
	})
	spec := map[string]any{
		"group": "wardle.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
		"service": map[string]any{"namespace": "default", "name": "flunders", "port": port},
	}
	if spec["caBundle"] = ca; ca == nil {
		spec["insecureSkipTLSVerify"] = true
	}
	write(t, cluster, apiserver.APIServicesPath, "v1.wardle.example.com", map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": "v1.wardle.example.com"}, "spec": spec,
	})
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		status, answer, err := cluster.Servers[0].Do(t.Context(), http.MethodGet,
			"/apis/wardle.example.com/v1", nil)
		if err == nil && status == http.StatusOK && strings.Contains(string(answer), "flunders") {
			return
		}
	}
	t.Fatal("not within a minute: the APIService is available")
}

// reviewed is the user whom the cluster reports for a token.
func reviewed(t *testing.T, cluster *testbed.Cluster, token string) string {
	if token == "" {
		return ""
	}
	body, _ := json.Marshal(map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": map[string]any{"token": token},
	})
	_, answer, err := cluster.Servers[0].Do(t.Context(), http.MethodPost,
		"/apis/authentication.k8s.io/v1/tokenreviews", body)
	var review struct {
		Status struct {
			User struct {
				Username string `json:"username"`
			} `json:"user"`
		} `json:"status"`
	}
	if err == nil {
		err = json.Unmarshal(answer, &review)
	}
	if err != nil {
		t.Errorf("review: %v", err)
	}
	return review.Status.User.Username
}

func TestAnAggregatedAPIServer(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{Flags: advertised})
	first, second, impostor := newExtension(t, "flunders.default.svc"), newExtension(t, "flunders.default.svc"),
		newExtension(t, "fischers.default.svc")
	behind := map[string]*extension{"192.0.2.21:443": first, "192.0.2.22:443": second}
	config := func() *rest.Config {
		c := cluster.Config()
		routes := map[string]string{}
		for from, to := range behind {
			routes[from] = to.address()
		}
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if to, ok := routes[address]; ok {
				address = to
			}
			return cluster.DialContext(ctx, network, address)
		}
		return c
	}
	observer := func(token string) *agreement.Observer {
		options := agreement.Options{}
		if token != "" {
			options.DiscoveryToken = func(context.Context) (string, error) { return token, nil }
		}
		o, err := agreement.NewObserver(config(), options)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	both := slices.Concat(first.ca, second.ca, impostor.ca)
	writeSlice(t, cluster, "p", "q")
	writeAPIService(t, cluster, first, both)

	t.Run("that refuses anonymous requests is sampled, and never sees our credentials", func(t *testing.T) {
		o := observer("")
		e, explanation := look(t, o.For(flunders))
		if e.Evidence != migrate.Sampled || e.Hash != hashOf(flunders, "v1") ||
			!strings.Contains(explanation.Reason, "requires authentication") {
			t.Errorf("the epoch is %+v: %s", e, explanation)
		}
		record(t, o, "an-aggregated-server")
		v := verdictOf(t, roundOf(t, o), "wardle.example.com", "flunders")
		if v.Epoch == nil || !v.Epoch.Same(e) || v.Evidence != migrate.Sampled || v.Origin != migrate.Aggregated {
			t.Errorf("the verdict is %+v with epoch %+v, want %+v", v, v.Epoch, e)
		}
		if first.strange == 0 || len(first.tokens)+len(second.tokens) > 0 {
			t.Errorf("it was asked %d times without credentials, and with %v, %v", first.strange,
				first.tokens, second.tokens)
		}
	})
	o := observer(harmless)
	r := o.For(flunders)
	var epoch migrate.Epoch
	t.Run("that accepts the token for discovery is observed at each process", func(t *testing.T) {
		epoch, _ = look(t, r)
		if epoch.Evidence != migrate.Observed || len(epoch.Servers) != 3 || epoch.Servers[1] != "192.0.2.21:443/p" {
			t.Errorf("the epoch is %+v", epoch)
		}
		v := verdictOf(t, roundOf(t, o), "wardle.example.com", "flunders")
		if v.Epoch == nil || !v.Epoch.Same(epoch) || len(v.Servers) != 2 || !v.Servers[1].Answered ||
			v.Servers[1].Process != "192.0.2.22:443/q" || v.Servers[1].Hash != epoch.Hash {
			t.Errorf("the verdict is %+v with epoch %+v, want %+v", v, v.Epoch, epoch)
		}
		for _, token := range slices.Concat(first.tokens, second.tokens) {
			if token != "Bearer "+harmless {
				t.Errorf("it got %s", token)
			}
		}
	})
	t.Run("that asks the cluster who we are is observed with tokens of the account for discovery, which is good for "+
		"nothing else", func(t *testing.T) {
		client, err := apiserver.NewClient(cluster.Config())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range behind {
			e.review = func(token string) bool {
				return reviewed(t, cluster, token) == "system:serviceaccount:default:"+discovery.Account
			}
			defer func() { e.review = nil }()
		}
		asked := func() (*agreement.Observer, string) {
			token := discovery.Tokens(client, "default")
			o, err := agreement.NewObserver(config(), agreement.Options{DiscoveryToken: token})
			if err != nil {
				t.Fatal(err)
			}
			first, err := token(t.Context())
			again, _ := token(t.Context())
			if err != nil || again != first {
				t.Errorf("tokens %q and %q, %v", first, again, err)
			}
			return o, first
		}
		o, token := asked()
		if e, _ := look(t, o.For(flunders)); e.Evidence != migrate.Sampled || token != "" {
			t.Errorf("without the account: %+v with token %q", e, token)
		}
		write(t, cluster, "/api/v1/namespaces/default/serviceaccounts", discovery.Account, map[string]any{
			"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": discovery.Account},
		})
		o, token = asked()
		if e, explanation := look(t, o.For(flunders)); e.Evidence != migrate.Observed {
			t.Errorf("with the account: %s", explanation)
		}
		thief := rest.AnonymousClientConfig(cluster.Config())
		thief.BearerToken = token
		stolen, err := apiserver.NewClient(thief)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stolen.Get().AbsPath("/apis").Do(t.Context()).Raw(); err != nil {
			t.Errorf("the account may not discover: %v", err)
		}
		for _, path := range []string{"/api/v1/namespaces",
			"/api/v1/namespaces/default/serviceaccounts", "/api/v1/nodes"} {
			if _, err := stolen.Get().AbsPath(path).Do(t.Context()).Raw(); !apierrors.IsForbidden(err) {
				t.Errorf("the token grants %s: %v", path, err)
			}
		}
	})
	t.Run("whose processes differ disagrees although the proxy shows one", func(t *testing.T) {
		second.mu.Lock()
		second.hash = hashOf(flunders, "v1beta1")
		second.mu.Unlock()
		v := verdictOf(t, roundOf(t, o), "wardle.example.com", "flunders")
		if v.Epoch != nil || !v.Disagree || len(v.Hashes) != 2 || v.Servers[1].Version != "wardle.example.com/v1beta1" {
			t.Errorf("the verdict is %+v", v)
		}
		second.mu.Lock()
		second.hash = first.hash
		second.mu.Unlock()
	})
	t.Run("whose pod came and went leaves a trace", func(t *testing.T) {
		before := verdictOf(t, roundOf(t, o), "wardle.example.com", "flunders")
		again := verdictOf(t, roundOf(t, o), "wardle.example.com", "flunders")
		if len(before.Traces) != 2 || !slices.Equal(before.Traces, again.Traces) {
			t.Errorf("nothing happened: traces %v, then %v", before.Traces, again.Traces)
		}
		editSlice(t, cluster, "p", "q", "canary")
		editSlice(t, cluster, "p", "q")
		after := verdictOf(t, roundOf(t, o), "wardle.example.com", "flunders")
		if !slices.EqualFunc(before.Servers, after.Servers, func(a, b agreement.Server) bool { return a.Process == b.Process }) ||
			slices.Equal(before.Traces, after.Traces) {
			t.Errorf("traces are %v after %v, servers %v after %v", after.Traces, before.Traces,
				after.Servers, before.Servers)
		}
	})
	t.Run("of which a pod was replaced is in another epoch", func(t *testing.T) {
		writeSlice(t, cluster, "p", "q2")
		e, _ := look(t, r)
		if e.Same(epoch) || e.Evidence != migrate.Observed || e.Since.Before(epoch.Since) {
			t.Errorf("the epoch is %+v, it was %+v", e, epoch)
		}
	})
	t.Run("with another's certificate gets no request", func(t *testing.T) {
		behind["192.0.2.22:443"] = impostor
		defer func() { behind["192.0.2.22:443"] = second }()
		v := verdictOf(t, roundOf(t, observer(harmless)), "wardle.example.com", "flunders")
		if v.Evidence != migrate.Sampled || !strings.Contains(v.Why, "1 of 2 processes") || v.Servers[1].Answered {
			t.Errorf("the verdict is %+v", v)
		}
		if impostor.strange+len(impostor.tokens) > 0 {
			t.Errorf("the impostor got %d requests and %v", impostor.strange, impostor.tokens)
		}
	})
	t.Run("whose APIService skips verification is sampled", func(t *testing.T) {
		writeAPIService(t, cluster, first, nil)
		v := verdictOf(t, roundOf(t, o), "wardle.example.com", "flunders")
		if v.Evidence != migrate.Sampled || !strings.Contains(v.Why, "skips the verification") {
			t.Errorf("the verdict is %+v", v)
		}
	})
	t.Run("that does not answer leaves its group-version unread, and nothing else", func(t *testing.T) {
		first.server.Close()
		round := roundOf(t, observer(harmless))
		if len(round.Unread) != 1 || round.Unread[0].GroupVersion != flunders.Resource.GroupVersion() {
			t.Errorf("unread: %v", round.Unread)
		}
		if v := verdictOf(t, round, "", "pods"); v.Evidence != migrate.Observed {
			t.Errorf("pods are %+v", v)
		}
	})
}
