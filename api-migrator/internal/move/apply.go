// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/git"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/transaction"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
	"github.com/kube-migrator/kube-migrator/internal/shell"
)

// ErrBlocked says that a plan has blockers, so that nothing is done.
var ErrBlocked = errors.New("the plan has blockers")

func (p *Plan) blocked() error {
	if len(p.Blockers) == 0 {
		return nil
	}
	return fmt.Errorf("%w; the first of %d: %s", ErrBlocked, len(p.Blockers), p.Blockers[0])
}

// Again makes the plan again, and refuses one that is not what the tree gives now.
func Again(ctx context.Context, dir string, plan *Plan) (*Outcome, error) {
	if err := plan.blocked(); err != nil {
		return nil, err
	}
	outcome, err := Make(ctx, dir, plan.Request)
	if err != nil {
		return nil, err
	}
	const try = "api-migrator plan"
	if outcome.Plan.Tree != plan.Tree {
		return nil, hint.Errorf(try, "the Go code or a manifest has changed since the plan was made")
	}
	// Findings are for users, and some are about files that are not changed.
	asked, made := *plan, *outcome.Plan
	asked.Findings, made.Findings = nil, nil
	want, err := asked.Encode()
	if err != nil {
		return nil, err
	}
	got, err := made.Encode()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(want, got) {
		return nil, hint.Errorf("api-migrator plan --help",
			"the plan is not what its request gives: a plan is changed by making it again with other options")
	}
	return outcome, nil
}

// files are those that the plan changes.
func (p *Plan) files() (files []string) {
	for _, edit := range p.Edits {
		files = append(files, edit.File)
	}
	return files
}

// applied reports whether a tree is already what the plan makes of it.
func applied(root string, plan *Plan) (bool, error) {
	done := 0
	for _, edit := range plan.Edits {
		content, err := tree.ReadIfThere(root, edit.File)
		if err != nil {
			return false, err
		}
		if transaction.Hash(content) == edit.After {
			done++
		}
	}
	if done > 0 && done < len(plan.Edits) {
		return false, hint.Errorf("git status",
			"the tree is neither what the plan was made for nor what it makes of it: %d of %d files are done", done,
			len(plan.Edits))
	}
	return done > 0, nil
}

// Applied reports whether the project in dir is already what the plan makes of it. A tree that is so in part is an
// error.
func Applied(dir string, plan *Plan) (bool, error) {
	root, err := project.Root(dir)
	if err != nil {
		return false, err
	}
	return applied(root, plan)
}

// Apply carries a plan out: all of it, or after an error nothing. It reports false if there was nothing left to do.
// A tree with uncommitted changes is refused unless allowDirty is set. What a process that died has begun is finished.
func Apply(ctx context.Context, dir string, plan *Plan, allowDirty bool) (bool, error) {
	return apply(ctx, dir, plan, allowDirty, false)
}

// ApplyInCommits is Apply with a commit for each step. A tree with uncommitted changes is always refused. After an
// error the commits that were made stay, and the next call goes on.
func ApplyInCommits(ctx context.Context, dir string, plan *Plan) (bool, error) {
	return apply(ctx, dir, plan, false, true)
}

func apply(ctx context.Context, dir string, plan *Plan, allowDirty, commits bool) (bool, error) {
	root, err := project.Root(dir)
	if err != nil {
		return false, err
	}
	if err := plan.blocked(); err != nil {
		return false, err
	}
	begun, err := transaction.Unfinished(root)
	if err != nil {
		return false, err
	}
	if begun != nil {
		document, err := plan.Encode()
		if err != nil {
			return true, err
		}
		return true, begun.Resume(ctx, document, commits)
	}
	if err := transaction.CheckPaths(root, plan.files()); err != nil {
		return false, err
	}
	if err := transaction.Clear(root); err != nil {
		return false, err
	}
	if done, err := applied(root, plan); err != nil || done {
		return false, err
	}
	if !allowDirty {
		if err := checkClean(ctx, root, plan); err != nil {
			return false, err
		}
	}
	if commits {
		if err := git.CheckIdentity(ctx, root); err != nil {
			return false, err
		}
	}
	outcome, err := Again(ctx, dir, plan)
	if err != nil {
		return false, err
	}
	return true, outcome.write(ctx, commits, nil)
}

