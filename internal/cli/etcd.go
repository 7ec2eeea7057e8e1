// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kube-migrator/kube-migrator/internal/etcdaudit"
)

// etcdFlags say which etcd, or which snapshot of one, is to be read.
type etcdFlags struct {
	live     etcdaudit.Live
	snapshot string
	prefix   string
}

func (f *etcdFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.live.Endpoints, "etcd-endpoints", nil, "Read etcd at these URLs")
	flags.StringVar(&f.live.CAFile, "cacert", "", "CA certificate that etcd's must be signed by")
	flags.StringVar(&f.live.CertFile, "cert", "", "Client certificate for etcd")
	flags.StringVar(&f.live.KeyFile, "key", "", "Key of the client certificate")
	flags.StringVar(&f.snapshot, "snapshot", "", "Read this file, written by etcdctl snapshot save")
	flags.StringVar(&f.prefix, "prefix", etcdaudit.DefaultPrefix,
		"What keys begin with: the API server's --etcd-prefix")
}

// source says what is to be read; nil where no flag names anything.
func (f *etcdFlags) source(command *cobra.Command) (etcdaudit.Source, error) {
	for _, other := range []string{"etcd-endpoints", "cacert", "cert", "key"} {
		if err := exclusive(command, "snapshot", other); err != nil {
			return nil, err
		}
	}
	for _, flag := range []string{"cacert", "cert", "key", "prefix"} {
		if err := needs(command, flag, "etcd-endpoints", "snapshot"); err != nil {
			return nil, err
		}
	}
	switch {
	case f.snapshot != "":
		return etcdaudit.Snapshot{Path: f.snapshot}, nil
	case len(f.live.Endpoints) == 0:
		return nil, nil
	}
	return f.live, errors.Join(needs(command, "cert", "key"), needs(command, "key", "cert"))
}
