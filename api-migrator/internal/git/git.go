// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package git asks and changes the git repository that a folder belongs to, through the user's git. It never starts a
// program that the configuration of the repository names for watching files: the repository may come from a stranger.
package git

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
)

// Run runs git in a folder.
func Run(ctx context.Context, folder string, args ...string) ([]byte, error) {
	return RunWith(ctx, folder, nil, args...)
}

// RunWith runs git in a folder with a standard input. Git would start the program in core.fsmonitor to list or compare
// files, so that setting is switched off.
func RunWith(ctx context.Context, folder string, input io.Reader, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "git", append([]string{"-c", "core.fsmonitor=false"}, args...)...)
	command.Stdin = input
	command.Dir = folder
	var complaint bytes.Buffer
	command.Stderr = &complaint
	out, err := command.Output()
	if err != nil {
		return out, fmt.Errorf("run git: %w: %s", err, bytes.TrimSpace(complaint.Bytes()))
	}
	return out, nil
}

// Tracked lists the files that git tracks below a folder; nil where the folder is in no repository.
func Tracked(ctx context.Context, root string) map[string]bool {
	out, err := Run(ctx, root, "ls-files", "-z")
	if err != nil {
		return nil
	}
	return set(out)
}

// Ignored returns those of the files that git ignores, and so cannot restore; none outside of a repository.
func Ignored(ctx context.Context, root string, files []string) map[string]bool {
	input := strings.NewReader(strings.Join(files, "\x00") + "\x00")
	out, err := RunWith(ctx, root, input, "check-ignore", "-z", "--stdin")
	if err != nil { // none is ignored, or there is no repository
		return nil
	}
	return set(out)
}

func set(list []byte) map[string]bool {
	found := map[string]bool{}
	for name := range strings.SplitSeq(string(list), "\x00") {
		found[name] = true
	}
	return found
}

// Changed lists the files below root that git knows and that are not as in the last commit. Their paths are relative to
// root. Without a commit it returns an error.
func Changed(ctx context.Context, root string) ([]string, error) {
	list, err := Run(ctx, root, "diff", "--name-only", "--relative", "-z", "HEAD")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(strings.Split(string(list), "\x00"), func(name string) bool { return name == "" }), nil
}

// CheckIdentity refuses to start where git does not know the author of commits.
func CheckIdentity(ctx context.Context, root string) error {
	if _, err := Run(ctx, root, "var", "GIT_COMMITTER_IDENT"); err != nil {
		return hint.Errorf("git config --global user.email you@example.com", "git does not know who commits")
	}
	return nil
}
