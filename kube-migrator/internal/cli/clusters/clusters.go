// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package clusters owns which clusters a command line about a fleet names, how each of them is reached, and how
// suggested commands name it.
//
// It sends no request to a cluster. A kubeconfig with many contexts is read once; each kubeconfig of a folder is read
// only when its cluster is asked, so that a broken file costs its own cluster alone.
package clusters

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kube-migrator/kube-migrator/internal/shell"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/fleet"
)

// The names of the flags.
const (
	Contexts      = "contexts"
	KubeconfigDir = "kubeconfig-dir"
	Parallel      = "parallel"
	Timeout       = "cluster-timeout"
	WaveSize      = "wave-size"
)

// The defaults of the flags.
const (
	DefaultParallel = 10
	DefaultTimeout  = time.Minute
)

// Flags are the flags that select many clusters.
type Flags struct {
	contexts []string
	dir      string
	// Options are --parallel and --cluster-timeout.
	Options fleet.Options
}

// Add adds the flags of a command that reads clusters.
func (f *Flags) Add(flags *pflag.FlagSet) {
	f.AddSelection(flags)
	arg.Number(flags, &f.Options.Parallel, Parallel, DefaultParallel, arg.Within[int]{Least: 1, Unit: "clusters"},
		"How many clusters are asked at the same time")
	arg.Duration(flags, &f.Options.Timeout, Timeout, DefaultTimeout, time.Nanosecond,
		"How long the answer of one of many clusters may take")
}

// AddSelection adds the flags that select clusters.
func (f *Flags) AddSelection(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.contexts, Contexts, nil,
		"All clusters whose contexts in the kubeconfig match a pattern, such as 'prod-*'")
	flags.StringVar(&f.dir, KubeconfigDir, "",
		"All clusters of the kubeconfigs in this folder; the current context of each file counts")
}

// Given reports whether the command line is about a fleet.
func (f *Flags) Given(command *cobra.Command) bool {
	return command.Flags().Changed(Contexts) || command.Flags().Changed(KubeconfigDir)
}

// Check returns an error for flags that contradict one another. others are flags of the command that are about a single
// cluster. It reads no file.
func (f *Flags) Check(command *cobra.Command, others ...string) error {
	if err := arg.Exclusive(command, Contexts, KubeconfigDir); err != nil {
		return err
	}
	single := append([]string{clientcmd.FlagContext, clientcmd.FlagClusterName, clientcmd.FlagAPIServer}, others...)
	for _, other := range single {
		for _, flag := range []string{Contexts, KubeconfigDir} {
			if err := arg.Exclusive(command, flag, other); err != nil {
				return err
			}
		}
	}
	if err := arg.Exclusive(command, KubeconfigDir, clientcmd.RecommendedConfigPathFlag); err != nil {
		return err
	}
	for _, flag := range []string{Parallel, Timeout, WaveSize} {
		if command.Flags().Lookup(flag) == nil {
			continue
		}
		if err := arg.Needs(command, flag, Contexts, KubeconfigDir); err != nil {
			return err
		}
	}
	if err := arg.Patterns(f.contexts); err != nil {
		return exit.Usage(command, err)
	}
	return nil
}

// Cluster is one cluster of a fleet.
type Cluster struct {
	// Name is the context, or the name of the kubeconfig's file. It is unique in a fleet.
	Name string
	// Context is a context of the kubeconfig; empty for the current one.
	Context string
	// File is the kubeconfig; empty unless a flag named it.
	File string
	// raw is a kubeconfig that several clusters share; nil if the cluster has the kubeconfig in File.
	raw *clientcmdapi.Config
}

