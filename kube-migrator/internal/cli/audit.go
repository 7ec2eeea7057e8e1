// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/shell"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/clusters"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/page"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/etcdaudit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/fleet"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

// auditCommand is the command audit and its flags.
type auditCommand struct {
	*environment
	command *cobra.Command
	etcdFlags
	current string
	stale   bool
	// parallel is how many snapshots are read at the same time.
	parallel int
	output   render.Format
}

func newAuditCommand(env *environment) *cobra.Command {
	c := &auditCommand{environment: env}
	c.command = &cobra.Command{
		Use:   "audit",
		Short: "Read etcd, or a snapshot of it, and count what it holds",
		Long: `Read etcd, or a snapshot file of it, and count the objects by resource, stored version, encoding and encryption key.

Of each value, audit decodes only the beginning: apiVersion and kind, or the name of the key that encrypts it. It never
shows values. Only the newest revision of each key counts.

If the current versions are known, from the API server (--kubeconfig, --context, --server or $KUBECONFIG) or from
--current FILE, audit compares the stored versions with them; --stale lists the objects that differ. FILE is a map, in
YAML or JSON:

  widgets.demo.example.com: v2
  secrets: v1

-o html writes a page that needs nothing besides itself, for a change ticket; it counts objects and names none. -o prometheus
writes metrics in Prometheus' text format, for the textfile collector of its node exporter.

If FILE of --snapshot is a pattern, such as 'snapshots/*.db', audit reads all files that match, and shows one row for each.
They can only be compared with --current. The exit code is the first of 130, 1, 2 and 3 that any file has.

Exit codes: 0 no object is stale, or there was nothing to compare with; 1 error; 2 objects are stale; 3 no stale object
was found, but some objects are encrypted, cannot be decoded, or belong to a resource whose current version is unknown.`,
		Example: `  kube-migrator audit --etcd-endpoints https://127.0.0.1:2379 --cacert ca.crt --cert client.crt --key client.key
  kube-migrator audit --snapshot snapshot.db --current versions.yaml --stale
  kube-migrator audit --snapshot 'snapshots/*.db' --current versions.yaml
  kube-migrator audit --snapshot snapshot.db --context production -o html > audit.html`,
		Args: arg.None,
		RunE: func(command *cobra.Command, _ []string) error {
			source, err := c.source(command)
			if err != nil {
				return err
			}
			if source == nil {
				return arg.Missing(command, "etcd-endpoints", "snapshot")
			}
			if isPattern(c.snapshot) {
				return c.runAll(command.Context())
			}
			if command.Flags().Changed(clusters.Parallel) {
				return exit.Usage(command, fmt.Errorf("--%s needs a pattern as --snapshot", clusters.Parallel))
			}
			return c.run(command.Context(), source)
		},
	}
	flags := c.command.Flags()
	c.add(flags)
	flags.StringVar(&c.current, "current", "", "Read the current versions from this file instead of the API server")
	arg.Number(flags, &c.parallel, clusters.Parallel, 2, arg.Within[int]{Least: 1, Unit: "snapshots"},
		"How many snapshots are read at the same time")
	flags.BoolVar(&c.stale, "stale", false, "List the objects that are stored in another version than the current one")
	arg.Output(flags, &c.output, render.Table, render.Wide, render.JSON, render.YAML, render.Name, render.HTML,
		render.Prometheus)
	return c.command
}

