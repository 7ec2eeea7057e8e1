// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of kube-migrator. Each command has a file and a type, which holds its flags: it reads
// them, calls the packages that do the work, and shows what they return. Those without a flag but -o are here.
//
// The package owns exit codes, the two lines of an error, and the rule that data goes to stdout and everything else to
// stderr. It does not decide anything about what is stored.
package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // authentication plugins that a kubeconfig may name

	"github.com/kube-migrator/kube-migrator/internal/agreement"
	leaseidentity "github.com/kube-migrator/kube-migrator/internal/identity"
	"github.com/kube-migrator/kube-migrator/internal/printable"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// Run runs the command line args, whose first element is the program's own name, and returns the exit code.
func Run(ctx context.Context, args []string, streams Streams) int {
	rest, name := invoked(args)
	env := &environment{
		Streams: Streams{In: streams.In, Out: printable.NewWriter(streams.Out),
			Err: printable.NewWriter(streams.Err)},
		outTerminal: terminal(streams.Out), errTerminal: terminal(streams.Err), name: name,
	}
	root := newRoot(env)
	root.SetArgs(rest)
	command, err := root.ExecuteContextC(ctx)
	return exit.Report(env.Err, command, err)
}

// terminal returns w if it is a terminal, otherwise nil.
func terminal(w io.Writer) *os.File {
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return file
	}
	return nil
}

func newRoot(env *environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "kube-migrator",
		Short: "Rewrite objects that Kubernetes stores in old API versions, and prove that none is left",
		Long: `kube-migrator finds the objects that a cluster stores in old API versions, rewrites them, and proves that none is left.

  plan         show which resources exist, and which need to be migrated
  migrate      rewrite their objects, from this terminal
  servers      show the API servers, what each writes, and what a migration would prove
  audit        read etcd, or a snapshot of it, and count what it holds
  check        tell whether an upgrade, a downgrade or a new CustomResourceDefinition is safe
  gate         make Cluster API wait until an upgrade is safe
  upgrade-crd  apply a new release of CustomResourceDefinitions, even if it drops stored versions
  retire       remove an old version of a custom resource from the cluster

Exit codes: 0 done or safe, 1 error, 2 unsafe or work left, 3 cannot be determined, 4 finished with failures,
130 interrupted.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: env.name},
		CompletionOptions: cobra.CompletionOptions{
			DisableDefaultCmd: true,
		},
	}
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	root.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		return exit.Usage(command, arg.ParseError(err))
	})
	env.addClusterFlags(root.PersistentFlags())
	root.AddCommand(
		newPlanCommand(env),
		newMigrateCommand(env),
		newAuditCommand(env),
		newServersCommand(env),
		newCheckCommand(env),
		newGateCommand(env),
		newUpgradeCRDCommand(env),
		newRetireCommand(env),
		newInstallCommand(env),
		newUninstallCommand(env),
		newControllerCommand(env),
		newWorkerCommand(env),
		newRequestCommand(env),
		newPauseCommand(env),
		newResumeCommand(env),
		newCancelCommand(env),
		newProgressCommand(env),
		newDashboardCommand(env),
		newWaitCommand(env),
		newVersionCommand(env),
		newCompletionCommand(env),
	)
	complete(root, env)
	for _, command := range root.Commands() {
		command.Example = strings.ReplaceAll(command.Example, "kube-migrator ", env.name+" ")
	}
	return root
}

// version is set by the linker. A binary that was built without it reports the version in its build information.
var version string //nolint:gochecknoglobals // the linker can set nothing else

// releaseImage is the image of a release with its registry, tag and digest. The linker sets it in the binaries of a
// release, which are built after the image. The binary inside the image cannot know the digest.
var releaseImage string //nolint:gochecknoglobals // the linker can set nothing else

// Build identifies the build, as `version -o json` prints it.
type Build struct {
	Version string `json:"version"`
	// Commit is the commit that was built, and CommitTime its time in RFC 3339. They are empty where the build did not
	// see a repository, such as that of a module from a proxy.
	Commit     string `json:"commit,omitempty"`
	CommitTime string `json:"commitTime,omitempty"`
	// Modified tells that the files differed from those of the commit.
	Modified bool `json:"modified,omitempty"`
	// Image is the default image of install. It is empty if this is not the build of a release.
	Image     string `json:"image,omitempty"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

func thisBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return newBuild(version, info)
}

