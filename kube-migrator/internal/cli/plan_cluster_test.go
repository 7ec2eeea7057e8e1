// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
)

const planCRDs = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

func TestPlanOnARealCluster(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{Users: []testbed.User{{Name: "guest"}}})
	client, err := apiserver.NewClient(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := cluster.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (code int, out, errors string) {
		var stdout, stderr strings.Builder
		args = append([]string{"kube-migrator", "plan", "--kubeconfig", kubeconfig}, args...)
		code = Run(t.Context(), args, Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr})
		return code, stdout.String(), stderr.String()
	}

	t.Run("a fresh cluster needs nothing, and what nothing records does not count", func(t *testing.T) {
		code, out, notes := run()
		if code != exit.Done {
			t.Errorf("exit code %d, want %d\n%s%s", code, exit.Done, out, notes)
		}
		if !strings.Contains(out, "namespaces ") || strings.Contains(out, "subjectaccessreviews") {
			t.Errorf("want what is stored and nothing else:\n%s", out)
		}
		const once = "nothing records what is stored; audit reads it from etcd, and migrate makes it current\n  Try: " +
			"kube-migrator migrate --all\n"
		if strings.Count(out, "nothing records") != 1 || !strings.HasSuffix(out, once) {
			t.Errorf("want at the end, and once: %s\n%s", once, out)
		}
		for line := range strings.Lines(out) {
			if len([]rune(line)) > 121 {
				t.Errorf("%d columns: %s", len([]rune(line))-1, line)
			}
		}
		table, _, _ := strings.Cut(out, "\n\n")
		if lines := strings.Split(table, "\n"); !strings.Contains(lines[1], " unknown ") ||
			!strings.Contains(lines[len(lines)-1], " no ") {
			t.Errorf("want what may need a migration first:\n%s", table)
		}
		if !strings.Contains(notes, "DURATION is at 100 objects/s, an assumption; --max-rate sets it.") ||
			!strings.Contains(notes, "resources are not stored and are not shown") {
			t.Errorf("notes:\n%s", notes)
		}
	})

	post(t, client, planCRDs, `{"metadata":{"name":"widgets.demo.example.com"},"spec":{"group":"demo.example.com","scope":"Namespaced",
		"names":{"plural":"widgets","singular":"widget","kind":"Widget"},"versions":[
		{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}},
		{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	for i := range 5 {
		post(t, client, "/apis/demo.example.com/v1/namespaces/default/widgets",
			fmt.Sprintf(`{"apiVersion":"demo.example.com/v1","kind":"Widget","metadata":{"name":"w%d"}}`, i))
	}
	err = client.Patch(types.JSONPatchType).AbsPath(planCRDs, "widgets.demo.example.com").Body([]byte(
		`[{"op":"replace","path":"/spec/versions/0/storage","value":false},{"op":"replace","path":"/spec/versions/1/storage","value":true}]`)).Do(t.Context()).Error()
	if err != nil {
		t.Fatal(err)
	}

	t.Run("a CRD that claims an old version is work, and comes first", func(t *testing.T) {
		code, out, notes := run()
		lines := strings.Split(out, "\n")
		want := "widgets.demo.example.com v2 v1,v2 ~5 yes <1s"
		if got := strings.Join(strings.Fields(lines[1]), " "); code != exit.WorkLeft || got != want {
			t.Errorf("exit code %d, first line %q, want %d, %q\n%s", code, got, exit.WorkLeft, want, notes)
		}
		if want := "widgets.demo.example.com (yes): stored versions claim v1 too\n  Try: kube-migrator migrate " +
			"widgets.demo.example.com\n"; !strings.Contains(out, want) {
			t.Errorf("want %q:\n%s", want, out)
		}
	})
	t.Run("JSON has raw numbers", func(t *testing.T) {
		code, out, notes := run("widget", "-o", "json", "--max-rate", "10")
		var plan render.Plan
		if err := json.Unmarshal([]byte(out), &plan); err != nil || len(plan.Resources) != 1 {
			t.Fatalf("%v: %s", err, out)
		}
		r := plan.Resources[0]
		if code != exit.WorkLeft || notes != "" || plan.ObjectsPerSecond != 10 || *r.Objects != 5 ||
			*r.DurationSeconds != 0.5 || r.StorageVersionHash == "" {
			t.Errorf("exit code %d, notes %q:\n%s", code, notes, out)
		}
	})
	t.Run("names can be given to migrate", func(t *testing.T) {
		_, out, _ := run("-o", "name", "widgets", "subjectaccessreviews", "namespaces")
		if want := "widgets.demo.example.com\nnamespaces\n"; out != want {
			t.Errorf("got %q, want %q", out, want)
		}
	})
	t.Run("a resource that is named and unknown cannot be determined", func(t *testing.T) {
		if code, out, _ := run("namespaces"); code != exit.Undetermined ||
			!strings.Contains(out, "nothing records what is stored") {
			t.Errorf("exit code %d, want %d:\n%s", code, exit.Undetermined, out)
		}
	})
	t.Run("a misspelt name gets two lines", func(t *testing.T) {
		code, out, errors := run("widgts")
		want := "error: the server has no resource \"widgts\"\nTry: kube-migrator plan widgets.demo.example.com\n"
		if code != exit.Error || out != "" || errors != want {
			t.Errorf("exit code %d, stdout %q, stderr %q, want %d, nothing, %q", code, out, errors, exit.Error, want)
		}
	})
	t.Run("what may not be listed is shown as forbidden", func(t *testing.T) {
		guest, err := cluster.KubeconfigFor(cluster.Servers[0].URL(), "guest")
		if err != nil {
			t.Fatal(err)
		}
		code, out, notes := run("--kubeconfig", guest)
		if code != exit.Undetermined || !strings.Contains(out, " forbidden ") {
			t.Errorf("exit code %d, want %d:\n%s", code, exit.Undetermined, out)
		}
		if !strings.Contains(notes, "Skipped: CustomResourceDefinitions could not be read: list "+
			"CustomResourceDefinitions:") || !strings.Contains(notes, "forbidden") {
			t.Errorf("notes:\n%s", notes)
		}
	})
	t.Run("what would be left alone is announced", func(t *testing.T) { announcesLosses(t, cluster, client, kubeconfig) })
	t.Run("what no server can read is not called safe", func(t *testing.T) { nothingUnreadableIsSafe(t, cluster, client, kubeconfig) })
	t.Run("an API server that does not answer gets two lines", func(t *testing.T) {
		code, out, errors := run("--server=https://127.0.0.1:1")
		if code != exit.Error || out != "" || !strings.Contains(errors, "refused") || strings.Count(errors, "\n") != 2 {
			t.Errorf("exit code %d, stdout %q, stderr %q", code, out, errors)
		}
	})
}

// announcesLosses runs the commands that look at a resource of which a migration would leave an object alone.
func announcesLosses(t *testing.T, cluster *testbed.Cluster, client rest.Interface, kubeconfig string) {
	const text, name = `"spec":{"type":"object","properties":{%s}}`, "gizmos.demo.example.com"
	version := func(name string, storage bool, fields string) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object","properties":{`+
			text+`}}}}`, name, storage, fields)
	}
	const a, both = `"a":{"type":"string"}`, `"a":{"type":"string"},"b":{"type":"string"}`
	post(t, client, planCRDs, `{"metadata":{"name":"`+name+`"},"spec":{"group":"demo.example.com","scope":"Namespaced",
		"names":{"plural":"gizmos","singular":"gizmo","kind":"Gizmo"},"versions":[`+
		version("v1", true, both)+","+version("v2", false, a)+`]}}`)
	for object, spec := range map[string]string{"keeps": `{"a":"x"}`, "loses": `{"a":"x","b":"y"}`} {
		post(t, client, "/apis/demo.example.com/v1/namespaces/default/gizmos",
			`{"apiVersion":"demo.example.com/v1","kind":"Gizmo","metadata":{"name":"`+object+`"},"spec":`+spec+`}`)
	}
	if err := cluster.MoveStorage(t.Context(), name, "v2"); err != nil {
		t.Fatal(err)
	}
	const alone = "1 of 2 objects would be left alone, because they would lose fields: default/loses (spec.b)"
	for _, test := range []struct {
		args string
		code int
		want string
		not  string
	}{
		{"plan " + name, exit.WorkLeft, "yes, in part", ""},
		{"plan " + name, exit.WorkLeft, "stored versions claim v1 too; " + alone, ""},
		{"plan -o json " + name, exit.WorkLeft, `"fields": [ "spec.b" ]`, ""},
		{"check " + name, exit.WorkLeft, "a migration leaves objects alone that have spec.b, because they would lose it", ""},
		{"check -o json " + name, exit.WorkLeft, `"mayLose": [ "spec.b" ]`, ""},
		{"migrate --dry-run=client " + name, exit.Done, "left alone " + alone, ""},
		{"migrate --dry-run=client --accept-field-loss=spec.b " + name, exit.Done, "would rewrite about 2 objects", "left alone"},
		{"migrate --dry-run=server --settle-time=0 " + name, exit.Failures,
			"objects 1 accepted, 0 gone, 0 refused, 1 left alone", ""},
	} {
		var stdout, stderr strings.Builder
		args := append([]string{"kube-migrator"}, strings.Fields(test.args+" --kubeconfig="+kubeconfig)...)
		code := Run(t.Context(), args, Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr})
		out := strings.Join(strings.Fields(stdout.String()), " ") // however it is wrapped
		if code != test.code || !strings.Contains(out, test.want) || test.not != "" && strings.Contains(out, test.not) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s%s", test.args, code, test.code, test.want, &stdout, &stderr)
		}
	}
}

