// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
)

// reason is an error whose text is the same as long as the situation is the same, and contains nothing of a cluster.
// So it may become a condition of a Cluster. cause is for the log.
type reason struct {
	text  string
	cause error
}

func (r *reason) Error() string {
	if r.cause == nil {
		return r.text
	}
	return r.text + ": " + r.cause.Error()
}

func (r *reason) Unwrap() error { return r.cause }

// workload returns the configuration for the cluster of a Cluster, from the Secret in which Cluster API keeps its
// kubeconfig. Its errors are *reason.
func workload(ctx context.Context, management rest.Interface, namespace, name string) (*rest.Config, error) {
	path, err := apipath.Object(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, namespace,
		name+"-kubeconfig")
	if err != nil {
		return nil, &reason{"the name of the Cluster or of its namespace is invalid", err}
	}
	var secret corev1.Secret
	err = apiserver.Send(ctx, management.Get().AbsPath(path), &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, &reason{"the Secret with the kubeconfig of the Cluster does not exist", err}
	case apierrors.IsForbidden(err):
		return nil, &reason{"the gate may not read the Secret with the kubeconfig of the Cluster", err}
	case err != nil:
		return nil, &reason{"the Secret with the kubeconfig of the Cluster could not be read", err}
	}
	config, err := parse(secret.Data["value"])
	if err != nil {
		return nil, &reason{"the kubeconfig of the Cluster cannot be used", err}
	}
	return config, nil
}

// parse returns the configuration for the current context of a kubeconfig. Many users may write Secrets in their
// namespace, so what a kubeconfig says happens with their permissions only: it must contain everything itself. A plugin
// would run in this process's container, and a file, such as a token, would be sent to a server of their choice.
func parse(data []byte) (*rest.Config, error) {
	if len(data) == 0 {
		return nil, errors.New("the Secret has no key named value")
	}
	raw, err := clientcmd.Load(data)
	if err != nil {
		return nil, errors.New("it is not a kubeconfig") // the error of the parser quotes the text, with its secrets
	}
	used := raw.Contexts[raw.CurrentContext]
	if used == nil {
		return nil, errors.New("it has no current context")
	}
	cluster, user := raw.Clusters[used.Cluster], raw.AuthInfos[used.AuthInfo]
	if cluster == nil || user == nil {
		return nil, errors.New("its current context has no cluster or no user")
	}
	if why := outside(cluster, user); why != "" {
		return nil, fmt.Errorf("it %s", why)
	}
	if !strings.HasPrefix(cluster.Server, "https://") {
		return nil, errors.New("its server has no https address")
	}
	config, err := clientcmd.NewDefaultClientConfig(*raw, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, errors.New("its current context is incomplete")
	}
	return config, nil
}

// outside says what a kubeconfig does not contain itself, or returns "".
func outside(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) string {
	switch {
	case user.Exec != nil || user.AuthProvider != nil:
		return "runs a plugin to obtain credentials"
	case user.TokenFile != "" || user.ClientCertificate != "" || user.ClientKey != "":
		return "names a file with credentials"
	case cluster.CertificateAuthority != "":
		return "names a file with certificates"
	}
	return ""
}
