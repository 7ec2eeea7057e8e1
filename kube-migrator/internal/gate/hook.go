// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// The hook, as Cluster API's Runtime SDK names it:
// https://cluster-api.sigs.k8s.io/tasks/experimental-features/runtime-sdk/implement-lifecycle-hooks
const (
	apiVersion = "hooks.runtime.cluster.x-k8s.io/v1alpha1"
	hook       = "BeforeClusterUpgrade"
	// handler is the name that discovery gives to the hook's handler. It is the last segment of its path.
	handler = "kube-migrator"

	// DiscoveryPath and HookPath are where the two are served. Every other path is not found.
	DiscoveryPath = "/" + apiVersion + "/discovery"
	HookPath      = "/" + apiVersion + "/beforeclusterupgrade/" + handler

	success = "Success"
	failure = "Failure"
)

// typeMeta is the type of a document.
type typeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// discovered is a DiscoveryResponse.
type discovered struct {
	typeMeta
	Status   string           `json:"status"`
	Handlers []servedHandlers `json:"handlers"`
}

// servedHandlers is an ExtensionHandler.
type servedHandlers struct {
	Name        string `json:"name"`
	RequestHook struct {
		APIVersion string `json:"apiVersion"`
		Hook       string `json:"hook"`
	} `json:"requestHook"`
	TimeoutSeconds int32  `json:"timeoutSeconds"`
	FailurePolicy  string `json:"failurePolicy"`
}

// discovery is the answer to every DiscoveryRequest.
func discovery() discovered {
	only := servedHandlers{Name: handler, TimeoutSeconds: int32(hookTimeout.Seconds()), FailurePolicy: "Fail"}
	only.RequestHook.APIVersion, only.RequestHook.Hook = apiVersion, hook
	return discovered{typeMeta{apiVersion, "DiscoveryResponse"}, success, []servedHandlers{only}}
}

// question is the part of a BeforeClusterUpgradeRequest that the gate reads.
type question struct {
	typeMeta
	Cluster struct {
		Metadata struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
	} `json:"cluster"`
	// ToKubernetesVersion is the release at the end of the upgrade, which may take several steps.
	ToKubernetesVersion string `json:"toKubernetesVersion"`
}

// answer is a BeforeClusterUpgradeResponse.
type answer struct {
	typeMeta
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
	// RetryAfterSeconds keeps the upgrade from starting unless it is 0.
	RetryAfterSeconds int32 `json:"retryAfterSeconds"`
}

func newAnswer(status, message string, retryAfterSeconds int32) answer {
	return answer{typeMeta{apiVersion, hook + "Response"}, status, message, retryAfterSeconds}
}

// read reads a request. Its errors contain nothing of the request, because they become conditions of a Cluster.
func read(w http.ResponseWriter, r *http.Request) (question, error) {
	var q question
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return q, fmt.Errorf("the request has more than %d bytes", tooLarge.Limit)
	} else if err != nil {
		return q, errors.New("the request did not arrive completely")
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return q, errors.New("the request is not a JSON document of the hook")
	}
	switch {
	case q.typeMeta != typeMeta{apiVersion, hook + "Request"}:
		return q, fmt.Errorf("the request is not a %sRequest of %s", hook, apiVersion)
	case q.Cluster.Metadata.Namespace == "" || q.Cluster.Metadata.Name == "":
		return q, errors.New("the request does not name a Cluster and its namespace")
	case q.ToKubernetesVersion == "":
		return q, errors.New("the request does not name the target release")
	}
	return q, nil
}