func (c *auditCommand) run(ctx context.Context, source etcdaudit.Source) error {
	if c.stale && c.countsOnly() {
		return exit.Usage(c.command, fmt.Errorf("--stale and --output=%s cannot be used together", c.output))
	}
	current, err := c.currentVersions(ctx)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(c.Out)
	list := &render.StaleList{Out: out, Format: c.output}
	options := etcdaudit.Options{Prefix: c.prefix, Current: current}
	if c.stale {
		options.OnStale = list.Add
	}
	report, err := etcdaudit.Audit(ctx, source, options)
	if err != nil {
		return errors.Join(explainAudit(c.command, err), out.Flush())
	}
	switch {
	case c.stale:
		err = list.End(report)
	case c.output == render.HTML:
		err = page.Report(out, page.OfAudit(report))
	default:
		err = render.Audit(out, c.output, report)
	}
	if err = errors.Join(err, out.Flush()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	fmt.Fprint(c.Err, render.AuditSummary(report))
	if c.current != "" {
		warnOfMissing(c.Err, report, current)
	}
	return auditCode(report)
}

// countsOnly reports whether the output counts the objects of one audit, and can neither name them nor show several.
func (c *auditCommand) countsOnly() bool {
	return c.output == render.HTML || c.output == render.Prometheus
}

// isPattern reports whether a path is a pattern, and not the name of a file.
func isPattern(path string) bool {
	if !strings.ContainsAny(path, `*?[`) {
		return false
	}
	_, err := os.Lstat(path)
	return err != nil
}

// runAll audits all snapshots that match a pattern.
func (c *auditCommand) runAll(ctx context.Context) error {
	for _, name := range []string{clientcmd.RecommendedConfigPathFlag, clientcmd.FlagContext, clientcmd.FlagAPIServer} {
		if c.command.Flags().Changed(name) {
			return exit.Usage(c.command, fmt.Errorf("--%s names one cluster, but --snapshot is a pattern: use --current",
				name))
		}
	}
	if c.stale || c.countsOnly() {
		return exit.Usage(c.command, fmt.Errorf("--stale, --output=%s and --output=%s need a single snapshot, but --snapshot "+
			"is a pattern", render.HTML, render.Prometheus))
	}
	files, err := filepath.Glob(c.snapshot)
	if err != nil {
		return exit.Usage(c.command, fmt.Errorf("read pattern %q: %w", c.snapshot, err))
	}
	if len(files) == 0 {
		return exit.Try(fmt.Errorf("no file matches %q", c.snapshot), "ls "+shell.Quote(filepath.Dir(c.snapshot)))
	}
	var current *etcdaudit.Current
	if c.current != "" {
		if current, err = readCurrent(c.command, c.current); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process
	all := make([]*clusters.Cluster, len(files))
	for i, file := range files {
		all[i] = &clusters.Cluster{Name: file}
	}
	q := inquiry{environment: c.environment, command: c.command, output: c.output,
		options: fleet.Options{Parallel: c.parallel},
		ask: func(ctx context.Context, env *environment) (*render.FleetAnswer, error) {
			file := env.member.Name
			report, err := etcdaudit.Audit(ctx, etcdaudit.Snapshot{Path: file},
				etcdaudit.Options{Prefix: c.prefix, Current: current})
			if err != nil {
				code, _, try := exit.Parts(c.command, explainAudit(c.command, err))
				return nil, exit.TryCode(err, strings.ReplaceAll(try, shell.Quote(c.snapshot), shell.Quote(file)), code)
			}
			if current != nil {
				warnOfMissing(env.Err, report, current)
			}
			answer := render.AuditAnswer(report)
			return &answer, auditCode(report)
		}}
	report := render.Fleet{What: "SNAPSHOT", Column: "VERDICT", Clusters: q.askAll(ctx, all)}
	return q.show(report, exit.WorseVerdict)
}

// auditCode turns the comparison of all objects into an exit code.
func auditCode(report *etcdaudit.Report) error {
	switch report.Comparison() {
	case etcdaudit.IsStale:
		return exit.Code(exit.WorkLeft)
	case etcdaudit.IsUndetermined:
		return exit.Code(exit.Undetermined)
	case etcdaudit.NotCompared:
		if report.Compared {
			return exit.Code(exit.Undetermined)
		}
	case etcdaudit.IsCurrent, etcdaudit.NoObject:
	}
	return nil
}

// currentVersions returns the current versions in the file. Without a file, it returns those of the cluster if the user
// named one, otherwise nil.
func (c *auditCommand) currentVersions(ctx context.Context) (*etcdaudit.Current, error) {
	switch {
	case c.current != "":
		return readCurrent(c.command, c.current)
	case c.clusterFlagsGiven():
		return c.clusterVersions(ctx)
	case c.stale:
		return nil, exit.Usage(c.command, errors.New("--stale needs --kubeconfig or --current"))
	}
	return nil, nil
}

// readCurrent returns the current versions in a file.
func readCurrent(command *cobra.Command, file string) (*etcdaudit.Current, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, exit.Usage(command, fmt.Errorf("read current versions: %w", err))
	}
	current, err := etcdaudit.ParseCurrent(data)
	if err != nil {
		return nil, exit.Usage(command, fmt.Errorf("%s: %w", file, err))
	}
	return current, nil
}

// clusterVersions returns the current versions that the API server shows.
func (c *auditCommand) clusterVersions(ctx context.Context) (*etcdaudit.Current, error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	client, err := apiserver.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	known, err := inventory.Take(ctx, client)
	if err != nil {
		return nil, exit.Try(fmt.Errorf("read current versions: %w", err), c.name+" plan")
	}
	for _, failure := range known.Failures {
		fmt.Fprintf(c.Err, "warning: %s\n", failure)
	}
	current := &etcdaudit.Current{Versions: make(map[schema.GroupResource]schema.GroupVersion), Complete: true}
	for _, r := range known.Resources {
		if r.StorageVersion.Empty() {
			continue
		}
		current.Versions[r.GroupResource] = r.StorageVersion
		for _, alias := range r.Aliases {
			current.Versions[alias.GroupResource()] = r.StorageVersion
		}
	}
	return current, nil
}

// warnOfMissing names the resources in the file that have no object in etcd: they may be misspelled.
func warnOfMissing(notes io.Writer, report *etcdaudit.Report, current *etcdaudit.Current) {
	var missing []string
	for r := range current.Versions {
		if !slices.ContainsFunc(report.Rows, func(row etcdaudit.Row) bool { return row.Resource == r.String() }) {
			missing = append(missing, r.String())
		}
	}
	slices.Sort(missing)
	for _, name := range missing {
		fmt.Fprintf(notes, "warning: no object of %s is stored\n", name)
	}
}

// etcdctl returns a command of etcdctl for the etcd that the flags name.
func etcdctl(command *cobra.Command, what string) string {
	if command.Flags().Changed("snapshot") {
		return "etcdctl snapshot status " + shell.Quote(command.Flag("snapshot").Value.String())
	}
	endpoints, _ := command.Flags().GetStringSlice("etcd-endpoints")
	words := []string{"etcdctl", what, shell.Quote("--endpoints=" + strings.Join(endpoints, ","))}
	for _, name := range []string{"cacert", "cert", "key"} {
		if file := command.Flag(name); file.Changed {
			words = append(words, shell.Quote("--"+name+"="+file.Value.String()))
		}
	}
	return strings.Join(words, " ")
}

// explainAudit adds the command that helps.
func explainAudit(command *cobra.Command, err error) error {
	path, save := command.CommandPath(), "etcdctl snapshot save snapshot.db"
	var unreachable *etcdaudit.UnreachableError
	var empty *etcdaudit.EmptyError
	switch {
	case errors.Is(err, etcdaudit.ErrMemberFile):
		return exit.Try(err, save+" && "+path+" --snapshot snapshot.db")
	case errors.Is(err, etcdaudit.ErrNoSnapshot), errors.Is(err, etcdaudit.ErrTruncated),
		errors.Is(err, etcdaudit.ErrDamaged):
		return exit.Try(err, save)
	case errors.As(err, &unreachable):
		return exit.Try(err, etcdctl(command, "endpoint health"))
	case errors.As(err, &empty):
		return exit.Try(err, etcdctl(command, "get / --prefix --keys-only --limit=10"))
	case errors.Is(err, fs.ErrNotExist):
		return exit.Usage(command, err)
	}
	return err
}

// etcdFlags are the flags for the etcd, or the snapshot, to read.
type etcdFlags struct {
	live     etcdaudit.Live
	snapshot string
	prefix   string
}

func (f *etcdFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.live.Endpoints, "etcd-endpoints", nil, "Read etcd at these URLs")
	flags.StringVar(&f.live.CAFile, "cacert", "",
		"File with the CA certificates that etcd's certificate is verified with")
	flags.StringVar(&f.live.CertFile, "cert", "", "File with the client certificate for etcd")
	flags.StringVar(&f.live.KeyFile, "key", "", "File with the key of the client certificate")
	flags.StringVar(&f.snapshot, "snapshot", "", "Read this file, written by etcdctl snapshot save")
	flags.StringVar(&f.prefix, "prefix", etcdaudit.DefaultPrefix,
		"Prefix of all keys: the --etcd-prefix of the API server")
}

// source returns the etcd or the snapshot to read, or nil if no flag names one.
func (f *etcdFlags) source(command *cobra.Command) (etcdaudit.Source, error) {
	for _, other := range []string{"etcd-endpoints", "cacert", "cert", "key"} {
		if err := arg.Exclusive(command, "snapshot", other); err != nil {
			return nil, err
		}
	}
	for _, flag := range []string{"cacert", "cert", "key", "prefix"} {
		if err := arg.Needs(command, flag, "etcd-endpoints", "snapshot"); err != nil {
			return nil, err
		}
	}
	switch {
	case f.snapshot != "":
		return etcdaudit.Snapshot{Path: f.snapshot}, nil
	case len(f.live.Endpoints) == 0:
		return nil, nil
	}
	return f.live, errors.Join(arg.Needs(command, "cert", "key"), arg.Needs(command, "key", "cert"))
}
