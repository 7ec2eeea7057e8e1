// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command generic is an aggregated API server on k8s.io/apiserver, for tests: it serves the same resource as the command
// plain, stores it under the same keys of etcd, and publishes in which version with package genericserver. It knows no
// users: every client that reaches it may do everything.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"

	"github.com/kube-migrator/kube-migrator/storageversion"
	"github.com/kube-migrator/kube-migrator/storageversion/genericserver"
)

// requestTimeout bounds a request, and so how long the server takes to end.
const requestTimeout = 10 * time.Second

type flags struct {
	listen, certificate, key, etcd, kubeconfig string
	id, encoding                               string
	publish                                    bool
	lease, writeDelay                          time.Duration
}

func main() {
	var f flags
	flag.StringVar(&f.listen, "listen", "", "host:port to serve at")
	flag.StringVar(&f.certificate, "certificate", "", "file with the serving certificate")
	flag.StringVar(&f.key, "key", "", "file with its key")
	flag.StringVar(&f.etcd, "etcd", "", "URL of etcd")
	flag.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig for the cluster")
	flag.StringVar(&f.id, "id", "", "name of this replica, which it leaves in what it stores")
	flag.StringVar(&f.encoding, "encoding", "v1", "version to store: v1 or v2")
	flag.BoolVar(&f.publish, "publish", true, "publish what is stored, and refuse writes until that is done")
	flag.DurationVar(&f.lease, "lease-duration", 6*time.Second, "duration of the identity Lease")
	flag.DurationVar(&f.writeDelay, "write-delay", 0, "how long a write waits before it is stored")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := f.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // the process ends
	}
}

func (f *flags) run(ctx context.Context) error {
	config, err := f.configure()
	if err != nil {
		return err
	}
	install := (*genericapiserver.GenericAPIServer).InstallAPIGroups
	if f.publish {
		publication, err := genericserver.AddTo(config, storageversion.Options{
			Component: "generic", ID: f.id, LeaseDuration: f.lease,
		})
		if err != nil {
			return err
		}
		install = publication.InstallAPIGroups
	}
	server, err := config.Complete().New("generic", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return err
	}
	gears, err := groupInfo(config.RESTOptionsGetter)
	if err != nil {
		return err
	}
	if err := install(server, gears); err != nil {
		return err
	}
	return server.PrepareRun().RunWithContext(ctx)
}

// configure returns the configuration of a server without authentication, authorization and admission.
func (f *flags) configure() (*genericapiserver.RecommendedConfig, error) {
	host, port, err := net.SplitHostPort(f.listen)
	if err != nil {
		return nil, err
	}
	o := genericoptions.NewRecommendedOptions("/registry", codecs.LegacyCodec(versions[f.encoding]))
	o.Authentication, o.Authorization, o.Admission, o.Audit = nil, nil, nil, nil
	o.Features.EnablePriorityAndFairness = false
	o.CoreAPI.CoreAPIKubeconfigPath = f.kubeconfig
	o.Etcd.StorageConfig.Transport.ServerList = []string{f.etcd}
	o.Etcd.StorageConfig.EncodeVersioner = versions[f.encoding]
	o.Etcd.StorageConfig.Transformer = signature{id: f.id, delay: f.writeDelay}
	o.Etcd.StorageConfig.CompactionInterval = 0 // the cluster's API server compacts
	o.SecureServing.BindAddress = net.ParseIP(host)
	if o.SecureServing.BindPort, err = strconv.Atoi(port); err != nil {
		return nil, err
	}
	o.SecureServing.ServerCert.CertKey.CertFile, o.SecureServing.ServerCert.CertKey.KeyFile = f.certificate, f.key
	config := genericapiserver.NewRecommendedConfig(codecs)
	config.RequestTimeout = requestTimeout
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	config.OpenAPIConfig, config.OpenAPIV3Config = openAPI()
	return config, o.ApplyTo(config)
}
