// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/hint"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/tree"
)

// staging is the folder, in the root of a project, from which an apply puts files in place. What if the process dies?
//
//   - While the folder is filled: there is no journal yet. The tree is untouched, and the next apply throws the folder
//     away.
//   - The journal comes by a rename: it is there and complete, or it is not there. From then on the next apply goes
//     on, whatever has been done. It tells by content: a file that is as it shall be is done, one that is as it was is
//     still to do, and any other was changed by someone else, so that nothing more is done. A journal that no apply of
//     this user has written is refused.
//   - Between two files, or during a way back after an error: each file is as it was or as it shall be, since it comes
//     by a rename, or goes by one removal. Before a file goes back, its new content lies in the folder again. The next
//     apply goes forward.
//   - After the last file: the next apply finds nothing to do. The journal goes first, the rest of the folder after it.
//
// The order of what has reached the disk is the file system's: this is about processes, not about power cuts.
//
// Every change goes through os.Root (change), after checkPaths has looked: nothing is written outside of the tree,
// whatever links someone puts in the way.
type staging struct {
	root    string
	journal journal
	// hook is called before each change of the tree or of the folder; tests die there.
	hook func()
}

// journal is what an apply is about to do, as hashes; the contents are in the same folder.
type journal struct {
	Plan    string       `json:"plan"` // the plan's hash
	Commits bool         `json:"commits"`
	Steps   []stagedStep `json:"steps"`
}

type stagedStep struct {
	Message string       `json:"message"` // of its commit
	Edits   []stagedEdit `json:"edits"`
}

type stagedEdit struct {
	File   string `json:"file"`
	Before string `json:"before"` // the content's hash; empty without a file
	After  string `json:"after"`
	Staged string `json:"staged"` // the new content's name in the folder; empty without one
}

const (
	stagingFolder = ".api-migrator"
	stagedPlan    = "plan.yaml"
	stagedJournal = "journal.json"
	stagedBack    = "back" // an old content, on its way back
	// stagedMark is the .gitignore by which the folder is known as ours, and by which git leaves it out.
	stagedMark = "# api-migrator works here. It removes this folder by itself.\n*\n"
)

func (s *staging) at(name string) string { return filepath.Join(s.root, staged(name)) }

// staged is a file of the folder, by its path in the tree.
func staged(name string) string { return filepath.Join(stagingFolder, name) }

func (s *staging) target(edit stagedEdit) string {
	return filepath.Join(s.root, filepath.FromSlash(edit.File))
}

// about is called before every change.
func (s *staging) about() {
	if s.hook != nil {
		s.hook()
	}
}

// change makes one change of the tree or of the folder.
func (s *staging) change(do func(root *os.Root) error) error {
	s.about()
	return tree.Folder(s.root).Write(do)
}

// remove removes a file or an empty folder.
func (s *staging) remove(name string) error {
	return s.change(func(root *os.Root) error { return root.Remove(name) })
}

// rename gives a file another name.
func (s *staging) rename(from, to string) error {
	return s.change(func(root *os.Root) error { return root.Rename(from, to) })
}

// write writes a file of the folder.
func (s *staging) write(name string, content []byte) error {
	return s.change(func(root *os.Root) error { return root.WriteFile(staged(name), content, 0o644) })
}

// stagedFile is a file of the folder.
type stagedFile struct {
	name    string
	content []byte
}

// stage writes the folder. The journal is the last of it.
func (o *Outcome) stage(commits bool, hook func()) (s *staging, err error) {
	plan, err := o.Plan.Encode()
	if err != nil {
		return nil, err
	}
	s = &staging{root: o.Root, hook: hook, journal: journal{Plan: hash(plan), Commits: commits, Steps: o.stagedSteps()}}
	if err := checkPaths(s.root, s.journal.files()); err != nil {
		return nil, err
	}
	if err := s.clear(); err != nil {
		return nil, err
	}
	if err := s.change(func(root *os.Root) error { return root.Mkdir(stagingFolder, 0o755) }); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	begun := s // a return of an error sets s to nil
	defer func() {
		if err != nil {
			err = errors.Join(err, begun.clear())
		}
	}()
	files := []stagedFile{{".gitignore", []byte(stagedMark)}, {stagedPlan, plan}}
	for _, step := range s.journal.Steps {
		for _, edit := range step.Edits {
			if edit.Staged != "" {
				files = append(files, stagedFile{edit.Staged, o.After[edit.File]})
			}
		}
	}
	written, err := json.MarshalIndent(s.journal, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode journal: %w", err)
	}
	const unfinished = stagedJournal + ".new"
	for _, file := range append(files, stagedFile{unfinished, written}) {
		if err := s.write(file.name, file.content); err != nil {
			return nil, fmt.Errorf("stage files: %w", err)
		}
	}
	if err := s.note(written); err != nil {
		return nil, err
	}
	if err := s.rename(staged(unfinished), staged(stagedJournal)); err != nil {
		return nil, fmt.Errorf("stage files: %w", err)
	}
	return s, nil
}

