// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"encoding/json"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// discoveryPath is the legacy discovery document of a group-version; the aggregated document has no hashes.
func discoveryPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}

// parseAnswer finds the resource in the discovery document that server answered with, or in the error.
// A server that does not know the group-version has answered, too: it does not serve it.
func parseAnswer(server, resource string, body []byte, err error) (answer, error) {
	if statusOf(err) == http.StatusNotFound {
		return answer{server: server}, nil
	}
	if err != nil {
		return answer{}, err
	}
	var doc struct {
		Resources []struct {
			Name string `json:"name"`
			Hash string `json:"storageVersionHash"`
		} `json:"resources"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return answer{}, fmt.Errorf("decode discovery document: %w", err)
	}
	for _, r := range doc.Resources {
		if r.Name == resource {
			return answer{server: server, served: true, hash: r.Hash}, nil
		}
	}
	return answer{server: server}, nil
}
