// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

const crdsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// server is a real API server that is asked what it takes.
type server struct {
	t       *testing.T
	cluster *testbed.Cluster
}

func (s *server) do(method, path string, body []byte) (status int, answer map[string]any) {
	s.t.Helper()
	status, raw, err := s.cluster.Servers[0].Do(s.t.Context(), method, path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = json.Unmarshal(raw, &answer) // what is no object is shown as nil
	return status, answer
}

// takes sends a CRD and reports whether it is taken. A refusal must be one of what is wrong with it, not of
// anything else.
func (s *server) takes(method, path string, body []byte) bool {
	s.t.Helper()
	status, answer := s.do(method, path, body)
	switch status {
	case http.StatusOK, http.StatusCreated:
		return true
	case http.StatusUnprocessableEntity, http.StatusBadRequest:
		s.t.Logf("%s: %v", method, answer["message"])
		return false
	}
	s.t.Fatalf("%s %s: %d: %v", method, path, status, answer)
	return false
}

// until waits for what the server does on its own. Where it fails at first, it tries again ever later.
func (s *server) until(what string, done func() bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			s.t.Fatalf("waited five minutes for %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *server) remove(name string) {
	s.t.Helper()
	path := crdsPath + "/" + name
	s.do(http.MethodDelete, path, nil)
	s.until("the CRD to go", func() bool {
		status, _ := s.do(http.MethodGet, path, nil)
		return status == http.StatusNotFound
	})
}

// establish waits until a CRD is served, and sets the versions in which objects may be stored.
func (s *server) establish(name string, storedVersions []string) {
	s.t.Helper()
	s.until("the CRD to be established", func() bool {
		_, answer := s.do(http.MethodGet, crdsPath+"/"+name, nil)
		raw, _ := json.Marshal(answer) // what was unmarshaled
		crd, err := Parse(name, raw)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, condition := range crd.v1.Status.Conditions {
			if condition.Type == "Established" && condition.Status == "True" {
				return true
			}
		}
		return false
	})
	if _, err := s.cluster.EditCRDStatus(s.t.Context(), name, func(crd map[string]any) {
		crd["status"].(map[string]any)["storedVersions"] = storedVersions
	}); err != nil {
		s.t.Fatal(err)
	}
}

// replaces sends a CRD in the place of the one that the server has.
func (s *server) replaces(name string, body []byte) bool {
	s.t.Helper()
	taken := false
	s.until("an update without a conflict", func() bool {
		_, held := s.do(http.MethodGet, crdsPath+"/"+name, nil)
		var object map[string]any
		if err := json.Unmarshal(body, &object); err != nil {
			s.t.Fatal(err)
		}
		object["metadata"].(map[string]any)["resourceVersion"] = held["metadata"].(map[string]any)["resourceVersion"]
		raw, err := json.Marshal(object)
		if err != nil {
			s.t.Fatal(err)
		}
		status, answer := s.do(http.MethodPut, crdsPath+"/"+name, raw)
		if status == http.StatusConflict { // the server writes the status too
			return false
		}
		taken = status == http.StatusOK
		if !taken && status != http.StatusUnprocessableEntity && status != http.StatusBadRequest {
			s.t.Fatalf("PUT: %d: %v", status, answer)
		}
		if !taken {
			s.t.Logf("PUT: %v", answer["message"])
		}
		return true
	})
	return taken
}

func asJSON(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func same(t *testing.T, question string, offline []string, server bool) {
	t.Helper()
	if (len(offline) == 0) != server {
		t.Errorf("%s: the API server takes it: %t; offline: %q", question, server, offline)
	}
}

// inV1 is a manifest in the version that a server serves; what is in v1beta1 is upgraded.
func inV1(t *testing.T, name, text string) (*CRD, []byte) {
	t.Helper()
	d := parse(t, name, text)
	if !d.isV1() {
		upgraded, err := Upgrade(t.Context(), name, text, Options{})
		if err != nil {
			t.Fatal(err)
		}
		text = upgraded.Text
		d = parse(t, name, text)
	}
	return d, asJSON(t, text)
}

func TestARealServerTakesWhatUpgradeWritesAndRefusesWhatItRefuses(t *testing.T) {
	fixture.NeedsGo(t)
	cluster := testbed.New(t, testbed.Options{})
	for name, text := range manifests(t, "upgrade/*.yaml") {
		for _, options := range []Options{{}, {AddVersion: "v9"}} {
			t.Run(name+options.AddVersion, func(t *testing.T) {
				s := &server{t: t, cluster: cluster}
				upgraded, err := Upgrade(t.Context(), name, text, options)
				rejected := (*RefusedError)(nil)
				if err != nil && !errors.As(err, &rejected) {
					t.Fatal(err)
				}
				for _, part := range split(upgraded.Text) {
					var head struct{ Kind string }
					if !isContent(part) || yaml.Unmarshal([]byte(part), &head) != nil || head.Kind != Kind {
						continue
					}
					crd := parse(t, name, part)
					// A server that is asked for strictness refuses unknown fields, as `kubectl` has it by default.
					taken := s.takes(http.MethodPost, crdsPath+"?fieldValidation=Strict", asJSON(t, part))
					if taken != (rejected == nil) {
						t.Errorf("the API server takes it: %t; Upgrade: %v", taken, err)
					}
					s.remove(crd.Name)
				}
			})
		}
	}
}
