// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/internal/shell"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/gate"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// gateCommand is the command gate and its flags.
type gateCommand struct {
	*environment
	command *cobra.Command
	options gate.Options
}

func newGateCommand(env *environment) *cobra.Command {
	c := &gateCommand{environment: env}
	c.command = &cobra.Command{
		Use:   "gate",
		Short: "Keep Cluster API from upgrading clusters whose objects the new release cannot decode",
		Long: `Serve the lifecycle hook BeforeClusterUpgrade of Cluster API's Runtime SDK. Before Cluster API upgrades a Cluster of a
ClusterClass, it asks the gate, which answers from check --target-version in that cluster: if the upgrade is unsafe, or if that
cannot be determined, Cluster API has to ask again after --retry-after. The condition of the Cluster then says why.

The gate reads the kubeconfig of the cluster from the Secret NAME-kubeconfig next to the Cluster NAME. kubeconfigs that run a
plugin or name files are refused. The gate writes nothing and keeps no state, so that any number of replicas may run. The
cluster flags name the management cluster. On SIGTERM the gate ends within 2 seconds.

--client-ca restricts who may ask: with the flags --runtime-extension-client-cert-file and --runtime-extension-client-key-file,
Cluster API identifies itself with a certificate.`,
		Example: `  kube-migrator gate --cert-dir /tls
  kube-migrator gate --cert-dir /tls --client-ca /client-ca/ca.crt --retry-after 5m`,
		Args: arg.None,
		RunE: func(command *cobra.Command, _ []string) error {
			if c.options.CertDir == "" {
				return arg.Missing(command, "cert-dir")
			}
			return c.run(command.Context())
		},
	}
	flags := c.command.Flags()
	flags.StringVar(&c.options.Address, "bind-address", ":9443", "Where the hook is served")
	flags.StringVar(&c.options.CertDir, "cert-dir", "", "Folder with tls.crt and tls.key, reloaded when they change")
	flags.StringVar(&c.options.ClientCA, "client-ca", "",
		"File with the authority of the certificates of clients, reloaded when it changes (default: everyone may ask)")
	arg.Duration(flags, &c.options.RetryAfter, "retry-after", time.Minute, time.Second,
		"When Cluster API asks again about an upgrade that is not safe yet")
	return c.command
}

func (c *gateCommand) run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	q, err := c.connect()
	if err != nil {
		return err
	}
	c.options.Management, c.options.Logger = q.REST, slog.New(slog.NewTextHandler(c.Err, nil))
	c.options.Judge = c.opinion
	server, err := gate.New(ctx, c.options)
	switch {
	case errors.As(err, new(*net.OpError)):
		return exit.Usage(c.command, err) // the address cannot be listened on
	case err != nil:
		return exit.Try(err, "ls -l "+shell.Quote(c.options.CertDir))
	}
	c.options.Logger.Info("Serving the gate", "address", server.Addr().String())
	return server.Start(ctx)
}

// opinion is check --target-version in a cluster, as one sentence.
func (c *gateCommand) opinion(ctx context.Context, cluster *rest.Config, release string) (gate.Opinion, error) {
	target, err := targetRelease(c.name, release)
	if err != nil {
		return gate.Opinion{Message: exit.OneLine(err).Error()}, nil
	}
	q, err := c.connectTo(migrate.WithSharedBackoff(cluster))
	if err != nil {
		return gate.Opinion{}, err
	}
	q.Notes = io.Discard // the notes of check are for users who read its report
	g := gathering{Client: q, command: c.command, question: upgrade.Question{Now: time.Now(), Target: target}}
	report, err := g.judge(ctx)
	if err != nil {
		return gate.Opinion{}, err
	}
	return opinionOf(report), nil
}

// opinionOf names resources and no reasons: reasons contain ages, and the message has to stay the same.
func opinionOf(report upgrade.Report) gate.Opinion {
	var resources []string
	for _, f := range report.Findings {
		if f.Verdict == report.Verdict {
			resources = append(resources, f.Resource)
		}
	}
	can := "cannot decode everything that is stored in the cluster"
	switch report.Verdict {
	case upgrade.Safe:
		return gate.Opinion{Safe: true}
	case upgrade.Unsafe:
	case upgrade.Undetermined:
		can = "may be unable to decode what is stored in the cluster; that cannot be determined now"
	}
	release := strings.TrimPrefix(report.Target, "Kubernetes ")
	message := report.Target + " " + can
	if len(resources) > 0 {
		message += ": " + phrase.Few(resources)
	}
	return gate.Opinion{Message: message + ". In the cluster, this command says why: kube-migrator check --target-version " +
		release}
}
