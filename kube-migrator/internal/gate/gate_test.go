// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
)

// usable is a kubeconfig as Cluster API writes it.
const usable = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://workload.example.com:6443", certificate-authority-data: QQ==}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

// management is an API server with one Secret, default/production-kubeconfig.
type management struct {
	kubeconfig string
	code       int // 200, or that of its failures

	mu    sync.Mutex
	paths []string
}

func (m *management) RoundTrip(r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	m.paths = append(m.paths, r.Method+" "+r.URL.EscapedPath())
	m.mu.Unlock()
	recorder := httptest.NewRecorder()
	recorder.Header().Set("Content-Type", "application/json")
	code := m.code
	if code == http.StatusOK && r.URL.Path != "/api/v1/namespaces/default/secrets/production-kubeconfig" {
		code = http.StatusNotFound
	}
	recorder.WriteHeader(code)
	if code != http.StatusOK {
		fmt.Fprintf(recorder, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,
			"message":"of the server"}`, code, strings.ReplaceAll(http.StatusText(code), " ", ""))
		return recorder.Result(), nil
	}
	fmt.Fprintf(recorder, `{"kind":"Secret","apiVersion":"v1","data":{"value":%q}}`,
		base64.StdEncoding.EncodeToString([]byte(m.kubeconfig)))
	return recorder.Result(), nil
}

// handle returns the handler of a gate that retries after a minute.
func handle(t *testing.T, m *management, judge Judge) http.Handler {
	t.Helper()
	client, err := apiserver.NewClient(&rest.Config{Host: "http://management.example.com", Transport: m})
	if err != nil {
		t.Fatal(err)
	}
	return newHandler(Options{Management: client, Judge: judge, RetryAfter: time.Minute,
		Logger: slog.New(slog.DiscardHandler)})
}

func post(t *testing.T, h http.Handler, path string, body io.Reader) (code int, text string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path+"?timeout=30s", body))
	return recorder.Code, recorder.Body.String()
}

// request is a request of Cluster API, with more fields than the gate reads.
func request(namespace, name, release string) io.Reader {
	body, _ := json.Marshal(map[string]any{
		"apiVersion": apiVersion, "kind": "BeforeClusterUpgradeRequest", "settings": map[string]string{"a": "b"},
		"cluster": map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
			"metadata": map[string]any{"namespace": namespace, "name": name}, "spec": map[string]any{"topology": nil}},
		"fromKubernetesVersion": "v1.36.2", "toKubernetesVersion": release,
		"controlPlaneUpgrades": []any{map[string]string{"version": release}},
	})
	return strings.NewReader(string(body))
}

// response is the answer of the hook with these fields.
func response(status, message string, seconds int) string {
	if message != "" {
		quoted, _ := json.Marshal(message)
		message = `,"message":` + string(quoted)
	}
	return fmt.Sprintf(`{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"BeforeClusterUpgradeResponse",`+
		`"status":%q%s,"retryAfterSeconds":%d}`+"\n", status, message, seconds)
}

func safe(context.Context, *rest.Config, string) (Opinion, error) { return Opinion{Safe: true}, nil }

func TestDiscoveryNamesTheHook(t *testing.T) {
	t.Parallel()
	code, got := post(t, handle(t, &management{}, safe), "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery",
		strings.NewReader(`{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"DiscoveryRequest"}`))
	const want = `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"DiscoveryResponse","status":"Success",` +
		`"handlers":[{"name":"kube-migrator","requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1",` +
		`"hook":"BeforeClusterUpgrade"},"timeoutSeconds":30,"failurePolicy":"Fail"}]}` + "\n"
	if diff := cmp.Diff(want, got); code != http.StatusOK || diff != "" {
		t.Errorf("%d, -want +got:\n%s", code, diff)
	}
}

func TestAnUpgradeStartsOnlyIfItIsSafe(t *testing.T) {
	t.Parallel()
	const undetermined = "kube-migrator cannot determine whether the upgrade is safe: "
	for name, c := range map[string]struct {
		judge Judge
		code  int
		want  string
	}{
		"safe": {judge: safe, want: response("Success", "", 0)},
		"unsafe": {judge: func(context.Context, *rest.Config, string) (Opinion, error) {
			return Opinion{Message: "widgets: \x1b[2J stored as v1"}, nil
		}, want: response("Success", `widgets: \u001b[2J stored as v1`, 60)},
		"safe, with an error": {judge: func(context.Context, *rest.Config, string) (Opinion, error) {
			return Opinion{Safe: true}, errors.New("a text of the cluster, different each time")
		}, want: response("Success", undetermined+"the cluster could not be asked", 60)},
		"a panic": {judge: func(context.Context, *rest.Config, string) (Opinion, error) { panic("a defect") },
			want: response("Success", undetermined+"the judgement failed", 60)},
		"a Secret that does not exist": {judge: safe, code: http.StatusNotFound,
			want: response("Success", undetermined+"the Secret with the kubeconfig of the Cluster does not exist", 60)},
		"a Secret that the gate may not read": {judge: safe, code: http.StatusForbidden, want: response("Success",
			undetermined+"the gate may not read the Secret with the kubeconfig of the Cluster", 60)},
		"a management cluster with a fault": {judge: safe, code: http.StatusInternalServerError, want: response("Success",
			undetermined+"the Secret with the kubeconfig of the Cluster could not be read", 60)},
		"very many resources": {judge: func(context.Context, *rest.Config, string) (Opinion, error) {
			return Opinion{Message: strings.Repeat("ä", maxMessage)}, nil
		}, want: response("Success", strings.Repeat("ä", maxMessage/2)+"…", 60)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &management{kubeconfig: usable, code: max(c.code, http.StatusOK)}
			code, got := post(t, handle(t, m, c.judge), HookPath, request("default", "production", "v1.37.0"))
			if diff := cmp.Diff(c.want, got); code != http.StatusOK || diff != "" {
				t.Errorf("%d, -want +got:\n%s", code, diff)
			}
		})
	}
}

func TestTheClusterOfTheSecretIsJudged(t *testing.T) {
	t.Parallel()
	m := &management{kubeconfig: usable, code: http.StatusOK}
	var got string
	post(t, handle(t, m, func(_ context.Context, c *rest.Config, release string) (Opinion, error) {
		got = c.Host + " " + c.BearerToken + " " + release
		return Opinion{}, nil
	}), HookPath, request("default", "production", "v1.37.0"))
	if want := "https://workload.example.com:6443 secret v1.37.0"; got != want {
		t.Errorf("judged %q, want %q", got, want)
	}
	want := []string{"GET /api/v1/namespaces/default/secrets/production-kubeconfig"}
	if diff := cmp.Diff(want, m.paths); diff != "" {
		t.Errorf("requests: -want +got:\n%s", diff)
	}
}

func TestAKubeconfigCannotLeaveItsSecret(t *testing.T) {
	t.Parallel()
	replaced := func(old, replacement string) string { return strings.Replace(usable, old, replacement, 1) }
	for name, kubeconfig := range map[string]string{
		"a plugin": replaced("token: secret",
			"exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: [pwned], interactiveMode: Never}"),
		"an old kind of plugin":         replaced("token: secret", "auth-provider: {name: gcp}"),
		"a file with a token":           replaced("token: secret", "tokenFile: /var/run/secrets/token"),
		"a token, and a file with one":  replaced("token: secret", "token: secret, tokenFile: /var/run/secrets/token"),
		"a file with a certificate":     replaced("token: secret", "client-certificate: a, client-key-data: QQ=="),
		"a file with a key":             replaced("token: secret", "client-certificate-data: QQ==, client-key: a"),
		"a file with authorities":       replaced("certificate-authority-data: QQ==", "certificate-authority: a"),
		"an address without TLS":        replaced("https://", "http://"),
		"no address":                    replaced("https://workload.example.com:6443", ""),
		"no current context":            replaced("current-context: x", ""),
		"a context that does not exist": replaced("current-context: x", "current-context: y"),
		"a context without a user":      replaced("user: u}", "user: v}"),
		"another document":              "apiVersion: v1\nkind: Pod\n",
		"no document":                   "\x00{{{",
		"nothing":                       "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			judged := false
			_, got := post(t, handle(t, &management{kubeconfig: kubeconfig, code: http.StatusOK},
				func(context.Context, *rest.Config, string) (Opinion, error) {
					judged = true
					return Opinion{Safe: true}, nil
				}), HookPath, request("default", "production", "v1.37.0"))
			want := response("Success", "kube-migrator cannot determine whether the upgrade is safe: "+
				"the kubeconfig of the Cluster cannot be used", 60)
			if diff := cmp.Diff(want, got); diff != "" || judged {
				t.Errorf("judged: %t, -want +got:\n%s", judged, diff)
			}
		})
	}
}

func TestAHostileRequestOpensNothing(t *testing.T) {
	t.Parallel()
	valid, _ := io.ReadAll(request("default", "production", "v1.37.0"))
	for name, body := range map[string]io.Reader{
		"nothing":               strings.NewReader(""),
		"not JSON":              strings.NewReader("<html>"),
		"two documents":         strings.NewReader(string(valid) + string(valid)),
		"deeply nested":         strings.NewReader(`{"cluster":` + strings.Repeat(`{"a":`, 20_000)),
		"without an end":        io.MultiReader(strings.NewReader(`{"a":"`), endless{}),
		"another kind":          strings.NewReader(strings.Replace(string(valid), "BeforeClusterUpgradeR", "BeforeClusterCreateR", 1)),
		"another version":       strings.NewReader(strings.Replace(string(valid), "v1alpha1", "v1alpha2", 1)),
		"no namespace":          request("", "production", "v1.37.0"),
		"no name":               request("default", "", "v1.37.0"),
		"no release":            request("default", "production", ""),
		"a number for a name":   strings.NewReader(strings.Replace(string(valid), `"production"`, "7", 1)),
		"a name that is a path": request("default", "../../../../api/v1/namespaces/kube-system/secrets/x", "v1.37.0"),
		"a namespace that is a path": request("../kube-system/secrets/x?", "production",
			"v1.37.0"),
		"a namespace that is escaped": request("..%2fkube-system", "production", "v1.37.0"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &management{kubeconfig: usable, code: http.StatusOK}
			code, got := post(t, handle(t, m, safe), HookPath, body)
			var a answer
			if err := json.Unmarshal([]byte(got), &a); err != nil || code != http.StatusOK {
				t.Fatalf("%d %s: %v", code, got, err)
			}
			if len(m.paths) != 0 || a.Status == success && a.RetryAfterSeconds == 0 || a.Message == "" {
				t.Errorf("requests %q, answer %s", m.paths, got)
			}
		})
	}
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

func TestOtherPathsAndMethodsAreNotServed(t *testing.T) {
	t.Parallel()
	h := handle(t, &management{}, safe)
	for line, want := range map[string]int{
		"POST /": http.StatusNotFound, "POST " + HookPath + "/x": http.StatusNotFound,
		"POST /" + apiVersion + "/beforeclustercreate/kube-migrator": http.StatusNotFound,
		"GET " + HookPath: http.StatusMethodNotAllowed, "GET " + DiscoveryPath: http.StatusMethodNotAllowed,
	} {
		method, path, _ := strings.Cut(line, " ")
		recorder := httptest.NewRecorder()
		h.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		if recorder.Code != want {
			t.Errorf("%s: %d, want %d", line, recorder.Code, want)
		}
	}
}

// Judgements that do not end occupy their places until their time has passed; requests that wait for a place meanwhile
// are answered too.
func TestAtMostFourClustersAreJudgedAtTheSameTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var judging, most atomic.Int64
		h := handle(t, &management{kubeconfig: usable, code: http.StatusOK},
			func(ctx context.Context, _ *rest.Config, _ string) (Opinion, error) {
				most.Store(max(most.Load(), judging.Add(1)))
				defer judging.Add(-1)
				<-ctx.Done()
				return Opinion{Safe: true}, ctx.Err()
			})
		begin, answers := time.Now(), make([]string, 6)
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() {
				_, answers[i] = post(t, h, HookPath, request("default", "production", "v1.37.0"))
			})
		}
		all.Wait()
		if passed := time.Since(begin); passed != judgeTimeout || most.Load() != maxJudging {
			t.Errorf("%d clusters were judged at the same time, for %v", most.Load(), passed)
		}
		count := map[string]int{}
		for _, a := range answers {
			count[a]++
		}
		const undetermined = "kube-migrator cannot determine whether the upgrade is safe: "
		want := map[string]int{
			response("Success", undetermined+"the cluster did not answer in time", 60):            4,
			response("Success", undetermined+"too many clusters are judged at the same time", 60): 2,
		}
		if diff := cmp.Diff(want, count); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func TestAnAnswerThatHoldsAnUpgradeAlwaysAsksForTime(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]int32{
		0: 1, -time.Hour: 1, time.Millisecond: 1, 1500 * time.Millisecond: 2, time.Minute: 60, 1<<63 - 1: 1<<31 - 1,
	} {
		g := &gate{Options: Options{RetryAfter: after}}
		if got := g.wait("").RetryAfterSeconds; got != want {
			t.Errorf("%v: %d seconds, want %d", after, got, want)
		}
	}
}
