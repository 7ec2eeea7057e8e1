// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/internal/cli/render"
)

// version is set by the linker. A binary that was built without it reports the version in its build information.
var version string //nolint:gochecknoglobals // the linker can set nothing else

// releaseImage is the image of a release with its registry, tag and digest. The linker sets it in the binaries of a
// release, which are built after the image. The binary inside the image cannot know the digest.
var releaseImage string //nolint:gochecknoglobals // the linker can set nothing else

// Build identifies the build, as `version -o json` prints it.
type Build struct {
	Version string `json:"version"`
	// Image is the default image of install. It is empty if this is not the build of a release.
	Image     string `json:"image,omitempty"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

func thisBuild() Build {
	b := Build{Version: version, Image: releaseImage, GoVersion: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if b.Version == "" {
		b.Version = "(devel)"
		if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
			b.Version = info.Main.Version
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

func newCompletionCommand(env *environment) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print the completion script of a shell",
		Long: "Print the completion script of a shell: " + strings.Join(shells, ", ") + `. It completes commands, flags, and
the names of the cluster's resources and of the contexts. kubectl completes "kubectl migrator" if a link named
` + completer + ` to this program is in the PATH.`,
		Example:   "  source <(kube-migrator completion bash)",
		ValidArgs: shells,
		Args:      arg.One("SHELL"),
		RunE: func(command *cobra.Command, args []string) error {
			root := command.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(env.Out, true)
			case "zsh":
				return root.GenZshCompletion(env.Out)
			case "fish":
				return root.GenFishCompletion(env.Out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(env.Out)
			}
			return exit.Usage(command, arg.Unknown(shells).Of("SHELL", args[0]))
		},
	}
}
