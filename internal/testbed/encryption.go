// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
)

// encryptionFile holds the encryption configuration, in the cluster's folder.
const encryptionFile = "encryption.yaml"

// EncryptionConfig returns a configuration for Options.EncryptionConfig that encrypts resources with AES-CBC: writes
// use the first key, reads try all, and what is not encrypted can be read. A key follows from its name.
func EncryptionConfig(resources []string, keyNames ...string) string {
	type key struct {
		Name   string `json:"name"`
		Secret string `json:"secret"`
	}
	var keys []key
	for _, name := range keyNames {
		secret := sha256.Sum256([]byte(name))
		keys = append(keys, key{Name: name, Secret: base64.StdEncoding.EncodeToString(secret[:])})
	}
	providers := []any{map[string]any{"identity": struct{}{}}}
	if len(keys) > 0 {
		providers = append([]any{map[string]any{"aescbc": map[string]any{"keys": keys}}}, providers...)
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
		"resources": []any{map[string]any{"resources": resources, "providers": providers}},
	})
	if err != nil {
		panic(err) // strings only
	}
	return string(raw)
}

// SetEncryptionConfig replaces the encryption configuration. Servers follow when they are restarted. Only for clusters
// that were started with one.
func (c *Cluster) SetEncryptionConfig(config string) error {
	if c.options.EncryptionConfig == "" {
		return errors.New("set encryption configuration: the cluster was started without one")
	}
	return os.WriteFile(filepath.Join(c.dir, encryptionFile), []byte(config), 0o600)
}
