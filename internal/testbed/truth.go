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

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Kind names a resource as API servers and etcd do.
type Kind struct {
	// Group is "" for the core group. Version is any that is served in the same form by all servers.
	Group, Version, Kind, Plural string
	// Prefix is where etcd has its objects, such as "/registry/deviceclasses/".
	Prefix string
}

// Name is that of the resource's StorageState.
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

// Truth is, as of one moment, what etcd holds of a resource beside what the StorageState of it claims.
type Truth struct {
	// Revision is etcd's.
	Revision int64
	// Held counts the objects by apiVersion.
	Held map[string]int
	// Claimed are the persistedStorageVersionHashes; nil where nothing is recorded.
	Claimed []string
	// Generation is that of the definition at the look that is recorded; 0 where there is none.
	Generation int64

	kind Kind
}

// unknownHash is what a StorageState claims where nobody can name the versions.
const unknownHash = "Unknown"

// Uncovered returns the apiVersions of objects that neither the claim nor the given hashes account for, sorted (I1).
func (t Truth) Uncovered(shown ...string) []string {
	if slices.Contains(t.Claimed, unknownHash) {
		return nil
	}
	var lies []string
	for _, version := range slices.Sorted(maps.Keys(t.Held)) {
		hash := t.kind.Hash(version)
		if !strings.HasPrefix(version, "enc:") && !slices.Contains(t.Claimed, hash) && !slices.Contains(shown, hash) {
			lies = append(lies, version)
		}
	}
	return lies
}

// Truth reads both past the API servers.
func (c *Cluster) Truth(ctx context.Context, k Kind) (Truth, error) {
	t := Truth{Held: map[string]int{}, kind: k}
	state, err := c.Etcd.client.Get(ctx, "/registry/migration.k8s.io/storagestates/"+k.Name())
	if err != nil {
		return t, fmt.Errorf("read StorageState %s: %w", k.Name(), err)
	}
	t.Revision = state.Header.Revision
	for _, kv := range state.Kvs {
		if t.Claimed, t.Generation, err = claimed(kv.Value); err != nil {
			return t, fmt.Errorf("decode StorageState %s: %w", k.Name(), err)
		}
	}
	_, err = c.eachRaw(ctx, k.Prefix, t.Revision, func(_ string, value []byte, _ int64) { t.Held[storedVersion(value)]++ })
	return t, err
}

// claimed returns what a stored StorageState claims, as of a generation of the definition.
func claimed(value []byte) (hashes []string, generation int64, err error) {
	var state struct {
		Status struct {
			Persisted  []string `json:"persistedStorageVersionHashes"`
			Definition struct {
				Generation int64 `json:"generation"`
			} `json:"definition"`
		} `json:"status"`
	}
	err = json.Unmarshal(value, &state)
	return state.Status.Persisted, state.Status.Definition.Generation, err
}

// Shows asks the server itself what it encodes a resource in; "" where it does not serve it.
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
		hashes, _, err := claimed(kv.Value)
		if err != nil {
			return nil, fmt.Errorf("decode StorageState %s: %w", name, err)
		}
		if len(hashes) > 0 {
			states[name] = hashes
		}
	}
	return states, nil
}
