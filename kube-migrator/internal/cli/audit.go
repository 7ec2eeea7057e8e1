// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/shell"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/clusters"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/page"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/etcdaudit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/fleet"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

// auditFlags are the flags of audit.
type auditFlags struct {
	etcdFlags
	current string
	stale   bool
	// parallel is how many snapshots are read at the same time.
	parallel int
	output   render.Format
}

func newAuditCommand(env *environment) *cobra.Command {
	f := &auditFlags{}
	command := &cobra.Command{
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
			source, err := f.source(command)
			if err != nil {
				return err
			}
			if source == nil {
				return arg.Missing(command, "etcd-endpoints", "snapshot")
			}
			if isPattern(f.snapshot) {
				return env.auditAll(command, f)
			}
			if command.Flags().Changed(clusters.Parallel) {
				return exit.Usage(command, fmt.Errorf("--%s needs a pattern as --snapshot", clusters.Parallel))
			}
			return env.audit(command, f, source)
		},
	}
	flags := command.Flags()
	f.add(flags)
	flags.StringVar(&f.current, "current", "", "Read the current versions from this file instead of the API server")
	arg.Number(flags, &f.parallel, clusters.Parallel, 2, arg.Within[int]{Least: 1, Unit: "snapshots"},
		"How many snapshots are read at the same time")
	flags.BoolVar(&f.stale, "stale", false, "List the objects that are stored in another version than the current one")
	arg.Output(flags, &f.output, render.Table, render.Wide, render.JSON, render.YAML, render.Name, render.HTML,
		render.Prometheus)
	return command
}

func (env *environment) audit(command *cobra.Command, f *auditFlags, source etcdaudit.Source) error {
	if f.stale && f.countsOnly() {
		return exit.Usage(command, fmt.Errorf("--stale and --output=%s cannot be used together", f.output))
	}
	ctx := command.Context()
	current, err := env.currentVersions(ctx, command, f)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(env.Out)
	list := &render.StaleList{Out: out, Format: f.output}
	options := etcdaudit.Options{Prefix: f.prefix, Current: current}
	if f.stale {
		options.OnStale = list.Add
	}
	report, err := etcdaudit.Audit(ctx, source, options)
	if err != nil {
		return errors.Join(explainAudit(command, err), out.Flush())
	}
	switch {
	case f.stale:
		err = list.End(report)
	case f.output == render.HTML:
		err = page.Report(out, page.OfAudit(report))
	default:
		err = render.Audit(out, f.output, report)
	}
	if err = errors.Join(err, out.Flush()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	fmt.Fprint(env.Err, render.AuditSummary(report))
	if f.current != "" {
		env.warnOfMissing(report, current)
	}
	return auditCode(report)
}

// countsOnly reports whether the output counts the objects of one audit, and can neither name them nor show several.
func (f *auditFlags) countsOnly() bool {
	return f.output == render.HTML || f.output == render.Prometheus
}

// isPattern reports whether a path is a pattern, and not the name of a file.
func isPattern(path string) bool {
	if !strings.ContainsAny(path, `*?[`) {
		return false
	}
	_, err := os.Lstat(path)
	return err != nil
}

// auditAll audits all snapshots that match a pattern.
func (env *environment) auditAll(command *cobra.Command, f *auditFlags) error {
	for _, name := range []string{clientcmd.RecommendedConfigPathFlag, clientcmd.FlagContext, clientcmd.FlagAPIServer} {
		if command.Flags().Changed(name) {
			return exit.Usage(command, fmt.Errorf("--%s names one cluster, but --snapshot is a pattern: use --current",
				name))
		}
	}
	if f.stale || f.countsOnly() {
		return exit.Usage(command, fmt.Errorf("--stale, --output=%s and --output=%s need a single snapshot, but --snapshot "+
			"is a pattern", render.HTML, render.Prometheus))
	}
	files, err := filepath.Glob(f.snapshot)
	if err != nil {
		return exit.Usage(command, fmt.Errorf("read pattern %q: %w", f.snapshot, err))
	}
	if len(files) == 0 {
		return exit.Try(fmt.Errorf("no file matches %q", f.snapshot), "ls "+shell.Quote(filepath.Dir(f.snapshot)))
	}
	var current *etcdaudit.Current
	if f.current != "" {
		if current, err = readCurrent(command, f.current); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(command.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process
	all := make([]*clusters.Cluster, len(files))
	for i, file := range files {
		all[i] = &clusters.Cluster{Name: file}
	}
	q := inquiry{command: command, output: f.output, options: fleet.Options{Parallel: f.parallel},
		ask: func(ctx context.Context, env *environment) (*render.FleetAnswer, error) {
			file := env.member.Name
			report, err := etcdaudit.Audit(ctx, etcdaudit.Snapshot{Path: file},
				etcdaudit.Options{Prefix: f.prefix, Current: current})
			if err != nil {
				code, _, try := exit.Parts(command, explainAudit(command, err))
				return nil, exit.TryCode(err, strings.ReplaceAll(try, shell.Quote(f.snapshot), shell.Quote(file)), code)
			}
			if current != nil {
				env.warnOfMissing(report, current)
			}
			answer := render.AuditAnswer(report)
			return &answer, auditCode(report)
		}}
	report := render.Fleet{What: "SNAPSHOT", Column: "VERDICT", Clusters: env.askAll(ctx, q, all)}
	return env.showFleet(report, f.output, exit.WorseVerdict)
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
func (env *environment) currentVersions(ctx context.Context, command *cobra.Command,
	f *auditFlags) (*etcdaudit.Current, error) {
	switch {
	case f.current != "":
		return readCurrent(command, f.current)
	case env.clusterFlagsGiven():
		return env.clusterVersions(ctx)
	case f.stale:
		return nil, exit.Usage(command, errors.New("--stale needs --kubeconfig or --current"))
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
func (env *environment) clusterVersions(ctx context.Context) (*etcdaudit.Current, error) {
	config, err := env.config()
	if err != nil {
		return nil, err
	}
	client, err := apiserver.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	known, err := inventory.Take(ctx, client)
	if err != nil {
		return nil, exit.Try(fmt.Errorf("read current versions: %w", err), env.name+" plan")
	}
	for _, failure := range known.Failures {
		fmt.Fprintf(env.Err, "warning: %s\n", failure)
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
func (env *environment) warnOfMissing(report *etcdaudit.Report, current *etcdaudit.Current) {
	var missing []string
	for r := range current.Versions {
		if !slices.ContainsFunc(report.Rows, func(row etcdaudit.Row) bool { return row.Resource == r.String() }) {
			missing = append(missing, r.String())
		}
	}
	slices.Sort(missing)
	for _, name := range missing {
		fmt.Fprintf(env.Err, "warning: no object of %s is stored\n", name)
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