// newBuild identifies the build with a version from the linker, or without one, and with what Go recorded of it.
func newBuild(version string, info *debug.BuildInfo) Build {
	b := Build{Version: version, Image: releaseImage, GoVersion: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if b.Version == "" {
		b.Version = cmp.Or(info.Main.Version, "(devel)")
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Commit = setting.Value
		case "vcs.time":
			b.CommitTime = setting.Value
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
	return b
}

func newVersionCommand(env *environment) *cobra.Command {
	var output render.Format
	command := &cobra.Command{
		Use:   "version",
		Short: "Show the version of this build",
		Args:  arg.None,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if output != render.Text {
				return render.Data(env.Out, output, b)
			}
			_, err := fmt.Fprintf(env.Out, "kube-migrator %s (%s, %s)\n", b.Version, b.GoVersion, b.Platform)
			return err
		},
	}
	arg.Output(command.Flags(), &output, render.Text, render.JSON, render.YAML)
	return command
}

func newServersCommand(env *environment) *cobra.Command {
	var output render.Format
	command := &cobra.Command{
		Use:   "servers [RESOURCE…]",
		Short: "Show the API servers, what each of them writes, and what a migration would prove",
		Long: `Look once at the API servers, and show which ones there are, whether each could be asked, and what it writes: the version
of each RESOURCE, or how many resources. Below is the evidence that a migration would have here, what limits it, and what
would improve it.

-o json prints everything that this rests on: Leases and addresses, what each server shows in discovery and publishes as
its StorageVersion, APIServices, and CustomResourceDefinitions. It contains no other object of the cluster. If a verdict
surprises you, attach it to a bug report: maintainers can repeat the verdict from it.

Exit codes: 0 the API servers agree; 1 error; 3 they do not, or it cannot be determined. With -o json or yaml: 0 or 1.`,
		Example: `  kube-migrator servers
  kube-migrator servers widgets.demo.example.com
  kube-migrator servers -o json > servers.json`,
		RunE: func(command *cobra.Command, args []string) error {
			return showServers(command, env, args, output)
		},
	}
	arg.Output(command.Flags(), &output, render.Text, render.JSON, render.YAML)
	return command
}

func showServers(command *cobra.Command, env *environment, names []string, output render.Format) error {
	config, err := env.config()
	if err != nil {
		return err
	}
	cluster, err := env.connectTo(config)
	if err != nil {
		return err
	}
	servers, err := agreement.NewObserver(config, agreement.Options{})
	if err != nil {
		return err
	}
	snapshot, err := servers.Snapshot(command.Context())
	if err != nil {
		return cluster.Explain("look at the API servers", err)
	}
	if output != render.Text {
		return render.Data(env.Out, output, snapshot)
	}
	verdicts := agreement.Judge(&snapshot)
	verdicts = slices.DeleteFunc(verdicts, func(v agreement.Verdict) bool {
		return v.Origin == migrate.Aggregated || len(names) > 0 && !slices.Contains(names, v.Resource.String()) &&
			!slices.Contains(names, v.Resource.Resource)
	})
	if len(verdicts) == 0 {
		return exit.Try(fmt.Errorf("the API servers store no resource %s", strings.Join(names, ", ")), env.name+" plan")
	}
	report := render.ServersOf(verdicts, len(names) > 0)
	report.Releases = snapshot.Releases.All
	for i := range report.Servers {
		one := &report.Servers[i]
		for _, l := range snapshot.Leases.Live {
			if l.Name == one.Name {
				one.Name, one.Address = cmp.Or(l.Host, l.Name), l.Address
				if !leaseidentity.HidesRestarts(l.Holder) || len(snapshot.Leases.Live) == 1 { // else it may be that of another
					one.Started = l.Created
				}
			}
		}
	}
	if err := report.Text(env.Out, again(env, command, names...)); err != nil {
		return err
	}
	if report.Evidence == 0 || len(report.Disagreements)+len(report.Unread) > 0 {
		return exit.Code(exit.Undetermined)
	}
	return nil
}
