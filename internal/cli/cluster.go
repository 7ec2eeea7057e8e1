// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-migrator/kube-migrator/migrate"
)

// addClusterFlags adds kubectl's flags that say which cluster, as whom.
func (env *environment) addClusterFlags(flags *pflag.FlagSet) {
	env.kubeconfig = clientcmd.NewDefaultClientConfigLoadingRules()
	env.overrides = &clientcmd.ConfigOverrides{}
	flags.StringVar(&env.kubeconfig.ExplicitPath, clientcmd.RecommendedConfigPathFlag, "",
		"Path to the kubeconfig file (default: $KUBECONFIG, else ~/.kube/config, else the pod's ServiceAccount)")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{} // every command here is about the whole cluster
	clientcmd.BindOverrideFlags(env.overrides, flags, names)
}

// config returns the connection to the cluster that the flags, the kubeconfig or the pod's ServiceAccount name.
// Whatever is sent through it waits while the API server asks for that.
func (env *environment) config() (*rest.Config, error) {
	config, err := env.impatientConfig()
	if err != nil {
		return nil, err
	}
	return migrate.WithSharedBackoff(config), nil
}

// impatientConfig is config for what must not wait for others.
func (env *environment) impatientConfig() (*rest.Config, error) {
	if path := env.kubeconfig.ExplicitPath; path != "" {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return nil, hinted(fmt.Errorf("kubeconfig %s does not exist", path), "kubectl config view")
		}
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(env.kubeconfig, env.overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, hinted(fmt.Errorf("read kubeconfig: %w", oneLine(err)), "kubectl config view")
	}
	return config, nil
}

// clusterFlagsGiven reports whether the user named a cluster on the command line or in the environment.
func (env *environment) clusterFlagsGiven() bool {
	return env.kubeconfig.ExplicitPath != "" || os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" ||
		env.overrides.CurrentContext != "" || env.overrides.ClusterInfo.Server != ""
}
