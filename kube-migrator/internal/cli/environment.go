// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/clusters"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// Streams is where a command reads and writes.
type Streams struct {
	In  io.Reader
	Out io.Writer // data
	Err io.Writer // everything else
}

// environment contains what every command needs.
type environment struct {
	// Streams show everything that is written to Out and Err as plain text, because names and messages come from others
	// (package printable).
	Streams
	// outTerminal and errTerminal are Out and Err if these are terminals, otherwise nil. Colors and movements of the
	// cursor are written to them.
	outTerminal, errTerminal *os.File
	// name is the name by which the user called the program: "kube-migrator", or "kubectl migrator" as a plugin.
	name       string
	kubeconfig *clientcmd.ClientConfigLoadingRules
	overrides  *clientcmd.ConfigOverrides
	// member is the cluster of a fleet that the command is about; nil for the cluster that the flags name.
	member *clusters.Cluster
	// reached has the clusters that the members of a fleet migrate; nil without a fleet.
	reached *reachedClusters
}

// connect returns a client for the records of the cluster that the flags name.
func (env *environment) connect() (*records.Client, error) {
	config, err := env.config()
	if err != nil {
		return nil, err
	}
	client, err := apiserver.NewClient(config)
	if err != nil {
		return nil, err
	}
	return env.records(config, client), nil
}

// records returns the client for the records of a cluster.
func (env *environment) records(config *rest.Config, client rest.Interface) *records.Client {
	return &records.Client{REST: client, Host: config.Host, Program: env.name, Notes: env.Err}
}

// addClusterFlags adds kubectl's flags for the cluster and the user.
func (env *environment) addClusterFlags(flags *pflag.FlagSet) {
	env.kubeconfig = clientcmd.NewDefaultClientConfigLoadingRules()
	env.overrides = &clientcmd.ConfigOverrides{}
	flags.StringVar(&env.kubeconfig.ExplicitPath, clientcmd.RecommendedConfigPathFlag, "",
		"Path to the kubeconfig file (default: $KUBECONFIG, else ~/.kube/config, else the ServiceAccount of the pod)")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{} // every command is about the whole cluster
	clientcmd.BindOverrideFlags(env.overrides, flags, names)
}

// config returns the configuration for the cluster that the flags, the kubeconfig or the pod's ServiceAccount name. All
// its requests wait as long as the API server asks for that.
func (env *environment) config() (*rest.Config, error) {
	config, err := env.impatientConfig()
	if err != nil {
		return nil, err
	}
	return migrate.WithSharedBackoff(config), nil
}

// impatientConfig is config for requests that must not wait because of other requests.
func (env *environment) impatientConfig() (*rest.Config, error) {
	if env.member != nil {
		return env.member.Config(env.overrides)
	}
	if path := env.kubeconfig.ExplicitPath; path != "" {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return nil, exit.Try(fmt.Errorf("kubeconfig %s does not exist", path), "kubectl config view")
		}
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(env.kubeconfig, env.overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, exit.Try(fmt.Errorf("read kubeconfig: %w", exit.OneLine(err)), "kubectl config view")
	}
	return config, nil
}

// clusterFlagsGiven reports whether the user named a cluster on the command line or in the environment.
func (env *environment) clusterFlagsGiven() bool {
	return env.kubeconfig.ExplicitPath != "" || os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" ||
		env.overrides.CurrentContext != "" || env.overrides.ClusterInfo.Server != ""
}

// interruptible calls work. The first interrupt closes gentle, so that work can finish the requests in flight; the
// second one ends the context.
func (env *environment) interruptible(ctx context.Context, work func(ctx context.Context,
	gentle <-chan struct{}) error) error {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	gentle := make(chan struct{})
	var listener sync.WaitGroup
	listener.Go(func() {
		select {
		case <-signals:
			fmt.Fprintln(env.Err, "\nStopping after the requests in flight. Interrupt again to stop at once.")
			close(gentle)
		case <-ctx.Done():
			return
		}
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	})
	err := work(ctx, gentle)
	signal.Stop(signals)
	cancel()
	listener.Wait()
	return err
}