// stage stages the new contents. The hook is for tests.
func (o *Outcome) stage(commits bool, hook func()) (*transaction.Transaction, error) {
	document, err := o.Plan.Encode()
	if err != nil {
		return nil, err
	}
	return transaction.Stage(o.Root, document, o.inSteps(), transaction.Options{Commits: commits, Hook: hook})
}

// write stages the new contents and puts them in place.
func (o *Outcome) write(ctx context.Context, commits bool, hook func()) error {
	staged, err := o.stage(commits, hook)
	if err != nil {
		return err
	}
	return staged.Run(ctx)
}

// checkClean refuses a tree whose Go code and manifests could not be had back from git. A plan or other new files of
// the user do not matter: of what is there and unknown to git, nothing but generated code is ever overwritten.
func checkClean(ctx context.Context, root string, plan *Plan) error {
	const anyway = "api-migrator apply --allow-dirty PLAN"
	inside, err := git.Run(ctx, root, "rev-parse", "--is-inside-work-tree")
	if err != nil && strings.Contains(err.Error(), "not a git repository") || err == nil &&
		strings.TrimSpace(string(inside)) != "true" {
		return hint.Errorf(anyway, "%s is not in a git repository, so that nothing could bring it back", root)
	}
	if err != nil {
		return hint.Errorf(anyway, "git cannot say whether it could bring %s back: %v", root, err)
	}
	out, err := git.Run(ctx, root, "status", "--porcelain", "--untracked-files=no", "--", ".")
	if err != nil {
		return hint.Errorf(anyway, "git cannot say whether it could bring %s back: %v", root, err)
	}
	if first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n"); first != "" {
		name := strings.TrimSpace(first[min(2, len(first)):])
		document, err := plan.Encode()
		if err != nil {
			return err
		}
		if changed, err := git.Changed(ctx, root); err == nil { // there is a commit
			changed = slices.DeleteFunc(changed, func(file string) bool {
				content, err := tree.ReadIfThere(root, file)
				return err == nil && bytes.Equal(content, document) // the plan itself
			})
			name = ""
			if len(changed) > 0 {
				name = changed[0]
			}
		}
		if name != "" {
			return hint.Errorf("git stash", "the tree has uncommitted changes: %s", name)
		}
	}
	known := git.Tracked(ctx, root)
	for _, edit := range plan.Edits {
		if edit.Before != "" && !known[edit.File] && path.Base(edit.File) != project.DeepCopyFile &&
			!isGenerated(root, edit.File) {
			add := "git add -- "
			if _, err := git.Run(ctx, root, "check-ignore", "--quiet", "--", edit.File); err == nil {
				add = "git add --force -- " // git ignores it
			}
			return hint.Errorf(add+shell.Quote(edit.File),
				"git does not know %s, which the plan changes, so that nothing could bring it back", edit.File)
		}
	}
	return nil
}

// isGenerated reports whether a file is Go code that a program has written, so that nothing is lost with it.
func isGenerated(root, file string) bool {
	content, err := tree.ReadIfThere(root, file)
	if err != nil || path.Ext(file) != ".go" {
		return false
	}
	syntax, err := parser.ParseFile(token.NewFileSet(), file, content, parser.PackageClauseOnly|parser.ParseComments)
	return err == nil && ast.IsGenerated(syntax)
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
			if err := tree.Put(filepath.Join(folder, side), name, content); err != nil {
				return nil, fmt.Errorf("make diff: %w", err)
			}
		}
	}
	// The folders' names are the prefixes that git expects of paths.
	out, err := git.Run(ctx, folder, "diff", "--no-index", "--no-prefix", "--no-renames", "--no-color",
		"--no-ext-diff", "a", "b")
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		err = nil // they differ
	}
	return diffHeader.ReplaceAllFunc(out, bothSides), err
}

// diffHeader is the line that begins the patch of a file. Lines of content begin otherwise.
var diffHeader = regexp.MustCompile(`(?m)^diff --git .*$`)

// bothSides gives a file that is on one side only the name of the other side too, as git does within a repository: git
// diff --no-index names the side that there is twice.
func bothSides(line []byte) []byte {
	names := strings.TrimPrefix(string(line), "diff --git ")
	middle := len(names) / 2
	name := names[:middle]
	if names != name+" "+name {
		return line
	}
	quote := name[:len(name)-len(strings.TrimPrefix(name, `"`))]
	rest := name[len(quote)+len("a/"):]
	return []byte("diff --git " + quote + "a/" + rest + " " + quote + "b/" + rest)
}