// Select returns the clusters that the flags select: a list for each pattern, or one list for a folder. kubeconfig is
// that of the command line.
func (f *Flags) Select(command *cobra.Command, kubeconfig *clientcmd.ClientConfigLoadingRules) ([][]*Cluster, error) {
	if f.dir != "" {
		files, err := kubeconfigsIn(f.dir)
		if err != nil {
			return nil, exit.Try(fmt.Errorf("read kubeconfigs: %w", err), "ls "+shell.Quote(f.dir))
		}
		return [][]*Cluster{files}, nil
	}
	raw, err := kubeconfig.Load()
	if err != nil {
		return nil, exit.Try(fmt.Errorf("read kubeconfig: %w", exit.OneLine(err)), "kubectl config view")
	}
	selected, err := fleet.Select(slices.Collect(maps.Keys(raw.Contexts)), f.contexts)
	none := (*fleet.NoMatchError)(nil)
	switch {
	case errors.As(err, &none):
		return nil, exit.Try(fmt.Errorf("none of the %d contexts of the kubeconfig matches %q", none.Of, none.Pattern),
			"kubectl config get-contexts -o name")
	case err != nil:
		return nil, exit.Usage(command, err)
	case len(selected) == 0:
		return nil, arg.Invalid(command, Contexts, "", "patterns of contexts, such as 'prod-*'")
	}
	lists := make([][]*Cluster, len(selected))
	for i, names := range selected {
		for _, name := range names {
			lists[i] = append(lists[i], &Cluster{Name: name, Context: name, File: kubeconfig.ExplicitPath, raw: raw})
		}
	}
	return lists, nil
}

// kubeconfigsIn returns a cluster for each file in a folder, in the order of their names. Hidden files and folders are
// skipped: those of mounted Secrets are links to files in hidden folders.
func kubeconfigsIn(dir string) ([]*Cluster, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []*Cluster
	for _, entry := range entries {
		file := filepath.Join(dir, entry.Name())
		if info, err := os.Stat(file); strings.HasPrefix(entry.Name(), ".") || err == nil && info.IsDir() {
			continue
		}
		all = append(all, &Cluster{Name: entry.Name(), File: file})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s contains no file", dir)
	}
	return all, nil
}

// Config returns the configuration for the cluster. The flags for the user and for TLS apply to every cluster.
func (c *Cluster) Config(flags *clientcmd.ConfigOverrides) (*rest.Config, error) {
	raw := c.raw
	if raw == nil {
		var err error
		if raw, err = (&clientcmd.ClientConfigLoadingRules{ExplicitPath: c.File}).Load(); err != nil {
			return nil, exit.Try(fmt.Errorf("read kubeconfig: %w", exit.OneLine(err)), "kubectl config view"+c.Flags())
		}
	}
	overrides := *flags
	overrides.CurrentContext = cmp.Or(c.Context, raw.CurrentContext)
	if raw.Contexts[overrides.CurrentContext] == nil {
		return nil, exit.Try(fmt.Errorf("kubeconfig %s has no current context", c.File),
			"kubectl config get-contexts"+c.Flags())
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*raw, overrides.CurrentContext, &overrides,
		nil).ClientConfig()
	if err != nil {
		return nil, exit.Try(fmt.Errorf("read kubeconfig: %w", exit.OneLine(err)), "kubectl config view"+c.Flags())
	}
	if config.ExecProvider != nil {
		config.ExecProvider.StdinUnavailable = true
		config.ExecProvider.StdinUnavailableMessage = "many clusters are asked at the same time"
	}
	return config, nil
}

// Flags are the flags that name the cluster, each after a space.
func (c *Cluster) Flags() (flags string) {
	if c.File != "" {
		flags += " " + shell.Quote("--kubeconfig="+c.File)
	}
	if c.Context != "" {
		flags += " " + shell.Quote("--context="+c.Context)
	}
	return flags
}

// Aim adds the flags that name the cluster to a suggested command. program is the name of the program.
func (c *Cluster) Aim(program, command string) string {
	switch own, isOwn := strings.CutPrefix(command, program+" "); {
	case isOwn && !strings.HasPrefix(own, strings.TrimSpace(c.Flags())):
		return program + c.Flags() + " " + own
	case strings.HasPrefix(command, "kubectl ") && !isOwn && !strings.HasSuffix(command, c.Flags()):
		return command + c.Flags()
	}
	return command
}
