// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kube-migrator/kube-migrator/config"
	"github.com/kube-migrator/kube-migrator/internal/golden"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// checked is a cluster whose StorageStates the test writes as the controller does.
type checked struct {
	*testbed.Cluster
	kubeconfig string
	testdata   string
	masks      *strings.Replacer
}

const apiServicesPath = "/apis/apiregistration.k8s.io/v1/apiservices"

// podGroups are stored by 1.37 in a version that 1.36 does not know.
const podGroups = "podgroups.scheduling.k8s.io"

func TestCheckOnRealClusters(t *testing.T) {
	c := &checked{Cluster: testbed.New(t, testbed.Options{Servers: []testbed.ServerOptions{
		{Flags: []string{"--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true"}},
	}})}
	var err error
	if c.kubeconfig, err = c.Kubeconfig(); err != nil {
		t.Fatal(err)
	}
	if c.testdata, err = filepath.Abs("testdata/check"); err != nil {
		t.Fatal(err)
	}
	c.masks = strings.NewReplacer(c.Servers[0].URL(), "https://api-0", c.Etcd.Endpoint(), "http://etcd")
	for _, err := range []error{
		c.InstallWidgets(t.Context(), testbed.Widgets{}),
		c.BulkCreate(t.Context(), testbed.Bulk{Count: 3}),
		c.MoveStorage(t.Context(), testbed.WidgetCRD, "v2"),
		c.BulkCreate(t.Context(), testbed.Bulk{Version: "v2", First: 5, Count: 2}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c.do(t, http.MethodPost, "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups",
		`{"metadata":{"name":"a"},"spec":{"schedulingPolicy":{"basic":{}}}}`)
	t.Run("without an installation", c.bare)
	if err := c.InstallCRDs(t.Context(), config.CRDs); err != nil {
		t.Fatal(err)
	}
	t.Run("by StorageStates", c.byStates)
	t.Run("for a target", c.forTarget)
	t.Run("of new CRDs", c.ofManifests)
	t.Run("by what etcd holds", c.byEtcd)
	t.Run("a downgrade proves it", c.downgrade)
}

// golden runs a command and compares everything that it says with a file.
func (c *checked) golden(t *testing.T, name, in string, args ...string) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Helper()
		var out, errs strings.Builder
		code := Run(t.Context(), append([]string{"kube-migrator", "check", "--kubeconfig", c.kubeconfig}, args...),
			Streams{In: strings.NewReader(in), Out: &out, Err: &errs})
		if !slices.Contains(args, "-o") {
			for line := range strings.Lines(out.String()) {
				// a command, and the sentence at the end
				if len([]rune(line)) > 121 && !strings.HasPrefix(line, "  Try: ") && !strings.HasSuffix(line, ".\n") {
					t.Errorf("%d columns: %s", len([]rune(line))-1, line)
				}
			}
		}
		got := fmt.Sprintf("$ kube-migrator check %s\n%s%sexit code %d\n", strings.Join(args, " "), &out,
			prefixed("stderr: ", errs.String()), code)
		got = regexp.MustCompile(`--snapshot \S+/`).ReplaceAllString(c.masks.Replace(got), "--snapshot ")
		got = regexp.MustCompile(`Read \d+ objects from etcd at revision \d+`).ReplaceAllString(got,
			"Read N objects from etcd at revision R")
		path := filepath.Join(c.testdata, strings.ToLower(strings.NewReplacer(" ", "-", ",", "").Replace(name))+".txt")
		golden.Compare(t, path, got)
	})
}

func prefixed(prefix, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(prefix + line)
	}
	return b.String()
}

// do sends a request to the first server.
func (c *checked) do(t *testing.T, method, path, body string) []byte {
	t.Helper()
	status, answer, err := c.Servers[0].Do(t.Context(), method, path, []byte(body))
	if err != nil || status/100 != 2 {
		t.Fatalf("%s %s: %d, %v: %s", method, path, status, err, answer)
	}
	return answer
}