// nothingUnreadableIsSafe runs the commands that look at resources with an object that was encrypted with a key which is
// gone, and with one that is stored in a version which the CRD does not have.
func nothingUnreadableIsSafe(t *testing.T, cluster *testbed.Cluster, client rest.Interface, kubeconfig string) {
	for plural, test := range map[string]struct{ value, try string }{
		"keyless": {"k8s:enc:aescbc:v1:key9:0123456789abcdef0123456789abcdef",
			"kubectl get keyless.demo.example.com --all-namespaces"},
		"outlives": {`{"apiVersion":"demo.example.com/v1alpha1","kind":"Outlives","metadata":{"name":"a","namespace":"default",` +
			`"uid":"a"}}`, "kube-migrator retire outlives.demo.example.com --version=v1alpha1 --rescue"},
	} {
		name, kind := plural+".demo.example.com", strings.ToUpper(plural[:1])+plural[1:]
		post(t, client, planCRDs, `{"metadata":{"name":"`+name+`"},"spec":{"group":"demo.example.com","scope":"Namespaced",
			"names":{"plural":"`+plural+`","singular":"`+plural+`","kind":"`+kind+`"},"versions":[
			{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
		post(t, client, "/apis/demo.example.com/v1/namespaces/default/"+plural, // as soon as it is served
			`{"apiVersion":"demo.example.com/v1","kind":"`+kind+`","metadata":{"name":"b"}}`)
		const prefix = "/registry/demo.example.com/"
		if err := cluster.PutRaw(t.Context(), prefix+plural+"/default/a", []byte(test.value)); err != nil {
			t.Fatal(err)
		}
		for command, want := range map[string]struct {
			code int
			says string
		}{
			"plan":                    {exit.Undetermined, "stored versions claim v1 only; cannot list: "},
			"check":                   {exit.Undetermined, "its objects cannot be listed: "},
			"migrate --settle-time=0": {exit.Error, "Try: " + test.try},
		} {
			var stdout, stderr strings.Builder
			args := append([]string{"kube-migrator"}, strings.Fields(command+" "+name+" --kubeconfig="+kubeconfig)...)
			code := Run(t.Context(), args, Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr})
			out := strings.Join(strings.Fields(stdout.String()+stderr.String()), " ")
			if code != want.code || !strings.Contains(out, want.says) || !strings.Contains(out, "corrupt object") {
				t.Errorf("%s %s: exit code %d, want %d and %q:\n%s%s", command, name, code, want.code, want.says, &stdout, &stderr)
			}
		}
		if err := cluster.DeleteRawBelow(t.Context(), prefix+plural+"/"); err != nil { // the invariants do not hold of it
			t.Error(err)
		}
	}
}

// post creates an object, as soon as its resource is served.
func post(t *testing.T, client rest.Interface, path, body string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		err := client.Post().AbsPath(path).SetHeader("Content-Type",
			"application/json").Body([]byte(body)).Do(t.Context()).Error()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
