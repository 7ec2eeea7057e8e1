// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
)

// ErrBlocked says that a plan has blockers, so that nothing is done.
var ErrBlocked = errors.New("the plan has blockers")

// Again computes a plan anew. It refuses a plan that is not the one which the tree gives now.
func Again(ctx context.Context, dir string, plan *Plan) (*Outcome, error) {
	if len(plan.Blockers) > 0 {
		return nil, ErrBlocked
	}
	outcome, err := Make(ctx, dir, plan.Request)
	if err != nil {
		return nil, err
	}
	const try = "api-migrator plan"
	if outcome.Plan.Tree != plan.Tree {
		return nil, project.Problem(try, "the Go code or a manifest has changed since the plan was made")
	}
	want, err := plan.Encode()
	if err != nil {
		return nil, err
	}
	got, err := outcome.Plan.Encode()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(want, got) {
		return nil, project.Problem("api-migrator plan --assign DECLARATION=new|shared|stay", "the plan is not what its request gives: a plan is changed by making it again with other options")
	}
	return outcome, nil
}

// Applied reports whether a tree is already what the plan makes of it.
func Applied(root string, plan *Plan) (bool, error) {
	done := 0
	for _, edit := range plan.Edits {
		content, err := readIfThere(root, edit.File)
		if err != nil {
			return false, err
		}
		if hash(content) == edit.After {
			done++
		}
	}
	if done > 0 && done < len(plan.Edits) {
		return false, project.Problem("git status", "the tree is neither what the plan was made for nor what it makes of it: %d of %d files are done", done, len(plan.Edits))
	}
	return done > 0, nil
}

// Apply carries a plan out: all of it, or after an error nothing. It reports false if there was nothing left to do.
// A tree with uncommitted changes is refused unless allowDirty is set.
func Apply(ctx context.Context, dir string, plan *Plan, allowDirty bool) (bool, error) {
	root, err := project.Root(dir)
	if err != nil {
		return false, err
	}
	if len(plan.Blockers) > 0 {
		return false, ErrBlocked
	}
	if done, err := Applied(root, plan); err != nil || done {
		return false, err
	}
	if !allowDirty {
		if err := checkClean(ctx, root); err != nil {
			return false, err
		}
	}
	outcome, err := Again(ctx, dir, plan)
	if err != nil {
		return false, err
	}
	return true, outcome.write()
}

// checkClean refuses a tree whose Go code and manifests could not be had back from git. A plan or other new files of
// the user do not matter: nothing that is there and unknown to git is ever overwritten.
func checkClean(ctx context.Context, root string) error {
	out, err := git(ctx, root, "status", "--porcelain", "--untracked-files=no", "--", ".")
	if err != nil {
		return project.Problem("api-migrator apply --allow-dirty PLAN", "%s is not in a git repository, so that nothing could bring it back", root)
	}
	if first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n"); first != "" {
		return project.Problem("git stash", "the tree has uncommitted changes: %s", strings.TrimSpace(first[min(2, len(first)):]))
	}
	return nil
}

// write puts every new content beside its place first, so that only renames are left to fail; what has been renamed
// by then is put back.
func (o *Outcome) write() (err error) {
	beside := map[string]string{}
	defer func() {
		for _, name := range beside {
			os.Remove(name)
		}
	}()
	var created []string
	defer func() {
		if err != nil {
			for _, folder := range slices.Backward(created) {
				os.Remove(folder)
			}
		}
	}()
	for _, edit := range o.Plan.Edits {
		if o.After[edit.File] == nil {
			continue
		}
		folder := filepath.Join(o.Root, filepath.FromSlash(path.Dir(edit.File)))
		made, err := makeFolder(folder)
		created = append(created, made...)
		if err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
		name, err := writeBeside(folder, o.After[edit.File])
		if err != nil {
			return fmt.Errorf("write %s: %w", edit.File, err)
		}
		beside[edit.File] = name
	}
	for i, edit := range o.Plan.Edits {
		if err := o.replace(edit.File, beside[edit.File]); err != nil {
			for _, done := range o.Plan.Edits[:i] {
				err = errors.Join(err, o.restore(done.File))
			}
			return fmt.Errorf("replace %s: %w", edit.File, err)
		}
	}
	return nil
}

// replace puts a written file in its place, keeping the mode of the one that is there.
func (o *Outcome) replace(name, written string) error {
	target := filepath.Join(o.Root, filepath.FromSlash(name))
	info, err := os.Stat(target)
	switch {
	case written == "":
		return os.Remove(target)
	case err == nil:
		if err := os.Chmod(written, info.Mode().Perm()); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return os.Rename(written, target)
}

func (o *Outcome) restore(name string) error { return put(o.Root, name, o.Before[name]) }

func writeBeside(folder string, content []byte) (string, error) {
	file, err := os.CreateTemp(folder, ".api-migrator-*")
	if err != nil {
		return "", err
	}
	_, err = file.Write(content)
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Chmod(file.Name(), 0o644)
	}
	if err != nil {
		os.Remove(file.Name())
		return "", err
	}
	return file.Name(), nil
}

// makeFolder makes a folder with its parents, and lists those that were not there, outermost first.
func makeFolder(folder string) ([]string, error) {
	var missing []string
	for at := folder; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); err == nil || at == filepath.Dir(at) {
			break
		}
		missing = append(missing, at)
	}
	slices.Reverse(missing)
	return missing, os.MkdirAll(folder, 0o755)
}

// Patch is what git apply makes of the outcome: the edits as a patch.
func (o *Outcome) Patch(ctx context.Context) ([]byte, error) {
	folder, err := os.MkdirTemp("", "api-migrator-diff-*")
	if err != nil {
		return nil, fmt.Errorf("make diff: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }() // it is temporary
	for side, contents := range map[string]map[string][]byte{"a": o.Before, "b": o.After} {
		if err := os.Mkdir(filepath.Join(folder, side), 0o755); err != nil {
			return nil, fmt.Errorf("make diff: %w", err)
		}
		for name, content := range contents {
			if content == nil {
				continue
			}
			if err := put(filepath.Join(folder, side), name, content); err != nil {
				return nil, fmt.Errorf("make diff: %w", err)
			}
		}
	}
	// The folders' names are the prefixes that git expects of paths.
	out, err := git(ctx, folder, "diff", "--no-index", "--no-prefix", "--no-renames", "--no-color", "--no-ext-diff", "a", "b")
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		err = nil // they differ
	}
	return out, err
}

func git(ctx context.Context, folder string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "git", args...)
	command.Dir = folder
	var complaint bytes.Buffer
	command.Stderr = &complaint
	out, err := command.Output()
	if err != nil {
		return out, fmt.Errorf("run git: %w: %s", err, bytes.TrimSpace(complaint.Bytes()))
	}
	return out, nil
}