// state writes a StorageState with these versions, the last of which is current; edits are fields of the status
// besides.
func (c *checked) state(t *testing.T, resource schema.GroupResource, kind string,
	edits map[string]any, versions ...string) {
	t.Helper()
	name := resource.String()
	if status, _, err := c.Servers[0].Do(t.Context(), http.MethodGet, records.StatesPath+"/"+name, nil); err != nil ||
		status != http.StatusOK {
		c.do(t, http.MethodPost, records.StatesPath,
			fmt.Sprintf(`{"apiVersion":"migration.k8s.io/v1alpha1","kind":"StorageState","metadata":{"name":%q},
			"spec":{"resource":{"group":%q,"resource":%q}}}`, name, resource.Group, resource.Resource))
	}
	hash := func(version string) string {
		if version == "Unknown" {
			return version
		}
		gv, err := schema.ParseGroupVersion(version)
		if err != nil {
			t.Fatal(err)
		}
		if gv.Group == "" {
			gv.Group = resource.Group
		}
		return storageversion.Hash(gv.WithKind(kind))
	}
	current := versions[len(versions)-1]
	status := map[string]any{"persistedVersions": versions, "currentVersion": current,
		"currentStorageVersionHash": hash(current), "lastHeartbeatTime": time.Now().UTC().Format(time.RFC3339)}
	hashes := []string{}
	for _, v := range versions {
		hashes = append(hashes, hash(v))
	}
	status["persistedStorageVersionHashes"] = hashes
	for _, field := range []string{"conditions", "serverStorageVersions"} {
		status[field] = nil
	}
	maps.Copy(status, edits)
	body, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		t.Fatal(err)
	}
	c.do(t, http.MethodPatch, records.StatesPath+"/"+name+"/status", string(body))
}

func (c *checked) widgets(t *testing.T, edits map[string]any, versions ...string) {
	t.Helper()
	c.state(t, schema.ParseGroupResource(testbed.WidgetCRD), "Widget", edits, versions...)
}

// bare: only CRDs tell what is stored.
func (c *checked) bare(t *testing.T) {
	c.golden(t, "not installed, built in", "", "namespaces", "leases", "subjectaccessreviews")
	c.golden(t, "not installed, custom", "", "widgets", "-o", "wide")
	c.golden(t, "a resource that is not there", "", "widgts")
}

func (c *checked) byStates(t *testing.T) {
	c.widgets(t, nil, "v2")
	c.golden(t, "only the present version", "", "widgets")
	c.widgets(t, nil, "v1", "v2")
	c.golden(t, "an old version besides", "", "widgets", "-o", "json")
	c.golden(t, "a resource without a StorageState", "", "namespaces", "-o", "yaml")
	c.widgets(t, nil, "Unknown", "v2")
	c.golden(t, "Unknown", "", "widgets")
	c.widgets(t, map[string]any{
		"currentStorageVersionHash": "Unknown", "currentVersion": "",
		"conditions": []any{map[string]any{"type": "AllEncodingVersionsEqual", "status": "False",
			"message": "api-0 encodes v1, api-1 encodes v2"}},
	}, "v1", "v2")
	c.golden(t, "servers that disagree", "", "widgets")
	c.widgets(t, map[string]any{"lastHeartbeatTime": time.Now().Add(-3 * time.Hour).UTC().Format(time.RFC3339)}, "v2")
	c.golden(t, "a controller that is away", "", "widgets")
	c.everything(t)
	c.widgets(t, nil, "v2")
	c.golden(t, "a whole cluster that is current", "")
	c.widgets(t, nil, "v1", "v2")
	c.golden(t, "a whole cluster with work left", "", "-o", "name")
	c.widgets(t, nil, "v2")
	c.state(t, schema.GroupResource{Group: "gone.example.com", Resource: "things"}, "Thing", nil, "v1")
	c.do(t, http.MethodPost, apiServicesPath,
		`{"metadata":{"name":"v1.down.example.com"},"spec":{"group":"down.example.com","version":"v1","groupPriorityMinimum":1,"versionPriority":1,
		"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"down"}}}`)
	// Until the API server has looked for the service, it says something else.
	for deadline := time.Now().Add(time.Minute); !bytes.Contains(c.do(t, http.MethodGet, apiServicesPath+
		"/v1.down.example.com", ""), []byte("ServiceNotFound")); {
		if time.Now().After(deadline) {
			t.Fatal("the API server has not looked for the service within a minute")
		}
		time.Sleep(50 * time.Millisecond)
	}
	c.golden(t, "a resource that is gone, and an API server that is down", "", "-o", "name")
	c.do(t, http.MethodDelete, records.StatesPath+"/things.gone.example.com", "")
	c.do(t, http.MethodDelete, apiServicesPath+"/v1.down.example.com", "")
}

