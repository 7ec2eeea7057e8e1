// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Kind identifies a resource as API servers and etcd do.
type Kind struct {
	// Group is "" for the core group. Version is any that is served in the same form by all servers.
	Group, Version, Kind, Plural string
	// Prefix is where etcd has its objects, such as "/registry/deviceclasses/".
	Prefix string
}

// PolicyBindings returns the kind MutatingAdmissionPolicyBinding, which kube-apiserver 1.36 stores as v1beta1 and 1.37
// as v1, without a flag.
func PolicyBindings() Kind {
	return Kind{
		Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicyBinding",
		Plural: "mutatingadmissionpolicybindings", Prefix: "/registry/mutatingadmissionpolicybindings/",
	}
}

// Name returns the name of the resource's StorageState.
func (k Kind) Name() string {
	if k.Group == "" {
		return k.Plural
	}
	return k.Plural + "." + k.Group
}

// Hash is the storageVersionHash of the kind in an apiVersion.
func (k Kind) Hash(apiVersion string) string {
	sum := sha256.Sum256([]byte(apiVersion + "/" + k.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

// Truth contains, for one moment, the versions in which etcd stores a resource, and what is recorded about it.
type Truth struct {
	// Revision is etcd's. Everything else was read at it.
	Revision int64
	// Held counts the objects by apiVersion.
	Held map[string]int
	// Claimed are the persistedStorageVersionHashes, or nil if nothing is recorded.
	Claimed []string
	// Seen are the hashes that API servers write according to the StorageState.
	Seen []string
	// Current is the currentStorageVersionHash.
	Current string
	// Migrated tells whether the condition of that name is True.
	Migrated bool
	// Heartbeat is when the recorded look began, in whole seconds: the record is complete up to then.
	Heartbeat time.Time
	// Generation and UID are those of the CustomResourceDefinition at the recorded look, or zero if there is none.
	Generation int64
	UID        types.UID
	// Stored are the apiVersions in status.storedVersions of the CustomResourceDefinition, or nil if there is none.
	Stored []string

	kind Kind
}

// unknownHash is the element of a StorageState for versions that cannot be determined.
const unknownHash = "Unknown"

// Uncovered returns the apiVersions of objects that neither the record nor the given hashes cover, sorted (I1).
func (t Truth) Uncovered(shown ...string) []string {
	if slices.Contains(t.Claimed, unknownHash) {
		return nil
	}
	return t.outside(slices.Concat(t.Claimed, shown))
}

// outside returns the apiVersions of objects whose hash is none of the given ones, sorted. Encrypted objects cannot be
// judged.
func (t Truth) outside(hashes []string) (versions []string) {
	for _, version := range slices.Sorted(maps.Keys(t.Held)) {
		if !strings.HasPrefix(version, "enc:") && !slices.Contains(hashes, t.kind.Hash(version)) {
			versions = append(versions, version)
		}
	}
	return versions
}

// Violations says in which ways the records are wrong. The given hashes are those that something may have written of
// which the trigger cannot know yet: they excuse an object, unless the StorageState itself says that API servers write
// them. Then they have been seen, and a version that was seen is recorded before anything else is done about it.
//
//   - I1: everything that etcd holds is claimed or excused, or Unknown is claimed. What API servers are recorded as
//     writing is claimed.
//   - I2: where Migrated is True, the current version is the only one claimed, and etcd holds no other that is not
//     excused.
//   - I2: status.storedVersions names everything that etcd holds, without an excuse: the API server adds a storage
//     version in the same write that makes it one.
func (t Truth) Violations(unseen ...string) (violations []string) {
	excused := slices.DeleteFunc(slices.Clone(unseen), func(hash string) bool { return slices.Contains(t.Seen, hash) })
	violation := func(format string, arguments ...any) {
		violations = append(violations, fmt.Sprintf(format, arguments...))
	}
	for _, version := range t.Uncovered(excused...) {
		violation("I1 violated: etcd holds %d objects as %s (hash %s), persistedStorageVersionHashes are %v, excused are %v",
			t.Held[version], version, t.kind.Hash(version), t.Claimed, excused)
	}
	for _, hash := range t.Seen {
		if !slices.Contains(t.Claimed, hash) && !slices.Contains(t.Claimed, unknownHash) {
			violation("I1 violated: API servers are recorded as writing %s, persistedStorageVersionHashes are %v", hash,
				t.Claimed)
		}
	}
	if t.Migrated {
		if !slices.Equal(t.Claimed, []string{t.Current}) {
			violation("I2 violated: Migrated is True, and persistedStorageVersionHashes are %v, "+
				"currentStorageVersionHash %s", t.Claimed, t.Current)
		}
		for _, version := range t.outside(append(excused, t.Current)) {
			violation("I2 violated: Migrated is True, and etcd holds %d objects as %s, currentStorageVersionHash is "+
				"%s, excused are %v",
				t.Held[version], version, t.Current, excused)
		}
	}
	if t.Stored != nil {
		for _, version := range slices.Sorted(maps.Keys(t.Held)) {
			if !strings.HasPrefix(version, "enc:") && !slices.Contains(t.Stored, version) {
				violation("I2 violated: etcd holds %d objects as %s, status.storedVersions names %v",
					t.Held[version], version, t.Stored)
			}
		}
	}
	return violations
}

// Truth reads everything past the API servers, at one revision of etcd, so that it compares values of one moment,
// however long the reading takes.
func (c *Cluster) Truth(ctx context.Context, k Kind) (Truth, error) {
	t := NewTruth(k)
	state, err := c.Etcd.client.Get(ctx, "/registry/migration.k8s.io/storagestates/"+k.Name())
	if err != nil {
		return t, fmt.Errorf("read StorageState %s: %w", k.Name(), err)
	}
	t.Revision = state.Header.Revision
	for _, kv := range state.Kvs {
		if err := t.ReadState(kv.Value); err != nil {
			return t, err
		}
	}
	found, err := c.Etcd.client.Get(ctx, crdsPrefix+k.Name(), clientv3.WithRev(t.Revision))
	if err != nil {
		return t, fmt.Errorf("read CustomResourceDefinition %s: %w", k.Name(), err)
	}
	for _, kv := range found.Kvs {
		if err := t.ReadCRD(kv.Value); err != nil {
			return t, err
		}
	}
	_, err = c.eachRaw(ctx, k.Prefix, t.Revision,
		func(_ string, value []byte, _ int64) { t.Held[storedVersion(value)]++ })
	return t, err
}

// NewTruth returns the truth about a kind of which etcd holds nothing.
func NewTruth(k Kind) Truth { return Truth{Held: map[string]int{}, kind: k} }

// ReadState parses the record in the raw value of a StorageState.
func (t *Truth) ReadState(raw []byte) error {
	var s storageState
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("decode StorageState %s: %w", t.kind.Name(), err)
	}
	t.Claimed, t.Seen, t.Current = s.Status.Persisted, s.seen(), s.Status.Current
	t.Migrated, t.Heartbeat = s.migrated(), s.Status.Heartbeat
	t.Generation, t.UID = s.Status.CRD.Generation, s.Status.CRD.UID
	return nil
}

// ReadCRD parses status.storedVersions in the raw value of a CustomResourceDefinition.
func (t *Truth) ReadCRD(raw []byte) error {
	var d crd
	if err := json.Unmarshal(raw, &d); err != nil {
		return fmt.Errorf("decode CustomResourceDefinition %s: %w", t.kind.Name(), err)
	}
	t.Stored = []string{}
	for _, version := range d.Status.StoredVersions {
		t.Stored = append(t.Stored, d.Spec.Group+"/"+version)
	}
	return nil
}

// storageState is what of a StorageState the invariants speak about.
type storageState struct {
	Status struct {
		Persisted []string  `json:"persistedStorageVersionHashes"`
		Current   string    `json:"currentStorageVersionHash"`
		Heartbeat time.Time `json:"lastHeartbeatTime"`
		Servers   []struct {
			Hash string `json:"encodingVersionHash"`
		} `json:"serverStorageVersions"`
		CRD struct {
			UID        types.UID `json:"uid"`
			Generation int64     `json:"generation"`
		} `json:"definition"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// seen returns the hashes that are recorded for servers, each once. A server that never answered has none.
func (s *storageState) seen() (hashes []string) {
	for _, server := range s.Status.Servers {
		if server.Hash != "" && !slices.Contains(hashes, server.Hash) {
			hashes = append(hashes, server.Hash)
		}
	}
	return hashes
}

func (s *storageState) migrated() bool {
	for _, c := range s.Status.Conditions {
		if c.Type == "Migrated" {
			return c.Status == "True"
		}
	}
	return false
}

// Shows asks the server itself in which version it encodes a resource. It returns "" if the server does not serve it.
func (s *Server) Shows(ctx context.Context, k Kind) (hash string, err error) {
	root := "/api"
	if k.Group != "" {
		root = path.Join("/apis", k.Group)
	}
	status, answer, err := s.Do(ctx, http.MethodGet, path.Join(root, k.Version), nil)
	if err != nil {
		return "", err
	}
	if status == http.StatusNotFound {
		return "", nil
	}
	var document struct {
		Resources []struct {
			Name string `json:"name"`
			Hash string `json:"storageVersionHash"`
		} `json:"resources"`
	}
	if status != http.StatusOK {
		return "", fmt.Errorf("ask %s for discovery: %d", s.name(), status)
	}
	if err := json.Unmarshal(answer, &document); err != nil {
		return "", fmt.Errorf("decode discovery of %s: %w", s.name(), err)
	}
	for _, r := range document.Resources {
		if r.Name == k.Plural {
			return r.Hash, nil
		}
	}
	return "", nil
}

// storedStates returns what every StorageState claims that claims anything, by name, as of a revision.
func (c *Cluster) storedStates(ctx context.Context, revision int64) (map[string][]string, error) {
	const prefix = "/registry/migration.k8s.io/storagestates/"
	found, err := c.Etcd.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(revision))
	if err != nil {
		return nil, fmt.Errorf("read StorageStates: %w", err)
	}
	states := map[string][]string{}
	for _, kv := range found.Kvs {
		if bytes.HasPrefix(kv.Value, encryptedPrefix) {
			continue
		}
		name := path.Base(string(kv.Key))
		var s storageState
		if err := json.Unmarshal(kv.Value, &s); err != nil {
			return nil, fmt.Errorf("decode StorageState %s: %w", name, err)
		}
		if len(s.Status.Persisted) > 0 {
			states[name] = s.Status.Persisted
		}
	}
	return states, nil
}

// Value is the information in one raw value of etcd about an object.
type Value struct {
	Object
	// Version is the apiVersion that it is stored in, in the words of Cluster.StoredVersions.
	Version string
	// Annotations are metadata.annotations; nil for an opaque value.
	Annotations map[string]string
}

// ReadValue decodes a raw value of etcd.
func ReadValue(raw []byte) (Value, error) {
	object, err := readObject(raw)
	v := Value{Object: object, Version: storedVersion(raw)}
	if err != nil || object.Opaque {
		return v, err
	}
	var partial metav1.PartialObjectMetadata
	if bytes.HasPrefix(raw, protobufMagic) {
		var envelope runtime.Unknown
		if err := envelope.Unmarshal(raw[len(protobufMagic):]); err != nil {
			return v, err
		}
		err = partial.Unmarshal(envelope.Raw)
	} else {
		err = json.Unmarshal(raw, &partial)
	}
	v.Annotations = partial.Annotations
	return v, err
}

// Differences names the parts of an object that differ after it was stored again: "uid", "generation", "managedFields",
// "content". A sweep must not cause any of them (I3). Opaque values are not compared.
func (o Object) Differences(now Object) []string { return o.changes(now) }
