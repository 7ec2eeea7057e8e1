// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/storedversions"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// definedCluster is a scripted API server with a CRD whose storage version is v2.
type definedCluster struct {
	*scripted
	generation int
	stored     []string
}

func (c *definedCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.URL.Path, "customresourcedefinitions") {
		c.scripted.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodPatch {
		var patch struct {
			Metadata struct{ ResourceVersion string }
			Status   struct{ StoredVersions []string }
		}
		raw, _ := io.ReadAll(r.Body)
		if json.Unmarshal(raw, &patch) != nil || patch.Metadata.ResourceVersion != "5" {
			refuse(w, http.StatusConflict, "no precondition")
			return
		}
		c.stored = patch.Status.StoredVersions
	}
	stored, _ := json.Marshal(c.stored)
	fmt.Fprintf(w, `{"metadata":{"name":"configmaps.demo.example.com","uid":"u","generation":%d,"resourceVersion":"5"},
		"spec":{"group":"demo.example.com","names":{"plural":"configmaps","kind":"Widget"},"scope":"Namespaced",
		"versions":[{"name":"v1","served":true},{"name":"v2","served":true,"storage":true}]},
		"status":{"storedVersions":%s,"conditions":[{"type":"Established","status":"True"},
		{"type":"NamesAccepted","status":"True"}]}}`, c.generation, stored)
}

var definedTarget = Target{Resource: schema.GroupVersionResource{Group: "demo.example.com", Version: "v2",
	Resource: "configmaps"}, Kind: "Widget", Namespaced: true, Origin: Custom}

// definedEpoch is one in which the API servers write v2 of that CRD.
func definedEpoch() Epoch {
	return Epoch{Hash: storageversion.Hash(schema.GroupVersionKind{Group: "demo.example.com", Version: "v2",
		Kind: "Widget"}), Servers: []string{"a"}, CRDUID: "u", CRDGeneration: 3, Since: time.Now().Add(-time.Hour),
		Evidence: Observed}
}

// sweepDefined runs a sweep of that CRD's objects.
func sweepDefined(t *testing.T, c *definedCluster, epoch Epoch, o Options) (*Sweep, *rest.Config, error) {
	t.Helper()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	o.SettleTime, o.lookInterval = time.Millisecond, 10*time.Millisecond
	config := &rest.Config{Host: server.URL}
	s, err := New(config, definedTarget, agreementFunc(func() (Epoch, error) { return epoch, nil }), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Proof(); !errors.Is(err, ErrNoProof) {
		t.Errorf("proof before Run: %v, want ErrNoProof", err)
	}
	_, err = s.Run(t.Context())
	return s, config, err
}

func TestStoredVersionsArePrunedWithTheProofOfASweep(t *testing.T) {
	c := &definedCluster{scripted: &scripted{n: 3, resourceVersion: "1000"}, generation: 3, stored: []string{"v1", "v2"}}
	s, config, err := sweepDefined(t, c, definedEpoch(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.stored, []string{"v1", "v2"}) {
		t.Errorf("the sweep itself pruned to %v", c.stored)
	}
	proof, err := s.Proof()
	if err != nil {
		t.Fatal(err)
	}
	removed, err := PruneStoredVersions(t.Context(), config, proof)
	if err != nil || !slices.Equal(removed, []string{"v1"}) || !slices.Equal(c.stored, []string{"v2"}) {
		t.Errorf("removed %v (%v), stored versions %v, want v1 removed", removed, err, c.stored)
	}
	if removed, err := PruneStoredVersions(t.Context(), config, proof); err != nil || removed != nil {
		t.Errorf("removed %v the second time (%v), want nothing", removed, err)
	}
	c.generation, c.stored = 4, []string{"v1", "v2"}
	if removed, err := PruneStoredVersions(t.Context(), config, proof); !errors.Is(err, ErrCRDChanged) ||
		!slices.Equal(c.stored, []string{"v1", "v2"}) {
		t.Errorf("removed %v of a CRD that changed (%v), want ErrCRDChanged", removed, err)
	}
	if _, err := PruneStoredVersions(t.Context(), config, Proof{}); !errors.Is(err, ErrNoProof) {
		t.Errorf("error %v with the zero value, want ErrNoProof", err)
	}
}

func TestOnlyASweepThatHasProvenEverythingMakesAProof(t *testing.T) {
	rejecting := func(name string, w http.ResponseWriter) bool {
		return name == "o0" && refuse(w, http.StatusUnprocessableEntity, "invalid")
	}
	sampled, otherVersion, unknownCRD := definedEpoch(), definedEpoch(), definedEpoch()
	sampled.Evidence, otherVersion.Hash = Sampled, "another"
	unknownCRD.CRDUID, unknownCRD.CRDGeneration = "", 0
	for name, test := range map[string]struct {
		epoch   Epoch
		options Options
		patch   func(string, http.ResponseWriter) bool
		proven  bool
	}{
		"everything is proven":                     {definedEpoch(), Options{}, nil, true},
		"an object could not be rewritten":         {definedEpoch(), Options{}, rejecting, false},
		"the evidence is too weak":                 {sampled, Options{MinEvidence: Observed}, nil, false},
		"a second pass makes up for weak evidence": {sampled, Options{}, nil, true},
		"a dry run": {definedEpoch(), Options{DryRun: true}, nil, false},
		"the servers write another version than the CRD's":   {otherVersion, Options{}, nil, false},
		"the agreement does not tell from which CRD it came": {unknownCRD, Options{}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := &definedCluster{scripted: &scripted{n: 3, resourceVersion: "1000", patch: test.patch}, generation: 3}
			s, _, runErr := sweepDefined(t, c, test.epoch, test.options)
			proof, err := s.Proof()
			if (err == nil) != test.proven || (proof.of != storedversions.Proof{}) != test.proven {
				t.Errorf("proof %+v (%v) after %v, want one: %v", proof, err, runErr, test.proven)
			}
		})
	}
}
