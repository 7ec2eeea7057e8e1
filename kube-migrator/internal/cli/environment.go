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
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/shell"
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
	name string
	connection
}

// connect returns a client for the records of the cluster that the flags name.
func (env *environment) connect() (*records.Client, error) {
	config, err := env.config()
	if err != nil {
		return nil, err
	}
	return env.connectTo(config)
}

// connectTo returns a client for the records of the cluster of a configuration.
func (env *environment) connectTo(config *rest.Config) (*records.Client, error) {
	client, err := apiserver.NewClient(config)
	if err != nil {
		return nil, err
	}
	return &records.Client{REST: client, Host: config.Host, Program: env.name, Notes: env.Err}, nil
}

// at returns the environment of a command for one member of a fleet.
func (env *environment) at(m *clusters.Cluster, out, errs io.Writer) *environment {
	own := *env
	own.Streams = Streams{In: strings.NewReader(""), Out: out, Err: errs}
	own.outTerminal, own.errTerminal = nil, nil
	own.member, own.name = m, env.name+m.Flags()
	return &own
}

// aimed returns a suggested command for the cluster of this environment.
func (env *environment) aimed(command string) string {
	if env.member == nil || command == "" {
		return command
	}
	return env.member.Aim(strings.TrimSuffix(env.name, env.member.Flags()), command)
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

// connection is how a command reaches its cluster.
type connection struct {
	kubeconfig *clientcmd.ClientConfigLoadingRules
	overrides  *clientcmd.ConfigOverrides
	// member is the cluster of a fleet that the command is about; nil for the cluster that the flags name.
	member *clusters.Cluster
}

// addClusterFlags adds kubectl's flags for the cluster and the user.
func (c *connection) addClusterFlags(flags *pflag.FlagSet) {
	c.kubeconfig = clientcmd.NewDefaultClientConfigLoadingRules()
	c.overrides = &clientcmd.ConfigOverrides{}
	flags.StringVar(&c.kubeconfig.ExplicitPath, clientcmd.RecommendedConfigPathFlag, "",
		"Path to the kubeconfig file (default: $KUBECONFIG, else ~/.kube/config, else the ServiceAccount of the pod)")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{} // every command is about the whole cluster
	clientcmd.BindOverrideFlags(c.overrides, flags, names)
}

// config returns the configuration for the cluster that the flags, the kubeconfig or the pod's ServiceAccount name. All
// its requests wait as long as the API server asks for that.
func (c *connection) config() (*rest.Config, error) {
	config, err := c.impatientConfig()
	if err != nil {
		return nil, err
	}
	return migrate.WithSharedBackoff(config), nil
}

// impatientConfig is config for requests that must not wait because of other requests.
func (c *connection) impatientConfig() (*rest.Config, error) {
	if c.member != nil {
		return c.member.Config(c.overrides)
	}
	if path := c.kubeconfig.ExplicitPath; path != "" {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return nil, exit.Try(fmt.Errorf("kubeconfig %s does not exist", path), "kubectl config view")
		}
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.kubeconfig, c.overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, exit.Try(fmt.Errorf("read kubeconfig: %w", exit.OneLine(err)), "kubectl config view")
	}
	return config, nil
}

// clusterFlagsGiven reports whether the user named a cluster on the command line or in the environment.
func (c *connection) clusterFlagsGiven() bool {
	return c.kubeconfig.ExplicitPath != "" || os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" ||
		c.overrides.CurrentContext != "" || c.overrides.ClusterInfo.Server != ""
}

// fleetOnly are flags that a command for one cluster of a fleet does not have.
var fleetOnly = []string{clusters.Contexts, clusters.KubeconfigDir, clusters.WaveSize,
	clientcmd.RecommendedConfigPathFlag}

// again returns the command line of a command with other arguments. It keeps the flags except those that select
// resources and those that contain secrets, because reports end up in logs.
func again(env *environment, command *cobra.Command, arguments ...string) string {
	words := []string{env.name, command.Name()}
	for _, a := range arguments {
		words = append(words, shell.Quote(a))
	}
	command.Flags().Visit(func(f *pflag.Flag) {
		given := func(argument string) bool { return strings.HasPrefix(argument, "--"+f.Name) }
		switch list, isList := f.Value.(pflag.SliceValue); {
		case env.member != nil && slices.Contains(fleetOnly, f.Name): // the name of the program names the cluster
		case slices.Contains([]string{"all", "include", "exclude", "output"}, f.Name),
			slices.ContainsFunc(arguments, given), f.Name == "resume":
		case f.Name == clientcmd.FlagBearerToken || f.Name == clientcmd.FlagPassword:
			words = append(words, "--"+f.Name+`="$`+strings.ToUpper(f.Name)+`"`)
		case isList:
			for _, element := range list.GetSlice() {
				words = append(words, shell.Quote("--"+f.Name+"="+element))
			}
		default:
			words = append(words, shell.Quote("--"+f.Name+"="+f.Value.String()))
		}
	})
	return strings.Join(words, " ")
}

// clusterID returns the UID of the namespace kube-system: all API servers of a cluster return the same, and no other
// cluster has it.
func clusterID(ctx context.Context, client rest.Interface) (string, error) {
	var namespace metav1.PartialObjectMetadata
	err := apiserver.Send(ctx, client.Get().AbsPath("/api/v1/namespaces/kube-system").
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"), &namespace)
	return string(namespace.UID), err
}
