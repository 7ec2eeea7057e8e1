// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"

	"k8s.io/client-go/rest"
)

// ServerName is a name that the certificate of every kube-apiserver contains, whatever its address.
const ServerName = "kubernetes.default.svc"

// Unverified returns why the certificates of the cluster's API servers cannot be verified with config, or "" if they
// can. Without that, an API server at an address of its own cannot be told from an impostor.
func Unverified(config *rest.Config) string {
	base, _, err := rest.DefaultServerUrlFor(config)
	switch {
	case err != nil:
		return fmt.Sprintf("read address in kubeconfig: %v", err)
	case base.Scheme != "https":
		return "the kubeconfig's address is not https"
	case config.Transport != nil:
		return "the client's transport was made by hand"
	case config.Insecure:
		return "the kubeconfig skips the verification of certificates"
	case len(config.CAData) == 0 && config.CAFile == "":
		return "the kubeconfig names no certificate authority of the cluster"
	}
	return ""
}

// NewClientAt is NewClient for the API server at host:port. It sends nothing, credentials least of all, before the server
// has shown a certificate for ServerName that the authority in config signed. It follows no redirect: the transport
// would send the credentials to any address that the redirect names.
func NewClientAt(config *rest.Config, hostPort string) (rest.Interface, error) {
	if why := Unverified(config); why != "" {
		return nil, fmt.Errorf("configure client of %s: %s", hostPort, why)
	}
	c := rest.CopyConfig(config)
	c.ServerName = ServerName
	return newClient(c, hostPort)
}
