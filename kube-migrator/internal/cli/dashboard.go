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

func newDashboardCommand(env *environment) *cobra.Command {
	port, about := 0, records.Scope{}
	command := &cobra.Command{
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
			about.Names = args
			if err := about.Check(command); err != nil {
				return err
			}
			return env.dashboard(command, about, port)
		},
	}
	about.Add(command.Flags())
	arg.Number(command.Flags(), &port, "port", 0, arg.Within[int]{Most: 65535, Unit: "as a port"},
		"Port of 127.0.0.1; 0 for any that is free")
	return command
}

func (env *environment) dashboard(command *cobra.Command, about records.Scope, port int) error {
	ctx, stop := signal.NotifyContext(command.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	q, err := env.connect()
	if err != nil {
		return err
	}
	o := &observer{env: env, Client: q, command: command, about: about}
	var changes []page.Change
	d, err := dashboard.Listen(ctx, port, dashboard.Options{
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
		return exit.Try(err, env.name+" dashboard")
	}
	fmt.Fprintln(env.Err, "Open this page in a browser on this machine; Ctrl-C ends it:")
	fmt.Fprintln(env.Out, d.URL())
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