// stagedSteps lists the edits step by step.
func (o *Outcome) stagedSteps() []stagedStep {
	var steps []stagedStep
	n := 0
	for _, step := range o.inSteps() {
		staged := stagedStep{Message: step.message}
		for _, file := range step.files {
			edit := stagedEdit{File: file, Before: hash(o.Before[file]), After: hash(o.After[file])}
			if edit.After != "" {
				n++
				edit.Staged = strconv.Itoa(n)
			}
			staged.Edits = append(staged.Edits, edit)
		}
		steps = append(steps, staged)
	}
	return steps
}

// left is what an apply that died has left to do; nil if nothing.
func left(root string) (*staging, error) {
	s := &staging{root: root}
	if err := checkPaths(root, []string{stagingFolder, path.Join(stagingFolder, stagedJournal)}); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(s.at(stagedJournal))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	if err := s.checkOurs(content); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(content, &s.journal); err != nil {
		return nil, hint.Errorf("git status", "%s is not readable: %v", s.at(stagedJournal), err)
	}
	return s, checkPaths(root, s.journal.files())
}

// CheckFinished refuses a tree in which an apply died half-way.
func CheckFinished(root string) error {
	s, err := left(root)
	if err != nil || s == nil {
		return err
	}
	done, all := 0, 0
	for _, step := range s.journal.Steps {
		for _, edit := range step.Edits {
			all++
			if content, err := tree.ReadIfThere(root, edit.File); err == nil && hash(content) == edit.After {
				done++
			}
		}
	}
	return hint.Errorf(s.again(), "an apply ended before it was done: %d of %d files are in place", done, all)
}

// again is the command that goes on.
func (s *staging) again() string {
	return "api-migrator apply -C " + hint.Quote(s.root) + " " + hint.Quote(s.at(stagedPlan))
}

