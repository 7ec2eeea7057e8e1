// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig returns the path of an administrator's kubeconfig for the first server.
func (c *Cluster) Kubeconfig() (string, error) { return c.Servers[0].Kubeconfig() }

// KubeconfigFor writes a kubeconfig for an address of this cluster and one of its users, and returns its path.
func (c *Cluster) KubeconfigFor(url, user string) (string, error) {
	token, ok := c.tokens[user]
	if !ok {
		return "", fmt.Errorf("write kubeconfig: the cluster has no user %q", user)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["testbed"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: c.ca.pem}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["testbed"] = &clientcmdapi.Context{Cluster: "testbed", AuthInfo: user}
	config.CurrentContext = "testbed"
	name := strings.NewReplacer("https://", "", ":", "-", "/", "-").Replace(url)
	path := filepath.Join(c.dir, "kubeconfig-"+name+"-"+user)
	// Tests that share a cluster ask for the same file while commands of others read it, so it is never seen half written.
	data, err := clientcmd.Write(*config)
	if err == nil {
		err = replaceFile(path, data)
	}
	if err != nil {
		return "", fmt.Errorf("write kubeconfig: %w", err)
	}
	return path, nil
}

// replaceFile writes a file of this user's that others may be reading: they see the old content or the new one.
func replaceFile(path string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}
