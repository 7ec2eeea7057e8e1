// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/internal/cli/render"
)

// version is set by the linker; a binary built without it says where it came from itself.
var version string //nolint:gochecknoglobals // the linker can set nothing else

// releaseImage is the image of a release with its registry, tag and digest. It is set by the linker where a release is
// built, after its image; the binary inside the image cannot know the digest.
var releaseImage string //nolint:gochecknoglobals // the linker can set nothing else

// Build says which build this is, as `version -o json` prints it.
type Build struct {
	Version string `json:"version"`
	// Image is what install uses by default; empty where this is not the build of a release.
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
		Short: "Show which build this is",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if output != render.Text {
				return render.Data(env.Out, output, b)
			}
			_, err := fmt.Fprintf(env.Out, "kube-migrator %s (%s, %s)\n", b.Version, b.GoVersion, b.Platform)
			return err
		},
	}
	outputVar(command.Flags(), &output, render.Text, render.JSON, render.YAML)
	return command
}