// everything writes a StorageState of every resource, each stored in the present version alone.
func (c *checked) everything(t *testing.T) {
	t.Helper()
	client, err := apiserver.NewClient(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	inv, err := inventory.Take(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range inv.Resources {
		if r.StorageVersionHash != "" {
			c.state(t, r.GroupResource, r.Kind, map[string]any{
				"persistedStorageVersionHashes": []string{r.StorageVersionHash},
				"currentStorageVersionHash":     r.StorageVersionHash,
			}, r.Storage())
		}
	}
}

func (c *checked) forTarget(t *testing.T) {
	c.widgets(t, nil, "v1", "v2")
	c.golden(t, "old versions that the target can decode", "", "widgets", "namespaces", "--target-version", "1.36")
	c.golden(t, "a downgrade of a whole cluster", "", "--target-version", "v1.36.3")
	c.golden(t, "a downgrade with a version that is new", "", podGroups, "--target-version", "1.36", "-o", "wide")
	c.golden(t, "the same release", "", podGroups, "--target-version", "1.37")
	c.widgets(t, nil, "v0", "v2")
	c.golden(t, "a version that the CRD lacks", "", "widgets", "--target-version", "1.37")
	c.golden(t, "the same server", "", podGroups, "storagestates.migration.k8s.io", "--target-server",
		c.Servers[0].URL(), "-o", "json")
	c.other(t)
	c.golden(t, "a server of the other release", "", podGroups, "widgets", "customresourcedefinitions",
		"--target-server", "other")
	c.golden(t, "a context that is not there", "", "--target-server", "nowhere")
	c.golden(t, "a release that is not known", "", "--target-version", "1.29")
	c.golden(t, "a release that is none", "", "--target-version", "newest")
}

// other adds a cluster of the other release, whose server publishes what it can decode, to the kubeconfig.
func (c *checked) other(t *testing.T) {
	t.Helper()
	other := testbed.New(t, testbed.Options{Release: testbed.V136, Flags: []string{
		"--feature-gates=StorageVersionAPI=true", "--runtime-config=internal.apiserver.k8s.io/v1alpha1=true",
	}})
	c.futureRelease(t, other)
	path, err := other.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	c.addContext(t, path)
}

// futureRelease takes both clusters for servers of a release that no one knows yet: what one publishes is taken, and
// the other does not publish.
func (c *checked) futureRelease(t *testing.T, publishing *testbed.Cluster) {
	t.Helper()
	ask := func(cluster *testbed.Cluster) (upgrade.Table, error) {
		q, err := (&environment{name: "kube-migrator"}).connectTo(cluster.Config())
		if err != nil {
			t.Fatal(err)
		}
		return targetTable(t.Context(), q, "v1.99.0")
	}
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	table, err := ask(publishing)
	for deadline := time.Now().Add(time.Minute); len(table.Decodable[deployments].Versions) == 0 &&
		time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		table, err = ask(publishing) // it publishes some seconds after its start
	}
	got := table.Decodable[deployments]
	want := upgrade.Decodable{Kind: "Deployment",
		Versions: []schema.GroupVersion{{Group: "apps", Version: "v1"}, {Group: "apps", Version: "v1beta2"},
			{Group: "apps", Version: "v1beta1"}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, deployments (-want +got):\n%s", err, diff)
	}
	var known *exit.Hint
	if _, err := ask(c.Cluster); !errors.As(err, &known) || known.Code() != exit.Undetermined {
		t.Errorf("error %v, want one with exit code %d", err, exit.Undetermined)
	}
}

func (c *checked) addContext(t *testing.T, path string) {
	t.Helper()
	both, err := clientcmd.LoadFromFile(c.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	other, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	both.Clusters["other"], both.AuthInfos["other"] = other.Clusters["testbed"], other.AuthInfos[testbed.Admin]
	both.Contexts["other"] = &clientcmdapi.Context{Cluster: "other", AuthInfo: "other"}
	if err := clientcmd.WriteToFile(*both, c.kubeconfig); err != nil {
		t.Fatal(err)
	}
}

// downgrade really does what was asked about: the other release can read what was found safe, and cannot read what was
// not; it does not even become ready.
func (c *checked) downgrade(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := c.Servers[0].RestartWith(ctx, testbed.ServerOptions{
		Release: testbed.V136, Flags: []string{"--feature-gates=GenericWorkload=true",
			"--runtime-config=scheduling.k8s.io/v1alpha2=true"},
	})
	if err == nil {
		t.Error("a server that cannot read what is stored is ready")
	}
	for path, want := range map[string]string{
		"/api/v1/namespaces":                         `"kind":"NamespaceList"`,
		"/apis/scheduling.k8s.io/v1alpha2/podgroups": `no kind \"PodGroup\" is registered for version \"scheduling.k8s.io/v1beta1\"`,
	} {
		// A server needs some seconds before it admits that it cannot read a resource at all.
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			status, answer, err := c.Servers[0].Do(t.Context(), http.MethodGet, path, nil)
			if err == nil && strings.Contains(string(answer), want) {
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("GET %s at 1.36: %d, %v: %s, want %s", path, status, err, answer, want)
				break
			}
		}
	}
}
