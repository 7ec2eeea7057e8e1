// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// holds makes the server hold a CRD that it would not take as a new one, as a cluster does whose CRDs were created by
// an earlier release: spec.preserveUnknownFields: true is written past the API server.
func (s *server) holds(d *CRD, body []byte) {
	s.t.Helper()
	if !s.takes(http.MethodPost, crdsPath, body) {
		s.t.Fatal("the API server does not take the CRD")
	}
	s.establish(d.Name, []string{"v1"})
	const folder = "/registry/apiextensions.k8s.io/customresourcedefinitions/"
	raw, err := s.cluster.Raw(s.t.Context(), folder+d.Name)
	if err != nil {
		s.t.Fatal(err)
	}
	var held map[string]any
	if err := json.Unmarshal(raw, &held); err != nil {
		s.t.Fatal(err)
	}
	held["spec"].(map[string]any)["preserveUnknownFields"] = true
	if raw, err = json.Marshal(held); err != nil {
		s.t.Fatal(err)
	}
	if err := s.cluster.PutRaw(s.t.Context(), folder+d.Name, raw); err != nil {
		s.t.Fatal(err)
	}
}

// creates writes an object, and waits until the server keeps it whole: it learns of a new CRD a moment later.
func (s *server) creates(folder string, object map[string]any) {
	s.t.Helper()
	body, err := json.Marshal(object)
	if err != nil {
		s.t.Fatal(err)
	}
	s.until("the server to keep the object whole", func() bool {
		if status, answer := s.do(http.MethodPost, folder, body); status != http.StatusCreated {
			s.t.Logf("create: %d: %v", status, answer["message"])
			return false
		}
		_, read := s.do(http.MethodGet, folder+"/one", nil)
		if whole := cmp.Equal(object, content(read)); whole {
			return true
		}
		s.do(http.MethodDelete, folder+"/one", nil)
		return false
	})
}

// content is an object as its author wrote it.
func content(object map[string]any) map[string]any {
	left := maps.Clone(object)
	left["metadata"] = map[string]any{"name": "one"}
	return left
}

// markVersion is a version by which it can be seen that the server has come to use a CRD.
const markVersion = "v9"

func withMark(t *testing.T, body []byte) []byte {
	t.Helper()
	var crd map[string]any
	if err := json.Unmarshal(body, &crd); err != nil {
		t.Fatal(err)
	}
	spec := crd["spec"].(map[string]any)
	versions := spec["versions"].([]any)
	marked := maps.Clone(versions[0].(map[string]any))
	marked["name"], marked["storage"] = markVersion, false
	spec["versions"] = append(versions, marked)
	raw, err := json.Marshal(crd)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// rewrites puts another CRD in place, rewrites the object as a migration does, and returns what etcd holds of it then.
func (s *server) rewrites(d *CRD, body []byte, folder, key string) map[string]any {
	s.t.Helper()
	if !s.replaces(d.Name, withMark(s.t, body)) {
		s.t.Fatal("the API server does not take the new CRD")
	}
	s.until("the server to use the new CRD", func() bool {
		status, _ := s.do(http.MethodGet, strings.Replace(folder, "/v1/", "/"+markVersion+"/", 1)+"/one", nil)
		return status == http.StatusOK
	})
	if status, answer := s.do(http.MethodPatch, folder+"/one", []byte("{}")); status != http.StatusOK {
		s.t.Fatalf("rewrite: %d: %v", status, answer["message"])
	}
	// The empty patch writes where the bytes differ. A label makes sure that they do.
	if status, answer := s.do(http.MethodPatch, folder+"/one",
		[]byte(`{"metadata": {"labels": {"rewritten": "true"}}}`)); status != http.StatusOK {
		s.t.Fatalf("rewrite: %d: %v", status, answer["message"])
	}
	raw, err := s.cluster.Raw(s.t.Context(), key)
	if err != nil {
		s.t.Fatal(err)
	}
	var held map[string]any
	if err := json.Unmarshal(raw, &held); err != nil {
		s.t.Fatal(err)
	}
	return content(held)
}

func TestARealServerDropsNothingBecauseOfAnUpgradedCRD(t *testing.T) {
	fixture.NeedsGo(t)
	cluster := testbed.New(t, testbed.Options{})
	s := &server{t: t, cluster: cluster}
	text := manifests(t, "upgrade/keeps-everything.yaml")["keeps-everything"]
	old := parse(t, "old", text)
	upgraded, err := Upgrade(t.Context(), "old", text, Options{})
	if err != nil {
		t.Fatal(err)
	}
	// No server creates a CRD through v1beta1 any more. The one that it holds has the same schema, but for what v1
	// refuses even without pruning.
	s.holds(old, asJSON(t, upgraded.Text))
	folder, key := "/apis/example.com/v1/loads", "/registry/example.com/loads/one"
	object := filledObject(old, old.v1.Spec.Versions[0])
	object["spec"].(map[string]any)["described"] = nil
	status := object["status"]
	delete(object, "status") // which creating an object leaves out
	s.creates(folder, object)
	raw, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		t.Fatal(err)
	}
	if code, answer := s.do(http.MethodPatch, folder+"/one/status", raw); code != http.StatusOK {
		t.Fatalf("write the status: %d: %v", code, answer["message"])
	}
	object["status"] = status
	if diff := cmp.Diff(object, s.rewrites(old, asJSON(t, upgraded.Text), folder, key)); diff != "" {
		t.Errorf("the object in etcd (-before +after the upgraded CRD):\n%s", diff)
	}
	created := content(object)
	created["metadata"] = map[string]any{"name": "two"}
	delete(created, "status")
	raw, err = json.Marshal(created)
	if err != nil {
		t.Fatal(err)
	}
	if code, answer := s.do(http.MethodPost, folder+"?fieldValidation=Strict", raw); code != http.StatusCreated {
		t.Fatalf("create with the upgraded CRD: %d: %v", code, answer["message"])
	}
	_, read := s.do(http.MethodGet, folder+"/two", nil)
	if diff := cmp.Diff(content(created), content(read)); diff != "" {
		t.Errorf("a new object (-written +read):\n%s", diff)
	}
	t.Run("and nothing of what a Go program has written", func(t *testing.T) {
		(&server{t: t, cluster: cluster}).checkGoType()
	})
}
