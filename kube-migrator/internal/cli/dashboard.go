// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/dashboard"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/page"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
)

const dashboardEvery = 2 * time.Second // how often the dashboard reads the records while a browser shows it

// dashboardCommand is the command dashboard and its flags.
type dashboardCommand struct {
	*environment
	command *cobra.Command
	about   records.Scope
	port    int
}

func newDashboardCommand(env *environment) *cobra.Command {
	c := &dashboardCommand{environment: env}
	c.command = &cobra.Command{
		Use:   "dashboard [RESOURCE…]",
		Short: "Serve a page on this machine that shows the progress and whether an upgrade is safe, live",
		Long: `Serve a page on this machine that shows the progress of all resources, or of the named ones, whether an upgrade is safe
now, and what the API servers write. It prints the URL of the page, and ends when you press Ctrl-C.

The page has the verdicts of progress and check, and reads the cluster with your permissions. It changes nothing. Anyone on
this machine who knows the URL can read it: the URL contains a random token, and the server listens on the loopback
interface only. While no browser shows the page, dashboard sends no request to the cluster.

RESOURCE is what kubectl accepts, or the name of a StorageVersionMigration.

Exit codes: 0 ended by Ctrl-C; 1 error.`,
		Example: `  kube-migrator dashboard
  kube-migrator dashboard --port 8080 widgets.demo.example.com`,
		RunE: func(command *cobra.Command, args []string) error {
			c.about.Names = args
			if err := c.about.Check(command); err != nil {
				return err
			}
			return c.run(command.Context())
		},
	}
	c.about.Add(c.command.Flags())
	arg.Number(c.command.Flags(), &c.port, "port", 0, arg.Within[int]{Most: 65535, Unit: "as a port"},
		"Port of 127.0.0.1; 0 for any that is free")
	return c.command
}

func (c *dashboardCommand) run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	q, err := c.connect()
	if err != nil {
		return err
	}
	o := &observer{Client: q, command: c.command, about: c.about}
	var changes []page.Change
	d, err := dashboard.Listen(ctx, c.port, dashboard.Options{
		Every: dashboardEvery,
		Blank: page.OfProgress(render.Progress{Sentence: "The cluster was not read yet."}, q.Host, nil),
		Look: func(ctx context.Context) (page.View, page.Trouble) {
			progress, err := o.look(ctx)
			if err != nil {
				return page.View{}, troubleOf(err)
			}
			view := page.OfProgress(progress, q.Host, changes)
			if view.Agreement != nil {
				changes = view.Agreement.Changes
			}
			return view, page.Trouble{}
		},
	})
	if err != nil {
		return exit.Try(err, c.name+" dashboard")
	}
	fmt.Fprintln(c.Err, "Open this page in a browser on this machine; Ctrl-C ends it:")
	fmt.Fprintln(c.Out, d.URL())
	return d.Serve(ctx)
}

// troubleOf says an error to the users of a page.
func troubleOf(err error) page.Trouble {
	trouble := page.Trouble{Error: exit.OneLine(err).Error()}
	if hint := (*exit.Hint)(nil); errors.As(err, &hint) {
		trouble.Try = hint.Command()
	}
	return trouble
}
