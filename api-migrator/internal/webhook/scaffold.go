// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"cmp"
	"fmt"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/artifacts"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

// editProjectFile leaves the webhooks of a kind in the entry of PROJECT whose code is served. The new entry begins as a
// copy of the old one.
func (s *hooks) editProjectFile() error {
	if s.Request.Old == request.OldRemove {
		return nil // there is one entry
	}
	name, text, err := project.ScaffoldFile(s.Project.Workspace, s.Dir(layout.OldPackage))
	if err != nil {
		return err
	}
	if s.MovesOnlyImporters() {
		return s.moveProjectEntries(name, text)
	}
	known := s.Known(name)
	if known == nil {
		return nil // it lists no kind that moves
	}
	for _, kind := range s.Request.Kinds {
		home, isOne := s.served.homeOf(kind)
		if !isOne {
			continue
		}
		content, line, err := s.withoutWebhooks(s.Known(name).Content, kind, home)
		switch {
		case err != nil:
			return fmt.Errorf("read %s: %w", name, err)
		case content != nil:
			s.Changes[name] = &changeset.Change{Content: content, Why: known.Why}
		case line > 0:
			s.Note(fmt.Sprintf("%s:%d", name, line), "lists webhooks of %s for %s and %s: the code serves defaulting and "+
				"validation for %s alone, and the conversion for the version that the others convert to", kind,
				s.name(layout.OldPackage), s.name(layout.NewPackage), s.name(home))
		}
	}
	return nil
}

// withoutWebhooks is PROJECT without the webhooks of a kind in the entry whose code is not served.
func (s *hooks) withoutWebhooks(content []byte, kind string, served layout.Home) (without []byte, line int, err error) {
	if served == layout.NewPackage {
		return artifacts.WithoutWebhooks(content, kind, s.Old.Group, s.Old.Version)
	}
	return artifacts.WithoutWebhooks(content, cmp.Or(s.Request.ToKind, kind), s.Group, s.Version)
}

// moveProjectEntries lists the webhooks of kinds that both versions have with the version that is served from now on.
func (s *hooks) moveProjectEntries(name string, content []byte) error {
	for _, kind := range s.Request.Kinds {
		home, isOne := s.served.homeOf(kind)
		if !isOne || home != layout.NewPackage {
			continue
		}
		moved, line, err := artifacts.MoveWebhooks(content, kind, s.Old.Name(), s.Group+"/"+s.Version)
		switch {
		case err != nil:
			return fmt.Errorf("read %s: %w", name, err)
		case moved != nil:
			content = moved
			s.Changes[name] = &changeset.Change{Content: content, Why: "lists webhooks with the version that is served"}
		case line > 0:
			s.Note(fmt.Sprintf("%s:%d", name, line), "lists webhooks of %s for %s: the code serves them for %s from now on",
				kind, s.name(layout.OldPackage), s.name(layout.NewPackage))
		}
	}
	return nil
}