// check refuses to go on where someone else has changed a file, or one of the folder.
func (s *staging) check() error {
	for _, step := range s.journal.Steps {
		for _, edit := range step.Edits {
			done, err := s.isDone(edit)
			if err != nil {
				return err
			}
			if !done {
				if err := s.checkStaged(edit); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkStaged refuses a new content that is not the journal's.
func (s *staging) checkStaged(edit stagedEdit) error {
	if edit.Staged == "" {
		return nil
	}
	content, err := tree.ReadIfThere(s.root, path.Join(stagingFolder, edit.Staged))
	if err != nil {
		return err
	}
	if hash(content) != edit.After {
		return hint.Errorf("git status", "%s is not the content that %s was to get: put the files back as they "+
			"were, remove the folder %s, and apply the plan again",
			s.at(edit.Staged), edit.File, s.at(""))
	}
	return nil
}

// isDone reports whether a file is as it shall be. One that is not as it was either is an error.
func (s *staging) isDone(edit stagedEdit) (bool, error) {
	content, err := tree.ReadIfThere(s.root, edit.File)
	if err != nil {
		return false, err
	}
	switch hash(content) {
	case edit.After:
		return true, nil
	case edit.Before:
		return false, nil
	default:
		return false, hint.Errorf("git diff HEAD -- "+hint.Quote(s.target(edit)),
			"%s was changed while it was waiting to be changed: put it back as it was, or remove the folder %s and "+
				"the migration stays as it is", edit.File, s.at(""))
	}
}

// place brings one file to what it shall be, keeping its mode. Folders that had to be made are listed, outermost first.
func (s *staging) place(edit stagedEdit) (made []string, err error) {
	if err := checkPaths(s.root, []string{edit.File}); err != nil {
		return nil, err
	}
	if done, err := s.isDone(edit); err != nil || done {
		return nil, err
	}
	if err := s.checkStaged(edit); err != nil {
		return nil, err
	}
	target := filepath.FromSlash(edit.File)
	if edit.Staged == "" {
		return nil, s.remove(target)
	}
	err = s.change(func(root *os.Root) (err error) {
		if made, err = tree.MakeFolder(root, filepath.Dir(target)); err != nil {
			return err
		}
		if info, err := root.Stat(target); err == nil {
			return root.Chmod(staged(edit.Staged), info.Mode().Perm())
		}
		return nil
	})
	if err != nil {
		return made, err
	}
	return made, s.rename(staged(edit.Staged), target)
}

// forward puts every file in place. After an error, before is what goes back.
func (s *staging) forward(before map[string][]byte) error {
	var tried []triedEdit
	var made []string
	for _, step := range s.journal.Steps {
		for _, edit := range step.Edits {
			one := triedEdit{stagedEdit: edit}
			if info, err := os.Stat(s.target(edit)); err == nil {
				one.mode = info.Mode().Perm()
			}
			tried = append(tried, one)
			folders, err := s.place(edit)
			made = append(made, folders...)
			if err == nil {
				continue
			}
			return s.back(fmt.Errorf("replace %s: %w", edit.File, err), tried, made, before)
		}
	}
	return s.end()
}

// triedEdit is an edit with the mode that its file had; 0 without a file.
type triedEdit struct {
	stagedEdit
	mode fs.FileMode
}

// back undoes what was tried, and says why. If not even that can be done, the journal stays.
func (s *staging) back(why error, tried []triedEdit, made []string, before map[string][]byte) error {
	for _, edit := range tried {
		done, err := s.isDone(edit.stagedEdit)
		if err != nil || !done || edit.Before == edit.After {
			continue // it was not reached, or someone else has changed it
		}
		if err := s.putBack(edit, before[edit.File]); err != nil {
			return errors.Join(why, fmt.Errorf("put back %s: %w", edit.File, err))
		}
	}
	err := tree.Folder(s.root).Write(func(root *os.Root) error {
		for _, folder := range slices.Backward(made) {
			root.Remove(folder) //nolint:errcheck // one that is not empty stays
		}
		return nil
	})
	return errors.Join(why, err, s.end())
}

// putBack makes one file what it was. Its new content goes back into the folder first, whence the next apply takes it
// if this one dies.
func (s *staging) putBack(edit triedEdit, old []byte) error {
	target := filepath.FromSlash(edit.File)
	if edit.Staged != "" {
		content, err := os.ReadFile(s.target(edit.stagedEdit))
		if err != nil {
			return err
		}
		if err := s.write(edit.Staged, content); err != nil {
			return err
		}
	}
	if old == nil {
		return s.remove(target)
	}
	err := s.change(func(root *os.Root) error {
		return errors.Join(root.WriteFile(staged(stagedBack), old, 0o644), root.Chmod(staged(stagedBack), edit.mode))
	})
	if err != nil {
		return err
	}
	return s.rename(staged(stagedBack), target)
}

// end removes the journal, and then what is left of the folder.
func (s *staging) end() error {
	if err := s.remove(staged(stagedJournal)); err != nil {
		return fmt.Errorf("remove journal: %w", err)
	}
	if err := s.forget(); err != nil {
		return err
	}
	return s.clear()
}

// clear removes a folder without a journal. Its mark goes last, so that it is known as ours until it is gone.
func (s *staging) clear() error {
	mark, err := os.ReadFile(s.at(".gitignore"))
	switch {
	case errors.Is(err, fs.ErrNotExist): // no folder, or an empty one
		err := tree.Folder(s.root).Write(func(root *os.Root) error { return root.Remove(stagingFolder) })
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return hint.Errorf("ls -A "+hint.Quote(s.at("")),
				"%s is not a folder of api-migrator: it is in the way", s.at(""))
		}
		return nil
	case err != nil:
		return fmt.Errorf("look into folder: %w", err)
	}
	entries, err := os.ReadDir(s.at(""))
	if err != nil {
		return fmt.Errorf("look into folder: %w", err)
	}
	// A process that died while it wrote the mark had written nothing else.
	if half := len(entries) == 1 && isPrefix(string(mark), stagedMark); string(mark) != stagedMark && !half {
		return hint.Errorf("ls -A "+hint.Quote(s.at("")),
			"%s is not a folder of api-migrator: it is in the way", s.at(""))
	}
	for _, entry := range entries {
		if entry.Name() == ".gitignore" {
			continue
		}
		if err := s.remove(staged(entry.Name())); err != nil {
			return fmt.Errorf("empty folder: %w", err)
		}
	}
	if err := s.remove(staged(".gitignore")); err != nil {
		return fmt.Errorf("empty folder: %w", err)
	}
	return s.remove(stagingFolder)
}

// isPrefix reports whether a file was being written as whole when the process died.
func isPrefix(part, whole string) bool { return len(part) < len(whole) && whole[:len(part)] == part }
