// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/compare"
)

const (
	service = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n"
	secret  = "apiVersion: v1\nkind: Secret\nmetadata: {name: b}\n"
)

func TestObjectsAreFoundInWhateverPeopleApply(t *testing.T) {
	for name, test := range map[string]struct {
		data string
		want []string
	}{
		"two documents": {service + "---\n" + secret,
			[]string{"Service: f, document 1", "Secret: f, document 2"}},
		"separators at both ends": {"---\n" + service + "---\n---\n" + secret + "---\n",
			[]string{"Service: f, document 1", "Secret: f, document 2"}},
		"comments between": {"# a licence\n---\n# Source: chart/templates/a.yaml\n" + service +
			"---\n# nothing\n", []string{"Service: f, document 1"}},
		"a separator with a comment": {"--- # first\n" + service + "---   \n" + secret,
			[]string{"Service: f, document 1", "Secret: f, document 2"}},
		"a separator with content": {"--- {apiVersion: v1, kind: Pod}\n---\n" + secret,
			[]string{"Pod: f, document 1", "Secret: f, document 2"}},
		"ends of documents": {service + "...\n---\n" + secret + "... # done\n",
			[]string{"Service: f, document 1", "Secret: f, document 2"}},
		"an end without a separator": {service + "...\n" + secret,
			[]string{"Service: f, document 1", "Secret: f, document 2"}},
		"a byte order mark before JSON": {"\xef\xbb\xbf" +
			`{"apiVersion":"v1","kind":"Pod"}{"apiVersion":"v1","kind":"Node"}`,
			[]string{"Pod: f, document 1", "Node: f, document 2"}},
		"a directive": {"%YAML 1.2\n---\n" + service, []string{"Service: f, document 1"}},
		"lines as Windows ends them": {strings.ReplaceAll(service+"---\n"+secret, "\n", "\r\n"),
			[]string{"Service: f, document 1", "Secret: f, document 2"}},
		"a byte order mark": {"\xef\xbb\xbf" + service, []string{"Service: f, document 1"}},
		"dashes inside a text": {"apiVersion: v1\nkind: ConfigMap\ndata:\n  a: |\n    ---\n    b\n    ...\n",
			[]string{"ConfigMap: f, document 1"}},
		"JSON": {`{"apiVersion":"v1","kind":"Pod"}`, []string{"Pod: f, document 1"}},
		"JSON after JSON": {`{"apiVersion":"v1","kind":"Pod"}` + "\n" +
			`{"apiVersion":"v1","kind":"Node"}`, []string{"Pod: f, document 1", "Node: f, document 2"}},
		"JSON between separators": {`{"apiVersion":"v1","kind":"Pod"}` + "\n---\n" + secret,
			[]string{"Pod: f, document 1", "Secret: f, document 2"}},
		"a flow mapping": {"{apiVersion: v1, kind: Pod}\n", []string{"Pod: f, document 1"}},
		"a list": {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod}\n- " +
			"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Node}]}\n",
			[]string{"Pod: f, document 1, item 1", "Node: f, document 1, item 2, item 1"}},
		"a list whose items have no kind": {"apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n",
			[]string{"Pod: f, document 1, item 1"}},
		"an empty list": {"apiVersion: v1\nkind: List\nitems: []\n", nil},
		"a kind that ends like a list": {"apiVersion: example.com/v1\nkind: AllowList\nspec: {}\n",
			[]string{"AllowList: f, document 1"}},
		"Helm's header and notes": {"NAME: a\nLAST DEPLOYED: Sat\nSTATUS: " +
			"pending-install\nHOOKS:\nMANIFEST:\n---\n# Source: a.yaml\n" + service +
			"\nNOTES:\n1. Get the URL:\n  export A=$(kubectl get -o jsonpath={.a})\n\t`b: c`: *d\n",
			[]string{"Service: f, document 2"}},
		"a document behind notes": {service + "NOTES:\n{{ }\n---\n" + secret,
			[]string{"Service: f, document 1", "Secret: f, document 2"}},
		"values, which are no object": {"replicas: 1\n", nil},
		"nothing":                     {"", nil},
		"comments only":               {"# a\n\n---\n  # b\n", nil},
		"a null document":             {"---\nnull\n---\n" + service, []string{"Service: f, document 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := Objects("f", []byte(test.data))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range objects {
				got = append(got, o.Kind+": "+o.From)
			}
			if diff := compare.Diff(test.want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadInputIsNamedByFileAndDocument(t *testing.T) {
	for name, test := range map[string]struct{ data, want string }{
		"broken YAML": {service + "---\na: [\n", "f, document 2: it is not YAML: "},
		"an unrendered template": {"apiVersion: v1\nkind: Service\nmetadata:\n  {{- include \"labels\" . }}\n",
			"f, document 1: it is not YAML: "},
		"a text":       {"hello\nworld\n", `f, document 1: it is not an object: "hello world"`},
		"a sequence":   {service + "---\n- a\n", `f, document 2: it is not an object: ["a"]`},
		"a kind alone": {"kind: Service\n", "f, document 1: it has no apiVersion or no kind"},
		"JSON that is cut off": {`{"apiVersion":"v1","kind":"Pod"} {"a":`,
			"f, document 2: it is not JSON: unexpected EOF"},
		"items that are no list": {"apiVersion: v1\nkind: List\nitems: {}\n",
			"f, document 1: its items are no list: "},
		"an item that is not a map": {"apiVersion: v1\nkind: List\nitems: [a]\n",
			`f, document 1, item 1: it is not an object: "a"`},
		"a kind that is a number": {"apiVersion: v1\nkind: 1\n", "f, document 1: json: "},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := Objects("f", []byte(test.data))
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%d objects, error %v, want %q…", len(objects), err, test.want)
			}
		})
	}
}
