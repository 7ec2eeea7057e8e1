// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// begun is what this machine keeps of retirements: nothing in a cluster tells a version that was removed from one that
// was never there, and the same command, given again, is to find the one done and to refuse the other.
type begun struct {
	// UID is that of the definition.
	UID types.UID `json:"uid"`
	// Versions are those whose retirement was begun.
	Versions []string `json:"versions"`
}

// lock keeps other processes of this machine from retiring a version of the same resource. A dry run only looks whether
// one does: it writes nothing here either, and works where nothing can be written.
func (r *retirement) lock() (unlock func(), err error) {
	name := "retire-" + r.resource.GroupResource.String()
	if r.flags.dryRun {
		r.place, unlock = checkpointFileIn(r.flags.migrate.dir, r.cluster, name), func() {}
		var locked bool
		if locked, err = r.place.locked(); locked {
			err = errLocked
		}
	} else if r.place, err = newCheckpointFile(r.flags.migrate.dir, r.cluster, name); err == nil {
		unlock, err = r.place.lock()
	}
	if errors.Is(err, errLocked) {
		return nil, hintedCode(fmt.Errorf("another kube-migrator of this machine is retiring a version of %s",
			r.resource.GroupResource),
			r.env.name+" plan "+r.resource.GroupResource.String(), exitWorkLeft)
	}
	return unlock, err
}

// recall reads which retirements were begun.
func (r *retirement) recall() error {
	var b begun
	if _, err := r.place.read(&b); err != nil {
		try := "rm " + quoted(r.place.path)
		if unread := (*fs.PathError)(nil); errors.As(err, &unread) {
			try = "ls -ld " + quoted(r.place.path) // what it says may be right
		}
		return hinted(fmt.Errorf("read what was begun: %w", err), try)
	}
	if b.UID == r.facts.Definition.Metadata.UID {
		r.facts.Begun = b.Versions
	}
	return nil
}

// remember notes that the retirement of the version is begun.
func (r *retirement) remember() error {
	version := r.flags.intent.Version
	if slices.Contains(r.facts.Begun, version) {
		return nil
	}
	err := r.place.write(begun{UID: r.facts.Definition.Metadata.UID,
		Versions: append(slices.Clone(r.facts.Begun), version)})
	if err != nil {
		return fmt.Errorf("note what is begun: %w", err)
	}
	return nil
}
